"""What commands print and how they end: in their own process where that matters, else in this one."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr

import dask_rac
from dask_rac.cli.translation import as_command, as_recipe
from dask_rac.files.folder import Folder
from tests.support.command import alone, command_line, done, environment, rac, refused
from tests.support.terminal import Terminal

COMMANDS = ["demo", "generate", "generate lattice", "ingest", "cluster", "resume", "plan", "info", "verify", "cut"]
COMMANDS += ["export", "run", "completion", "generate sift", "generate documents", "graph", "graph knn", "graph eps"]
COMMANDS += ["graph complete", "report", "score", "assign", "extend", "members", "path", "forecast", "probe"]

NODES = 600


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edges") / "edges"
    dask_rac.datasets.lattice(NODES, 6, 0, folder, weights="similarity")
    return folder


@pytest.fixture(scope="module")
def run(edges: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    store = tmp_path_factory.mktemp("runs") / "run"
    dask_rac.cluster(edges, weights="similarity", store=store, shards=2)
    return store


def merges(store: Path) -> pd.DataFrame:
    frame: pd.DataFrame = dask_rac.open(store).merges.compute().reset_index(drop=True)
    return frame


def imported(code: str) -> set[str]:
    """The packages, Python's own apart, that a new process has imported when it has run some code."""
    listing = "print(*{name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names), file=sys.stderr)"
    found = []
    for part in ("", code):
        words = [sys.executable, "-c", f"import sys\n{part}\n{listing}"]
        found.append(set(subprocess.run(words, capture_output=True, text=True, check=True).stderr.split()))
    return found[1] - found[0]


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_begins_with_an_example_and_fits_a_screen(self, command: str, tmp_path: Path) -> None:
        lines = done(*command.split(), "--help", cwd=tmp_path).splitlines()
        assert len(lines) <= 26
        assert max(map(len, lines)) <= 80
        assert lines[2].startswith(f"  Example: dask-rac {command.split(maxsplit=1)[0]}")

    def test_of_all(self, tmp_path: Path) -> None:
        printed = done("--help", cwd=tmp_path)
        listed = re.findall(r"^  ([a-z]+)  ", printed.partition("Commands:")[2], flags=re.MULTILINE)
        assert sorted(listed) == sorted(command for command in COMMANDS if " " not in command)

    def test_needs_none_of_the_libraries(self) -> None:
        assert imported("import dask_rac.cli") == {"click", "dask_rac"}

    def test_answers_at_once(self) -> None:
        # What takes time are imports: the fewest that a command can do with, whatever else the machine does.
        code = "from dask_rac.cli import main; main(['--help'], standalone_mode=False)"
        assert imported(code) == {"click", "dask_rac"}

    def test_is_a_command_of_dasks(self, tmp_path: Path, run: Path) -> None:
        dask = [sys.executable, "-m", "dask"]
        answer = subprocess.run([*dask, "rac", "info", run], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert answer.returncode == 0, answer.stderr
        assert "finished" in answer.stdout
        failed = subprocess.run([*dask, "rac", "info", "x"], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert failed.returncode == 2

    def test_version(self, tmp_path: Path) -> None:
        ended = alone("--version", cwd=tmp_path)
        assert (ended.stdout, ended.stderr) == (f"dask-rac {dask_rac.__version__}\n", "")

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_completion_script(self, shell: str, tmp_path: Path) -> None:
        assert "_DASK_RAC_COMPLETE" in done("completion", shell, cwd=tmp_path)

    def test_completes(self, tmp_path: Path) -> None:
        def completed(words: str, word: int) -> list[str]:
            answer = rac(cwd=tmp_path, _DASK_RAC_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(word))
            return [line.partition(",")[2] for line in answer.stdout.splitlines()]

        assert completed("dask-rac cl", 1) == ["cluster"]
        assert completed("dask-rac cluster x --linkage s", 4) == ["single"]
        assert completed("dask-rac cluster x --missing i", 4) == ["ignore", "infinite"]
        assert completed("dask-rac cluster x --scheduler l", 4) == ["local:2x1"]


class TestCommands:
    def test_from_nothing_to_labels(self, tmp_path: Path) -> None:
        made = done("generate", "lattice", "--nodes", "500", "--degree", "6", "-o", "edges", cwd=tmp_path)
        assert made == "edges\n"
        done("cluster", "edges", "-o", "run", "--linkage", "complete", "--shards", "2", cwd=tmp_path)
        expected = dask_rac.cluster(str(tmp_path / "edges"), "complete")
        columns = ["left", "right", "height", "size"]
        pd.testing.assert_frame_equal(
            merges(tmp_path / "run")[columns].sort_values(["height", "size", "left"], ignore_index=True),
            expected.merges[columns].sort_values(["height", "size", "left"], ignore_index=True),
        )
        for name in ("labels.parquet", "labels.zarr", "labels.csv"):
            assert done("cut", "run", "--n-clusters", "9", "-o", name, cwd=tmp_path) == f"{name}\n"
        labels = expected.cut(n_clusters=9)
        assert np.array_equal(pd.read_parquet(tmp_path / "labels.parquet")["label"], labels)
        assert np.array_equal(pd.read_csv(tmp_path / "labels.csv")["label"], labels)
        assert np.array_equal(np.asarray(zarr.open_array(tmp_path / "labels.zarr", mode="r")[:])[0], labels)

    def test_settings_reach_the_run(self, edges: Path, tmp_path: Path) -> None:
        words = "--linkage average --missing 0.1 --weights similarity --max-height 0.3 --n-nodes 700 --no-finisher"
        done("cluster", edges, "-o", "run", *words.split(), "--duplicates", "max", "--memory", "1GB", cwd=tmp_path)
        printed = json.loads(done("info", "run", "--json", cwd=tmp_path))
        assert printed["parameters"] == {
            "linkage": "average",
            "missing": 0.1,
            "weights": "similarity",
            "max_height": 0.3,
            "duplicates": "max",
            "finisher": False,
            "epsilon": 0.0,
        }
        assert printed["facts"]["nodes"] == 700
        assert printed["status"] == "finished"
        assert printed["heights"][1] >= 0.3

    def test_info_for_people(self, run: Path, tmp_path: Path) -> None:
        printed = done("info", run, "--tree", cwd=tmp_path)
        assert max(map(len, printed.splitlines())) <= 80
        for text in ("finished", f"{NODES} nodes", "average of similarity", f"{NODES - 1} merges".split()[0], "█"):
            assert text in printed
        assert "top of the tree" in printed
        assert f"└── {NODES} nodes at" in printed

    def test_info_on_the_way(self, edges: Path, tmp_path: Path) -> None:
        def stop(event: dask_rac.Event) -> None:
            if event.stage == "round":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            dask_rac.cluster(edges, weights="similarity", store=tmp_path / "run", shards=2, progress=stop)
        assert json.loads(done("info", "run", "--json", cwd=tmp_path))["status"] == "stopped"
        assert "so far" in done("info", "run", cwd=tmp_path)
        with Folder(tmp_path / "run").locked():
            assert json.loads(done("info", "run", "--json", cwd=tmp_path))["status"] == "running"
        cut = rac("cut", "run", "--height", "0.5", "-o", "labels.csv", cwd=tmp_path)
        assert cut.returncode == 0
        assert "warning: run is not finished" in cut.stderr
        export = refused("export", "run", "-o", "tree.npy", cwd=tmp_path)
        assert export.returncode == 2
        assert "resume with `dask-rac resume" in export.stderr

    def test_plan(self, edges: Path, tmp_path: Path) -> None:
        printed = json.loads(done("plan", edges, "--memory", "1GB", "--shards", "3", "--json", cwd=tmp_path))
        planned = dask_rac.plan(edges, memory="1GB", shards=3)
        assert printed["shards"] == planned.shards == 3
        assert printed["disk"] == planned.disk
        assert printed["budget"]["memory"] == 1_000_000_000
        assert "3 of" in done("plan", edges, "--memory", "1GB", "--shards", "3", cwd=tmp_path)
        assert not list(tmp_path.iterdir())

    def test_verify(self, run: Path, edges: Path, tmp_path: Path) -> None:
        assert f"{NODES - 1} merges verified against {3 * NODES:,} edges" in done("verify", run, cwd=tmp_path)
        assert json.loads(done("verify", run, "--edges", edges, "--json", cwd=tmp_path))["wrong"] == 0

    def test_export(self, run: Path, tmp_path: Path) -> None:
        for name, zero in (("z.npy", ["--zero", "2"]), ("tree.nwk", []), ("merges.parquet", [])):
            assert done("export", run, "-o", name, *zero, cwd=tmp_path) == f"{name}\n"
        expected = dask_rac.open(run)
        assert np.array_equal(np.load(tmp_path / "z.npy"), expected.to_scipy(zero=2))
        assert (tmp_path / "tree.nwk").read_text().count(",") == NODES - 1
        assert len(pd.read_parquet(tmp_path / "merges.parquet")) == NODES - 1

    def test_ingest(self, tmp_path: Path) -> None:
        (tmp_path / "list.txt").write_text("# a comment\n0 1\n1 2\n")
        done("ingest", "list.txt", "-o", "edges", "--no-header", "--no-weights", cwd=tmp_path)
        assert pd.read_parquet(tmp_path / "edges")["weight"].tolist() == [1.0, 1.0]
        (tmp_path / "list.csv").write_text("a,b,w\n0,1,x\n")
        bad = refused("ingest", "list.csv", "-o", "more", "--columns", "a,b,w", cwd=tmp_path)
        assert bad.returncode == 2
        assert "list.csv" in bad.stderr
        assert not (tmp_path / "more").exists()
        few = refused("ingest", "list.csv", "-o", "more", "--columns", "a,b", cwd=tmp_path)
        assert (few.returncode, "names 2 columns" in few.stderr) == (2, True)

    def test_demo_shows_everything(self, tmp_path: Path) -> None:
        shown = alone("demo", "--nodes", "3000", "--folder", "demo", cwd=tmp_path)
        assert shown.returncode == 0, shown.stderr
        assert max(map(len, shown.stdout.splitlines())) <= 80
        commands = re.findall(r"^\$ dask-rac (\w+)", shown.stdout, flags=re.MULTILINE)
        assert commands == ["plan", "cluster", "resume", "info", "verify", "cut", "export", "report"]
        for text in ("stopped after two rounds", "█", "top of the tree", "verified against", "share their centre"):
            assert text in shown.stdout
        assert {"edges.parquet", "run", "labels.parquet", "tree.nwk", "report.html"} <= {
            path.name for path in (tmp_path / "demo").iterdir()
        }
        again = refused("demo", "--nodes", "3000", "--folder", "demo", cwd=tmp_path)
        assert again.returncode == 2
        assert "files are never overwritten" in again.stderr


class TestExitCodes:
    def test_2_bad_input(self, edges: Path, run: Path, tmp_path: Path) -> None:
        for words, message in [
            (("cluster", "nowhere", "-o", "run"), "nowhere does not exist"),
            (("cluster", edges, "-o", "run", "--linkage", "ward"), "--linkage ward: ward linkage along"),
            (("cluster", edges, "-o", run), f"resume with `dask-rac resume {run}`"),
            (("cluster", edges, "-o", "run", "--memory", "much"), "--memory much is not an amount of memory"),
            (("cut", run, "--n-clusters", "0", "-o", "x.csv"), "is not possible"),
            (("cut", run, "--n-clusters", "3", "-o", "x.txt"), "must end in"),
            (("cut", run, "-o", "x.csv"), "pass either --height or --n-clusters"),
            (("info", "nowhere"), "nowhere does not exist"),
            (("info", edges), "is not a store of dask_rac"),
            (("cluster", "list.csv", "-o", "run"), "`dask-rac ingest list.csv -o edges`"),
            (("cluster", edges, "-o", "memory://run"), "vanishes"),
            (("generate", "lattice", "--nodes", "9", "--degree", "7", "-o", "x"), "--degree 7 is odd"),
            (("info", run, "--log-file", "no/such/folder/log"), "cannot be written"),
            (("info", ""), "Invalid value for 'RUN': it is empty"),
            (("cluster", edges, "-o", ""), "Invalid value for '-o' / '--output': it is empty"),
        ]:
            failed = refused(*words, cwd=tmp_path)
            assert failed.returncode == 2, failed.stderr
            assert message in failed.stderr
            assert failed.stdout == ""
        ended = alone("cluster", "nowhere", "-o", "run", cwd=tmp_path)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "nowhere does not exist" in ended.stderr
        assert not list(tmp_path.iterdir())

    def test_3_resources(self, edges: Path, tmp_path: Path) -> None:
        small = refused("cluster", edges, "-o", "run", "--memory", "1kB", cwd=tmp_path)
        assert small.returncode == 3
        assert re.search(r"set --memory [\d.]+MB or more", small.stderr)
        unreachable = refused(
            *("plan", edges, "--scheduler", "tcp://127.0.0.1:1"),
            cwd=tmp_path,
            DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="1s",
        )
        assert unreachable.returncode == 3
        assert "tcp://127.0.0.1:1" in unreachable.stderr
        assert "Traceback" not in small.stderr + unreachable.stderr

    def test_4_damaged(self, edges: Path, tmp_path: Path) -> None:
        done("cluster", edges, "-o", "run", "--weights", "similarity", cwd=tmp_path)
        file = next((tmp_path / "run/merges").iterdir())
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        failed = refused("verify", "run", cwd=tmp_path)
        assert failed.returncode == 4, failed.stderr
        assert file.name in failed.stderr

    def test_4_wrong(self, run: Path, tmp_path: Path) -> None:
        dask_rac.datasets.lattice(NODES, 6, 1, tmp_path / "others", weights="similarity")
        failed = refused("verify", run, "--edges", "others", cwd=tmp_path)
        assert failed.returncode == 4, failed.stderr
        assert "merges are wrong" in failed.stderr

    def test_5_in_use(self, edges: Path, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir()
        with Folder(tmp_path / "run").locked():
            failed = refused("cluster", edges, "-o", "run", cwd=tmp_path)
        assert failed.returncode == 5, failed.stderr
        assert f"in use by process {os.getpid()}" in failed.stderr

    def test_5_at_work(self, edges: Path, run: Path, tmp_path: Path) -> None:
        shutil.copytree(run, tmp_path / "run")
        with Folder(tmp_path / "run").locked():
            failed = refused("cluster", edges, "-o", "run", cwd=tmp_path)
        assert failed.returncode == 5, failed.stderr
        assert f"in use by process {os.getpid()}" in failed.stderr
        assert "resume" not in failed.stderr

    @pytest.mark.parametrize(
        ("place", "signum"),
        [
            ("threads", signal.SIGINT),
            pytest.param("threads", signal.SIGTERM, marks=pytest.mark.soak),
            ("local:2x1", signal.SIGINT),
        ],
    )
    def test_130_interrupted_then_resumed(self, tmp_path: Path, signum: signal.Signals, place: str) -> None:
        dask_rac.datasets.lattice(10_000, 20, 0, tmp_path / "edges", weights="similarity")
        words = ("cluster", "edges", "-o", "run", "--weights", "similarity", "--shards", "8", "--scheduler", place)
        process = subprocess.Popen(
            command_line(*words),
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        await_file(tmp_path / "run/rounds", "00002-*", process)
        os.killpg(process.pid, signum)  # to all processes, as a terminal does
        printed, errors = process.communicate(timeout=60)
        assert process.returncode == 130, errors
        assert printed == ""
        assert "Traceback" not in errors
        assert re.search(r"dask-rac: stopped; resume with `dask-rac resume .*run`\n$", errors)
        assert json.loads(done("info", "run", "--json", cwd=tmp_path))["status"] == "stopped"
        done("resume", "run", cwd=tmp_path)
        expected = dask_rac.cluster(str(tmp_path / "edges"), weights="similarity").merges
        columns = ["left", "right", "height", "size"]
        pd.testing.assert_frame_equal(
            merges(tmp_path / "run")[columns].sort_values(["right"], ignore_index=True),
            expected[columns].sort_values(["right"], ignore_index=True),
        )


def await_file(folder: Path, pattern: str, process: "subprocess.Popen[str]") -> None:
    """Wait until a process has written a file."""
    for _ in range(3000):
        if any(folder.glob(pattern)):
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError(f"{folder}/{pattern} did not appear")


class TestOutput:
    def test_log_file_gets_everything(self, edges: Path, tmp_path: Path) -> None:
        done("cluster", edges, "-o", "run", "--weights", "similarity", "--log-file", "log", cwd=tmp_path)
        rac("cluster", edges, "-o", "run", "--log-file", "log", cwd=tmp_path)
        lines = (tmp_path / "log").read_text().splitlines()
        assert any("INFO round 1:" in line for line in lines)
        assert any("ERROR error:" in line and "already holds a run" in line for line in lines)

    def test_quiet(self, tmp_path: Path) -> None:
        pd.DataFrame({"source": [0, 1, 1], "target": [1, 2, 1], "weight": [1.0, 2.0, 3.0]}).to_parquet(
            tmp_path / "loop.parquet"
        )
        loud = rac("cluster", "loop.parquet", "-o", "one", cwd=tmp_path)
        assert loud.stderr == "dask-rac: warning: dropped 1 self loop: a node has no distance to itself\n"
        assert (
            done("cluster", "loop.parquet", "-o", "two", "--quiet", cwd=tmp_path).replace("/two", "/one") == loud.stdout
        )

    def test_no_colour_unless_on_a_terminal(self, run: Path, tmp_path: Path) -> None:
        assert "\x1b" not in done("info", run, "--tree", cwd=tmp_path)

    def test_settings_of_dasks(self, edges: Path, tmp_path: Path) -> None:
        (tmp_path / "config").mkdir()
        (tmp_path / "config/dask-rac.yaml").write_text("rac: {memory: 3GB, scheduler: threads:1}\n")
        changes = {"DASK_CONFIG": str(tmp_path / "config"), "DASK_RAC__MEMORY": "2GB", "DASK_RAC__SHARDS": "5"}
        printed = json.loads(alone("plan", edges, "--json", cwd=tmp_path, **changes).stdout)
        assert (printed["budget"]["memory"], printed["budget"]["threads"], printed["shards"]) == (2_000_000_000, 1, 5)
        given = json.loads(done("plan", edges, "--json", "--memory", "4GB", cwd=tmp_path, DASK_RAC__MEMORY="2GB"))
        assert given["budget"]["memory"] == 4_000_000_000
        failed = refused(
            "plan", edges, cwd=tmp_path, DASK_RAC__SCHEDULER="tcp://192.0.2.1:1", DASK_RAC__REQUIRE_TLS="true"
        )
        assert failed.returncode == 2
        assert "192.0.2.1" in failed.stderr


class TestTerminal:
    """Run a whole session, as seen in a window of 80 columns."""

    def test_bars_come_and_go(self, tmp_path: Path) -> None:
        dask_rac.datasets.lattice(5000, 10, 0, tmp_path / "edges", weights="similarity")
        bars: set[str] = set()

        def look(screen: list[str]) -> None:
            bars.update(line for line in screen if line.startswith("dask_rac: "))

        shown = Terminal("cluster", "edges", "-o", "run", "--weights", "similarity", "--shards", "3", cwd=tmp_path)
        screen = shown.watch(look)
        assert any("round" in bar for bar in bars)
        assert all(re.search(r" [━╸╺]{16} 0:\d\d:\d\d$", bar) for bar in bars)
        assert [line.partition(" ")[0] for line in screen][:3] == ["nodes", "merges", "trees"]
        assert not any("━" in line for line in screen)
        assert b"\x1b[?25h" in shown.raw  # the cursor is back

    def test_quiet_shows_results_only(self, edges: Path, tmp_path: Path) -> None:
        words = ("cluster", edges, "-o", "run", "--weights", "similarity", "--shards", "2", "--quiet")
        assert "━".encode() not in Terminal(*words, cwd=tmp_path).watch_raw()

    def test_colours(self, run: Path, tmp_path: Path) -> None:
        assert b"\x1b[1m" in Terminal("info", run, cwd=tmp_path).watch_raw()
        plain = Terminal("info", run, cwd=tmp_path, NO_COLOR="1").watch_raw()
        assert not re.search(rb"\x1b\[[0-9;]*3[0-9]", plain)


@pytest.mark.parametrize(
    ("text", "command", "recipe"),
    [
        ("with dask_rac.resume('/a/run')", "with `dask-rac resume /a/run`", "with `dask-rac resume /a/run`"),
        ("with dask_rac.resume('a b')", "with `dask-rac resume 'a b'`", "with `dask-rac resume 'a b'`"),
        ('dask_rac.run("x\'s")', "`dask-rac run 'x'\"'\"'s'`", "`dask-rac run 'x'\"'\"'s'`"),
        ("dask_rac.ingest('x.csv', 'edges')", "`dask-rac ingest x.csv -o edges`", "`dask-rac ingest x.csv -o edges`"),
        ("its line is 'height=3', 'a'", "its line is 'height=3', 'a'", "its line is 'height=3', 'a'"),
        ("/a/height=3/b.parquet", "/a/height=3/b.parquet", "/a/height=3/b.parquet"),
        ("such as cluster.memory=2GB", "such as cluster.memory=2GB", "such as cluster.memory=2GB"),
        ("scipy's Z: set memory= or it's", "scipy's Z: set --memory or it's", "scipy's Z: set memory: or it's"),
        ("look with dask_rac.open('run')", "look with `dask-rac info run`", "look with `dask-rac info run`"),
        ("set memory='1.2GB' or more", "set --memory 1.2GB or more", "set memory: 1.2GB or more"),
        ("shards=512, or a larger memory=", "--shards 512, or a larger --memory", "shards: 512, or a larger memory:"),
        ("max_height=-1 is below 0", "--max-height -1 is below 0", "max_height: -1 is below 0"),
        ("n_clusters=0 is not", "--n-clusters 0 is not", "n_clusters: 0 is not"),
        ("store='x.txt': the name", "-o x.txt: the name", "output: x.txt: the name"),
        ("as columns=(0, 1, 2)", "as --columns 0,1,2", "as columns: [0, 1, 2]"),
        ("with header=False", "with --no-header", "with header: false"),
        ("columns=(..., ..., None) gives", "--no-weights gives", "columns: [..., ..., null] gives"),
        ("join with to_scipy(join=True)", "join with --join", "join with join: true"),
        (
            "pass store=, then `dask_rac.resume('a', memory='2GB')`",
            "pass -o, then `dask-rac resume a --memory 2GB`",
            "pass output:, then `dask-rac resume a --memory 2GB`",
        ),
        (
            "a 'b: dask_rac.resume(\"a 'b\")",
            "a 'b: `dask-rac resume 'a '\"'\"'b'`",
            "a 'b: `dask-rac resume 'a '\"'\"'b'`",
        ),
        ("pass memory=... instead", "pass --memory instead", "pass memory: instead"),
        ("use graph=dict(k=15) or knn_graph", "use `dask-rac graph knn`", "use a `graph` step"),
        ("call dask_rac.knn_graph(...) first", "call `dask-rac graph knn` first", "call a `graph` step first"),
        ("or cut them with `cut()`", "or cut them with `dask-rac cut`", "or cut them with `cut()`"),
        ("a 2 = 3, no argument=", "a 2 = 3, no argument=", "a 2 = 3, no argument="),
    ],
)
def test_messages_speak_of_options_and_keys(text: str, command: str, recipe: str) -> None:
    assert as_command(text) == command
    assert as_recipe(text) == recipe
