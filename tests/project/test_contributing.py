"""CONTRIBUTING.md names rooms, files and functions that exist."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.root import ROOT

PACKAGE = ROOT / "dask_rac"
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
NAME = r"`[A-Za-z_][\w.]*`"
HOP = re.compile(rf"`([\w/]+\.py)` ({NAME}(?:(?:,| or| and) {NAME})*)")
WALKS = dict(re.findall(r"^### (.+)\n\n((?:\d+\. .+\n)+)", TEXT, flags=re.MULTILINE))


def hops(text: str) -> list[tuple[str, str]]:
    """Return every file and name that a text mentions together, in order."""
    return [(path, name.strip("`")) for path, names in HOP.findall(text) for name in re.findall(NAME, names)]


def defined(body: list[ast.stmt], before: str = "") -> Iterator[str]:
    """Yield the functions, classes, methods and constants of a module."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield before + node.name
        elif isinstance(node, ast.ClassDef):
            yield before + node.name
            yield from defined(node.body, f"{before}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not before:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def names_in(path: Path) -> set[str]:
    return set(defined(ast.parse(path.read_text()).body))


def rooms_of(lines: list[str]) -> list[set[str]]:
    return [set(line.split(" | ")) for line in lines]


def test_rooms_are_the_folders_and_the_layers() -> None:
    drawing = next(block for block in re.findall(r"```\n(.*?)```", TEXT, flags=re.DOTALL) if block.startswith("cli\n"))
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "rooms")
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    described = re.findall(r"^- `(\w+)`: ", TEXT, flags=re.MULTILINE)
    assert rooms_of(drawing.splitlines()) == rooms_of(layers)
    assert set.union(*rooms_of(layers)) == folders
    assert sorted(described) == sorted(folders)


def test_there_are_five_walks() -> None:
    assert list(WALKS) == [
        "An edge to a label, in memory",
        "The same through a store",
        "A vector to an edge",
        "A vector to a label, all pairs",
        "A recipe to a result",
    ]


@pytest.mark.parametrize("walk", WALKS)
def test_every_hop_of_a_walk_exists(walk: str) -> None:
    lines = WALKS[walk].splitlines()
    assert [int(line.partition(".")[0]) for line in lines] == list(range(1, len(lines) + 1))
    for line in lines:
        found = hops(line)
        assert found, f"{line} names no function"
        assert len({path for path, _ in found}) == len(re.findall(r"`[\w/]+\.py`", line)), (
            f"{line}: a file without a name"
        )
        for path, name in found:
            assert name in names_in(PACKAGE / path), f"{path} has no {name}"


def test_every_other_path_exists() -> None:
    for path in re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|md|toml|yaml|yml|ipynb))`", TEXT):
        assert (ROOT / path).exists() or (PACKAGE / path).exists(), path
    for folder in re.findall(r"`(\w+/(?:\w+/?)*)`", TEXT):
        assert (ROOT / folder).is_dir() or (PACKAGE / folder).is_dir() or folder == "dask_rac/", folder


def test_the_test_would_notice_a_name_that_is_gone() -> None:
    assert hops("1. `a/b.py` `one`, `two` or `Three.four`: see `c.py` `five`, or `d.py`") == [
        ("a/b.py", "one"),
        ("a/b.py", "two"),
        ("a/b.py", "Three.four"),
        ("c.py", "five"),
    ]
    source = "X = 1\nY: int = 2\ndef f(): ...\nclass C:\n    z = 1\n    def g(self): ...\n"
    assert set(defined(ast.parse(source).body)) == {"X", "Y", "f", "C", "C.g"}
