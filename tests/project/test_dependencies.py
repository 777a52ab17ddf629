"""What the package imports is declared, and nothing in it makes objects of what a file holds."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.support.root import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = sorted((ROOT / "dask_rac").rglob("*.py"))


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: list[str]) -> set[str]:
    return {plain(re.split(r"[\[<>=!~; ]", text)[0]) for text in requirements}


def imports(path: Path) -> Iterator[str]:
    """The packages that a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_imports_are_declared() -> None:
    extras = {
        name
        for extra in ("ann", "coiled", "images", "kubernetes", "plot", "sklearn")
        for name in PROJECT["optional-dependencies"][extra]
    }
    known = declared([*PROJECT["dependencies"], *extras])
    owners = packages_distributions()
    others = {name for path in MODULES for name in imports(path)} - sys.stdlib_module_names - {"dask_rac"}
    missing = {name for name in others if not {plain(owner) for owner in owners.get(name, [name])} & known}
    # Parts of numba and distributed; and IPython is imported only within it.
    assert missing <= {"llvmlite", "tornado", "IPython"}
    assert {"jinja2", "markupsafe"} <= declared(PROJECT["dependencies"])


@pytest.mark.parametrize(
    ("package", "least"),
    [("distributed", (2026, 1)), ("dask", (2026, 1)), ("fsspec", (2026, 6)), ("jinja2", (3, 1, 6))],
)
def test_versions_with_known_holes_are_not_admitted(package: str, least: tuple[int, ...]) -> None:
    bound = next(text for text in PROJECT["dependencies"] if re.match(rf"{package}[\[>]", text))
    assert tuple(map(int, bound.rpartition(">=")[2].split("."))) >= least


FORBIDDEN = re.compile(
    r"import (?:pickle|cloudpickle|dill|joblib|marshal|shelve)\b|from (?:pickle|cloudpickle|dill|joblib|marshal) "
    r"|allow_pickle=True|read_pickle|yaml\.(?:unsafe_|full_)?load\(|yaml\.(?:Full|Unsafe)?Loader\b|\b(?:eval|exec)\("
)


def test_nothing_in_a_file_is_executed() -> None:
    found = [f"{path.name}: {hit[0]}" for path in MODULES for hit in FORBIDDEN.finditer(path.read_text())]
    assert not found
