"""The tests themselves: what they share is where it belongs."""

import ast

import pytest

from tests.support.root import ROOT

FILES = sorted(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py"))


def imported(tree: ast.Module) -> set[str]:
    """The last parts of the names that a module imports, and of the modules that it imports from."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [alias.name for node in nodes for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.rpartition(".")[2] for name in names}


def test_no_module_imports_from_a_module_of_tests() -> None:
    tests = {file.stem for file in FILES if file.stem.startswith("test_")}
    assert len(tests) > 40
    found = {str(file): imported(ast.parse((ROOT / file).read_text())) & tests for file in FILES}
    assert not {file: names for file, names in found.items() if names}


@pytest.mark.parametrize("folder", sorted({str(file.parent) for file in FILES}))
def test_every_folder_is_a_package(folder: str) -> None:
    assert (ROOT / folder / "__init__.py").is_file()
