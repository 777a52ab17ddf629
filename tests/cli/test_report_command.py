"""`dask-rac report`, once and while a run is in progress, and the recipe step."""

import json
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

import dask_rac
from dask_rac.base.errors import DamagedStoreError
from dask_rac.cli import report
from dask_rac.cli.report import Pace, Pages
from dask_rac.store.overview import Overview
from tests.support.browser import Page
from tests.support.command import alone, done, rac, refused
from tests.support.crash import PATIENCE, Child, await_file, begin, patch_calls, path_edges, write_edges
from tests.support.recipes import actions, runner
from tests.support.recipes import run as run_recipe
from tests.support.terminal import Terminal

NODES = 600


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("runs")
    dask_rac.datasets.lattice(NODES, 6, 0, folder / "edges", weights="similarity")
    dask_rac.cluster(folder / "edges", weights="similarity", store=folder / "run", shards=2)
    return folder / "run"


def stepwise(edges: Path, store: Path) -> None:
    """A run that waits for a file before each of its first steps: go0 before its edges count as read, go1, go2."""
    waiting = iter(["go0", "go1", "go2"])

    def wait(after: bool) -> None:
        if not after and (name := next(waiting, None)):
            await_file(store.parent / name)

    with patch_calls("dask_rac.store.manifest.commit", wait):
        begin(edges, store)


def let_go(store: Path, *steps: int) -> None:
    for step in steps:
        (store.parent / f"go{step}").touch()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The path of a future run; its edges exist already."""
    write_edges(tmp_path / "edges", path_edges(300))
    return tmp_path / "run"


class Watcher:
    """Follows a run in a thread, with short pauses, so that tests are fast even on a busy machine."""

    def __init__(self, store: Path, output: Path) -> None:
        self._pages = Pages(str(store), str(output), (), lambda _: None, False, Pace(idle=0, second_look=0.1))
        self._found: list[Overview] = []
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        self._found.append(self._pages.follow(0.05))

    def join(self) -> str:
        """The status of the run when it ended."""
        self._thread.join(PATIENCE)
        return self._found[0].status


def await_page(path: Path, holds: Callable[[str], object]) -> str:
    """Wait until a condition holds for the page, and return it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        text = path.read_text() if path.exists() else ""
        if holds(text):
            return text
        time.sleep(0.01)
    raise AssertionError(f"{path} never came to be so")


def status(page: str) -> str:
    return "".join(re.findall(r'class="status ([\w-]+)"', page))


def merges(page: str) -> int:
    found = re.findall(r"<dt>merges</dt><dd>([\d,]+)", page)
    return int(found[0].replace(",", "")) if found else -1


