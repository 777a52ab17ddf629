"""The documentation is right, and the site builds without warnings, network access or dead links."""

from __future__ import annotations

import doctest
import inspect
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zlib
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import click
import dask
import pytest
import yaml
from click.testing import CliRunner
from distributed import default_client

import dask_rac
from dask_rac.base.settings import checked_settings
from dask_rac.base.text import size_text
from dask_rac.cli import main
from dask_rac.engines.contract import Expected
from dask_rac.runs.plan import plan_sizes
from dask_rac.tasks.budget import Budget
from tests.support.clients import forked_workers
from tests.support.root import ROOT

PAGES = {path.stem: path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ dask-rac (.*)$", re.MULTILINE)
"""Also commands in a `code-block`, which is shown but not run."""


def table(page: str, head: str) -> list[list[str]]:
    """Return the rows of the table whose first column has the given heading."""
    rows = PAGES[page].partition(f"| {head} |")[2].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]


# Examples.


@pytest.mark.parametrize("name", [name for name, text in PAGES.items() if re.search("^```py", text, re.MULTILINE)])
def test_examples_run_and_print_what_is_shown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    failures: list[str] = []
    with forked_workers():
        try:
            for block in BLOCK.finditer(PAGES[name]):
                language, code = block.groups()
                line = PAGES[name].count("\n", 0, block.start(2))
                if language == "python":
                    exec(compile("\n" * line + code, f"{name}.md", "exec"), names)
                elif language == "pycon":
                    test = doctest.DocTestParser().get_doctest(code, names, f"{name}.md", f"{name}.md", line)
                    runner.run(test, out=failures.append, clear_globs=False)
                    names = test.globs
        finally:
            with suppress(ValueError):  # a page that failed may have left its client
                default_client().shutdown()
    assert not failures, "".join(failures)


def test_every_command_shown_is_one() -> None:
    shown = [line for text in PAGES.values() for line in COMMAND.findall(text)]
    assert len(shown) > 20
    for line in shown:
        command: click.Command = main
        context, rest = None, shlex.split(line, comments=True)
        while isinstance(command, click.Group):
            context = click.Context(command, context)
            _, chosen, rest = command.resolve_command(context, rest)
            assert chosen is not None, line
            command = chosen
        command.make_context("", rest, context)


def test_the_session_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGES["commands"])
    (recipe,) = [text for language, text in blocks if language == "yaml"]
    Path("quickstart.yaml").write_text(recipe)
    for line in [line for language, text in blocks if language == "console" for line in COMMAND.findall(text)]:
        done = CliRunner().invoke(main, shlex.split(line))
        assert done.exit_code == 0, f"{line}\n{done.output}"
    assert {"labels.parquet", "fifty.csv", "tree.nwk"} <= {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "quickstart" / "fifty.csv").is_file()


# Tables.


def test_the_table_of_plans() -> None:
    rows = table("planning", "millions of nodes")
    assert len(rows) == 9
    for nodes, edges, linkage, weights, memory, places, *shown in rows:
        processes, threads = map(int, places.split(" x "))
        n, m = (10**6 * int(count.replace(",", "")) for count in (nodes, edges))
        settings = checked_settings(linkage, None, weights, None, "error", True)
        budget = Budget(int(dask.utils.parse_bytes(memory)), processes, threads)
        plan = plan_sizes(Expected(n, m, "float32", 0), settings, None, budget)
        assert shown == [str(plan.shards), *map(size_text, (plan.shard_bytes, plan.memory, plan.disk))]


def test_the_table_of_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {row[0] for row in table("install", "extra")} == set(project["optional-dependencies"]) - {
        "bench",
        "dev",
        "test",
    }


def test_the_table_of_settings() -> None:
    settings = yaml.safe_load((ROOT / "dask_rac" / "dask-rac.yaml").read_text())["rac"]
    assert [row[0] for row in table("commands", "setting")] == [f"rac.{name}" for name in settings]


SQUARE = [0, 2, 0, 1], [1, 3, 2, 3]  # a-b, c-d, a-c, b-d


def test_the_table_of_missing() -> None:
    rows = {row[0].split("`")[0].strip('"'): row[1:3] for row in table("linkage", "`missing`")}
    assert list(rows) == ["far", "ignore", "infinite", "10.0", "0.0"]
    for name, cells in rows.items():
        missing = name if name.isalpha() else float(name)
        similar = missing == 0.0
        weights = [9.0, 9.0, 2.0, 4.0] if similar else [1.0, 1.0, 2.0, 4.0]
        for linkage, cell in zip(("average", "complete"), cells, strict=True):
            options: dict[str, Any] = {"weights": "similarity"} if similar else {"missing": missing}
            heights = dask_rac.cluster((*SQUARE, weights), linkage, **options).merges["height"].tolist()
            last = [] if cell == "never merge" else [float(cell.split("=")[-1])]
            assert heights == weights[:2] + last, (name, linkage)


@pytest.mark.parametrize(("page", "least"), [("algorithm", 15), ("paper", 9)])
def test_what_vouches_for_a_promise_or_a_theorem_is_there(page: str, least: int) -> None:
    named = re.findall(r"`(test_\w+\.py)::(\w+)`", PAGES[page])
    assert len(named) > least
    for file, test in named:
        (path,) = (ROOT / "tests").rglob(file)
        assert f"\ndef {test}(" in path.read_text(), f"{file}::{test}"


def test_files_that_pages_name_are_there() -> None:
    named = {name for text in PAGES.values() for name in re.findall(r"`((?:notebooks|pipelines)/[\w./-]*)`", text)}
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


# The site.


class Page(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        """What a browser fetches by itself."""
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("iframe", "img", "link", "script") and (target := given.get("src", given.get("href"))):
            self.loads.append(target)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages, built without a warning."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("_build", "generated"))
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-b", "html", "docs", "html"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """All pages, by path."""
    return {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}


def test_every_public_name_and_method_is_on_the_site(site: Path) -> None:
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    there = {line.split(" ", 1)[0] for line in zlib.decompress(inventory).decode().splitlines()}
    names = {f"dask_rac.{name}" for name in dask_rac.__all__ if name != "datasets"}
    names |= {f"dask_rac.datasets.{name}" for name in dask_rac.datasets.__all__}
    assert sorted(names - there) == []
    for cls in filter(inspect.isclass, (getattr(dask_rac, name) for name in dask_rac.__all__)):
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            if method.__module__.startswith("dask_rac") and not name.startswith("_"):
                places = {f"dask_rac.{parent.__name__}.{name}" for parent in cls.__mro__}
                assert places & there, f"{cls.__name__}.{name}"


def test_no_link_is_dead(pages: dict[Path, Page]) -> None:
    dead = []
    for path, page in pages.items():
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            if not target.exists() or (place and target in pages and place not in pages[target].anchors):
                dead.append((path.name, link))
    assert dead == []


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    assert [link for page in pages.values() for link in page.loads if urlsplit(link).netloc] == []
    for path in site.rglob("*.css"):
        assert not re.search(r"""(?:url\(|@import)\s*["']?\s*(?:https?:)?//""", path.read_text()), path.name