class TestOnce:
    def test_writes_a_page_and_says_where(self, run: Path, tmp_path: Path, page: Page) -> None:
        assert done("report", run, "-o", "report.html", "--height", "0.3", cwd=tmp_path) == "report.html\n"
        text = (tmp_path / "report.html").read_text()
        assert (status(text), merges(text)) == ("finished", NODES - 1)
        assert 'http-equiv="refresh"' not in text
        page.size(1280).open(tmp_path / "report.html")
        assert page.errors() == []
        command = page.run("return document.querySelector('#cut .line code').textContent")
        assert command == f"dask-rac cut {run} --height 0.3 -o labels.parquet"
        failed = refused("report", run, "-o", "report.html", cwd=tmp_path)
        assert (failed.returncode, "report.html exists" in failed.stderr) == (2, True)
        assert (tmp_path / "report.html").read_text() == text
        again = ("--overwrite", "--watch", "--title", "All <b> nodes")
        assert done("report", run, "-o", "report.html", *again, cwd=tmp_path) == "report.html\n"
        titled = (tmp_path / "report.html").read_text()
        assert re.findall("<h1>(.*?)</h1>", text) == [str(run)]
        assert re.findall("<h1>(.*?)</h1>", titled) == ["All &lt;b&gt; nodes"]

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["no-run", "-o", "x.html"], "no-run does not exist"),
            (["RUN", "-o", "x.txt"], "must end in .html"),
            (["RUN", "-o", "x.html", "--interval", "3"], "--interval only works with --watch"),
            (["RUN", "-o", "x.html", "--watch", "--interval", "0"], "--interval 0 is not a valid interval"),
            (["RUN", "-o", "x.html", "--height", "1", "--height", "nan"], "--height nan is not a height to cut at"),
            (["RUN", "-o", "x.html", "--height", "-inf"], "--height -inf is not a height to cut at"),
            (["RUN", "-o", "x.html", "--title", " "], "is not a title: give some text, or leave it out"),
        ],
    )
    def test_refuses(self, words: list[str], message: str, run: Path, tmp_path: Path) -> None:
        failed = refused("report", *(str(run) if word == "RUN" else word for word in words), cwd=tmp_path)
        assert failed.returncode == 2
        assert message in failed.stderr
        assert list(tmp_path.iterdir()) == []

    def test_without_bokeh(self, run: Path, tmp_path: Path) -> None:
        (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['bokeh'] = None\n")
        words = ("report", run, "-o", "report.html")
        failed = alone(*words, cwd=tmp_path, PYTHONPATH=str(tmp_path), PYTHONDONTWRITEBYTECODE="1")
        assert (failed.returncode, "pip install 'dask-rac[plot]'" in failed.stderr) == (2, True)
        assert [path.name for path in tmp_path.iterdir()] == ["sitecustomize.py"]

    def test_a_damaged_store_is_told_and_shown(self, run: Path, tmp_path: Path) -> None:
        store = shutil.copytree(run, tmp_path / "run")
        (store / "manifests/00001.json").write_text("{}")
        failed = refused("report", store, "-o", "report.html", cwd=tmp_path)
        assert failed.returncode == 4
        assert "manifests/00001.json is damaged" in failed.stderr
        text = (tmp_path / "report.html").read_text()
        assert 'id="remark-damaged"' in text
        assert 'id="canvas-rounds"' in text
        assert f"dask-rac resume {store}" in text


class TestWatch:
    def test_follows_a_run_from_its_edges_to_its_end(self, store: Path, tmp_path: Path, page: Page) -> None:
        output = tmp_path / "report.html"
        child = Child(stepwise, tmp_path / "edges", store)
        await_file(store / "rac.json")
        watcher = Watcher(store, output)
        early = await_page(output, bool)
        assert status(early) == "running"
        assert "edges not read yet" in early
        assert '<meta http-equiv="refresh" content="1">' in early
        page.size(1280).open(output)
        page.run("window.old = true")
        let_go(store, 0)
        read = await_page(output, lambda text: merges(text) == 0)
        assert "<dt>nodes</dt><dd>300" in read
        let_go(store, 1)
        some = await_page(output, lambda text: merges(text) > 0)
        assert (status(some), merges(some) < 299) == ("running", True)
        assert 'id="remark-unfinished"' in some
        assert 'http-equiv="refresh"' in some
        page.wait_for("!window.old && document.getElementById('slider')")
        let_go(store, 2)
        assert watcher.join() == "finished"
        assert child.join() is None
        last = output.read_text()
        assert (status(last), merges(last)) == ("finished", 299)
        assert 'http-equiv="refresh"' not in last
        page.wait_for("document.querySelector('.status.finished')")
        assert page.wait().errors() == []

    def test_a_killed_run_has_stopped(self, store: Path, tmp_path: Path) -> None:
        output = tmp_path / "report.html"
        child = Child(stepwise, tmp_path / "edges", store)
        let_go(store, 0, 1)
        await_file(store / "manifests/00001.json")
        watcher = Watcher(store, output)
        await_page(output, lambda text: merges(text) > 0)
        os.kill(child.pid, signal.SIGKILL)
        assert child.join() == signal.SIGKILL
        assert watcher.join() == "stopped"
        text = output.read_text()
        assert status(text) == "stopped"
        assert 'http-equiv="refresh"' not in text
        assert f"dask-rac resume {store}" in text
        ended = rac("report", store, "-o", "more.html", "--watch", cwd=tmp_path)
        assert (ended.returncode, ended.stdout) == (0, "more.html\n")
        assert (
            f"has stopped: the report shows the merges so far; resume it with `dask-rac resume {store}`" in ended.stderr
        )
        assert done("report", store, "-o", "quiet.html", "--quiet", cwd=tmp_path) == "quiet.html\n"

    def test_ctrl_c_leaves_the_last_page(self, store: Path, tmp_path: Path) -> None:
        child = Child(stepwise, tmp_path / "edges", store)
        await_file(store / "rac.json")
        output = tmp_path / "report.html"
        terminal = Terminal("report", store, "-o", output.name, "--watch", cwd=tmp_path)
        await_page(output, bool)
        os.killpg(terminal.process.pid, signal.SIGINT)
        screen = "".join(terminal.watch())
        assert terminal.process.returncode == 130
        assert screen.startswith("dask-rac: stopped; report.html is the last page of")
        assert status(output.read_text()) == "running"
        let_go(store, 0, 1, 2)
        assert child.join() is None


class TestPace:
    """A clock that only sleeping and writing advance."""

    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        now = [0.0]
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
        return now

    def follow(
        self, interval: float, statuses: dict[float, str], clock: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> list[float]:
        """Return when each page is begun, if each takes two seconds; `statuses` are those of the run from a time on."""
        begun: list[float] = []

        def look(*_: object) -> object:
            return type("Look", (), {"status": [state for at, state in statuses.items() if at <= clock[0]][-1]})

        def write(*_: object) -> object:
            begun.append(clock[0])
            found = look()
            clock[0] += 2.0
            return found

        monkeypatch.setattr(Pages, "write", write)
        monkeypatch.setattr("dask_rac.store.overview.overview", look)
        Pages("run", "report.html", (), lambda _: None, False).follow(interval)
        return begun

    def test_pages_that_take_long_are_rare(self, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.follow(5, {0: "running", 45: "finished"}, clock, monkeypatch) == [0, 20, 40, 47]

    def test_others_come_as_asked_for(self, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.follow(30, {0: "running", 33: "stopped"}, clock, monkeypatch) == [0, 32, 64]

    @pytest.mark.parametrize(("begins", "waited"), [(0.0, 0.0), (7.0, 7.2), (99.0, 30.0)])
    def test_a_run_may_begin_a_while_later(
        self, begins: float, waited: float, clock: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dask_rac.files.folder.Folder.exists", lambda *_: clock[0] >= begins)
        notices: list[tuple[float, str]] = []
        report.await_run("run", lambda text: notices.append((clock[0], text)))
        assert clock[0] == pytest.approx(waited, abs=0.31)
        assert notices == [(0.0, "waiting up to 30 s for run to start")] * (begins > 0)

    @pytest.mark.parametrize("quiet", [False, True])
    def test_what_is_waited_for_is_told(self, quiet: bool, tmp_path: Path, clock: list[float]) -> None:
        failed = refused("report", "typo", "-o", "x.html", "--watch", *["--quiet"] * quiet, cwd=tmp_path)
        assert "typo does not exist" in failed.stderr
        assert ("for typo to start" in failed.stderr) != quiet
        assert clock[0] == pytest.approx(30.0, abs=0.31)

    @pytest.mark.parametrize("state", ["running", "stopped"])
    def test_what_a_run_takes_away_is_read_again(
        self, state: str, clock: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        faults: list[Exception] = [FileNotFoundError("gone"), DamagedStoreError("torn")]

        def write(*_: object) -> object:
            if faults:
                raise faults.pop()
            return type("Look", (), {"status": "finished"})

        monkeypatch.setattr(Pages, "write", write)
        monkeypatch.setattr("dask_rac.store.overview.overview", lambda _: type("Look", (), {"status": state}))
        pages = Pages("run", "report.html", (), lambda _: None, False)
        with nullcontext() if state == "running" else pytest.raises(DamagedStoreError, match="torn"):
            assert pages.follow(1.0).status == "finished"


RECIPE = {
    "generate": {"nodes": 400, "degree": 6, "weights": "similarity"},
    "cluster": {"weights": "similarity", "shards": 2},
    "report": {"height": [0.2, 0.4], "title": "A lattice"},
}


class TestStep:
    @pytest.fixture
    def recipe(self, tmp_path: Path) -> Path:
        path = tmp_path / "recipe.yaml"
        path.write_text(yaml.safe_dump({"folder": str(tmp_path / "made"), "steps": RECIPE}, sort_keys=False))
        return path

    def test_is_done_once_and_refused_when_changed(self, recipe: Path, tmp_path: Path) -> None:
        planned = runner(recipe).plan()
        assert planned[-1].forecast.text == "a page, 10 MB at most"
        assert run_recipe(recipe) == dict.fromkeys(RECIPE, "do")
        made = tmp_path / "made/report.html"
        before = made.read_bytes()
        assert run_recipe(recipe) == dict.fromkeys(RECIPE, "skip")
        with pytest.raises(dask_rac.InputError, match=r"step 'report' has changed .*--from report"):
            run_recipe(recipe, "report.height=0.3")
        assert made.read_bytes() == before
        assert actions(runner(recipe, "report.height=0.3").plan("report"))["report"] == "again"
        assert run_recipe(recipe, "report.height=0.3", start="report")["cluster"] == "skip"
        assert b">0.3</button>" in made.read_bytes()
        assert b"<h1>A lattice</h1>" in made.read_bytes()
        assert sorted(path.name for path in made.parent.iterdir()) == ["edges", "lock", "report.html", "run", "steps"]
        record = json.loads((tmp_path / "made/steps/report.json").read_text())
        assert (record["given"]["height"], record["facts"]) == (0.3, {"merges": 399})

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ("report.output=report.pdf", "line 10: step 'report': .*must end in .html"),
            ("report.height=.inf", "step 'report': height: inf is not possible"),
            ("report.height=high", "height of step 'report' must be a number, or a list of these"),
            ("report.heights=1", "has no key 'heights': did you mean 'height'"),
            ("report.title=''", "title of step 'report' must be text"),
            ("report.title='  '", "step 'report': title.* is not a title: give some text"),
        ],
    )
    def test_is_checked_before_anything_starts(self, recipe: Path, change: str, message: str) -> None:
        with pytest.raises(dask_rac.InputError, match=message):
            runner(recipe, change)
        assert [path.name for path in recipe.parent.iterdir()] == ["recipe.yaml"]
