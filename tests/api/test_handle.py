"""Runs in the background: they can be watched, waited for, stopped and resumed, wherever they run."""

import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client

import dask_rac
from dask_rac.api.handle import RunProgress
from dask_rac.files.folder import Folder
from tests.support.clients import local_client, nothing_left
from tests.support.command import environment
from tests.support.graphs import as_frame, random_edges
from tests.support.results import assert_same, rounds_told
from tests.support.stored import write_parquet

EDGES = random_edges(3000, 9000)
LARGE = random_edges(100_000, 300_000)


@pytest.fixture(params=["threads", "client"])
def anywhere(request: pytest.FixtureRequest) -> Client | None:
    """No client, so that this process does the work; or one."""
    made: Client | None = request.getfixturevalue("client") if request.param == "client" else None
    return made


class Gate:
    """A progress function that waits at the first event of a kind, until it is opened."""

    def __init__(self, stage: str, number: int = 1) -> None:
        self.stage, self.number, self.events = stage, number, list[dask_rac.Event]()
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, event: dask_rac.Event) -> None:
        self.events.append(event)
        if sum(event.stage == self.stage for event in self.events) == self.number and not self.reached.is_set():
            self.reached.set()
            assert self.opened.wait(60)

    def stop(self, run: dask_rac.RunHandle) -> None:
        """Stop a run that waits, or will wait, at the gate."""
        assert self.reached.wait(60)
        assert run.status == "running"
        assert not run.stop(timeout=0)
        self.opened.set()
        assert run.stop(timeout=60)


@pytest.mark.parametrize("store", [False, True])
def test_the_result_is_that_of_waiting(anywhere: Client | None, store: bool, folder: Path) -> None:
    place = folder / "run" if store else None
    run = dask_rac.cluster(EDGES, duplicates="min", store=place, client=anywhere, wait=False)
    assert isinstance(run, dask_rac.RunHandle)
    assert run.store == (str(place) if store else None)
    found = run.result(timeout=60)
    assert isinstance(found, dask_rac.StoredClustering) is store
    assert_same(found, dask_rac.cluster(EDGES, duplicates="min"))
    assert run.result() is found
    assert (run.status, run.done(), run.wait(), run.exception()) == ("finished", True, True, None)
    assert run.progress.fraction == 1.0
    assert run.progress.text == repr(run).removeprefix("<RunHandle: finished, ").partition(", store=")[0].rstrip(">")
    rounds = len(found.rounds)
    assert run.progress.text.startswith(f"3,000 nodes, {found.n_nodes - found.n_trees:,} merges in {rounds} rounds, ")
    assert "finished" in run._repr_html_()
    assert run.stop()
    assert run.status == "finished"


def test_a_run_tells_how_far_it_is(anywhere: Client | None) -> None:
    gate = Gate("round", 3)
    before = time.monotonic()
    run = dask_rac.cluster(EDGES, duplicates="min", client=anywhere, progress=gate, wait=False)
    assert gate.reached.wait(60)
    progress = run.progress
    assert isinstance(progress, RunProgress)
    assert progress.event == gate.events[-1]
    assert progress.event.record is not None
    assert progress.text.startswith("round 3: ")
    assert progress.fraction == progress.event.merges / 2999
    assert 0 < progress.seconds <= time.monotonic() - before
    assert repr(run).startswith("<RunHandle: running, 0:0")
    html = run._repr_html_()
    assert "round 3: " in html
    assert ("2 workers of tcp://" if anywhere else "of this process") in html
    assert not run.wait(timeout=0)
    for wait in (run.result, run.exception):
        with pytest.raises(TimeoutError, match=r"still in progress after 0\.01 s: round 3: "):
            wait(timeout=0.01)
    gate.opened.set()
    merges = run.result().rounds["merges"].tolist()
    assert rounds_told(gate.events) == merges
    took = run.progress.seconds
    time.sleep(0.02)
    assert run.progress.seconds == took


@pytest.mark.parametrize(
    ("linkage", "stage", "number"),
    [
        ("average", "ingest", 1),
        ("average", "tasks", 9),
        ("average", "rest", 1),
        ("complete", "round", 2),
        ("single", "round", 1),
    ],
)
def test_stopped_and_resumed_it_gives_the_same_bits(
    anywhere: Client | None, linkage: str, stage: str, number: int, folder: Path
) -> None:
    edges, store = write_parquet(folder / "edges.parquet", EDGES, row_group_size=1000), folder / "run"
    gate = Gate(stage, number)
    run = dask_rac.cluster(
        edges, linkage, duplicates="min", store=store, shards=3, client=anywhere, progress=gate, wait=False
    )
    gate.stop(run)
    assert run.status == "stopped"
    assert not Folder(store).in_use()
    message = f"the run was stopped: resume with dask_rac.resume({str(store)!r})"
    with pytest.raises(dask_rac.RunStoppedError) as caught:
        run.result()
    assert str(caught.value) == message
    assert run.exception() is caught.value
    assert repr(run).startswith("<RunHandle: stopped after ")
    assert "resume with dask_rac.resume(" in run._repr_html_()
    assert anywhere is None or nothing_left(anywhere)
    again = dask_rac.resume(store, client=anywhere, wait=False)
    expected = dask_rac.cluster(EDGES, linkage, duplicates="min")
    assert_same(again.result(timeout=60), expected)
    assert f" merges in {len(expected.rounds)} rounds, " in again.progress.text
    assert again.store == str(store)
    assert dask_rac.resume(store, wait=False).result(timeout=60).n_nodes == 3000


def test_stopped_in_memory_nothing_is_kept(anywhere: Client | None) -> None:
    gate = Gate("round")
    run = dask_rac.cluster(LARGE, duplicates="min", client=anywhere, progress=gate, wait=False)
    gate.stop(run)
    with pytest.raises(dask_rac.RunStoppedError, match="nothing was saved; start it again, with store= to be able"):
        run.result()
    assert anywhere is None or nothing_left(anywhere)


def await_file(frame: pd.DataFrame, path: str) -> pd.DataFrame:
    while not Path(path).exists():
        time.sleep(0.02)
    return frame


@pytest.mark.parametrize("store", [False, True])
def test_a_stop_is_noticed_while_no_task_ends(client: Client, store: bool, folder: Path) -> None:
    slow = dd.from_pandas(as_frame(EDGES), npartitions=2)
    slow = slow.map_partitions(await_file, str(folder / "go"), meta=slow._meta)
    place = folder / "run" if store else None
    run = dask_rac.cluster(slow, duplicates="min", store=place, client=client, wait=False)
    while not any(client.processing().values()):
        time.sleep(0.02)
    assert run.stop(timeout=60)
    assert run.status == "stopped"
    (folder / "go").touch()
    if store:
        with pytest.raises(
            dask_rac.RunStoppedError, match=r"edges were in memory and had not been saved in .*run: start a new run in"
        ):
            run.result()
        with pytest.raises(
            dask_rac.StoreError, match="edges were in memory and had not been saved in it: choose another"
        ):
            dask_rac.cluster(EDGES, duplicates="min", store=place)
        with pytest.raises(dask_rac.StoreError, match=r"nothing to show yet: .* start a new run in another folder"):
            dask_rac.open(folder / "run")
    assert nothing_left(client)


def test_when_a_stopped_run_has_ended_nothing_writes_any_more(folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", LARGE, row_group_size=10_000)
    gate = Gate("tasks", 50)
    with dask.config.set(num_workers=4):
        run = dask_rac.cluster(edges, duplicates="min", store=folder / "run", shards=12, progress=gate, wait=False)
        gate.stop(run)
    files = {path: path.stat().st_mtime_ns for path in (folder / "run").rglob("*")}
    time.sleep(0.3)
    assert {path: path.stat().st_mtime_ns for path in (folder / "run").rglob("*")} == files


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "linkage": ({"linkage": "ward"}, dask_rac.InputError, "linkage='ward'"),
    "missing": ({"missing": "zero"}, dask_rac.InputError, "missing='zero' is unknown"),
    "client": ({"client": 7}, dask_rac.InputError, "client=7 is not a distributed.Client"),
    "progress": ({"progress": 7}, dask_rac.InputError, "progress=7 is neither"),
    "n_nodes": ({"n_nodes": -1}, dask_rac.InputError, "n_nodes=-1 is out of range"),
    "shards": ({"store": "run", "shards": 0}, dask_rac.InputError, "shards=0 is out of range"),
    "memory": ({"store": "run", "memory": "much"}, dask_rac.InputError, "memory='much' is not an amount"),
    "no store": ({"memory": "1GB"}, dask_rac.InputError, "memory= is only for runs through the disk"),
    "taken": ({"store": "taken"}, dask_rac.StoreError, "is not empty and does not hold a run"),
    "graph": ({"graph": {"k": 0}}, dask_rac.InputError, "k=0 is out of range"),
    "kind": ({"edges": "similarities"}, dask_rac.InputError, "edges.attrs.* is 'similarity'"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_is_refused_at_once(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, kind, message = BAD[name]
    monkeypatch.chdir(folder)
    (folder / "taken").mkdir()
    (folder / "taken" / "file").touch()
    edges: Any = EDGES
    if "edges" in options:
        edges = as_frame(EDGES)
        edges.attrs["weights"] = "similarity"
    threads = threading.active_count()
    with pytest.raises(kind, match=message):
        dask_rac.cluster(edges, wait=False, **{key: value for key, value in options.items() if key != "edges"})
    assert threading.active_count() == threads
    assert [path.name for path in folder.iterdir()] == ["taken"]


def test_a_resume_of_nothing_is_refused_at_once(folder: Path) -> None:
    with pytest.raises(dask_rac.StoreError, match="does not exist; give the folder of a run"):
        dask_rac.resume(folder / "nowhere", wait=False)
    dask_rac.cluster(EDGES, duplicates="min", store=folder / "run")
    with pytest.raises(dask_rac.InputError, match="memory='much' is not an amount"):
        dask_rac.resume(folder / "run", memory="much", wait=False)


def test_a_run_that_fails_says_why(anywhere: Client | None, folder: Path) -> None:
    run = dask_rac.cluster(([0, 1], [1, 2], [1.0, -1.0]), client=anywhere, store=folder / "run", wait=False)
    with pytest.raises(dask_rac.InputError, match="column 'weight' is negative in row 1"):
        run.result(timeout=60)
    assert isinstance(run.exception(), dask_rac.InputError)
    assert run.status == "failed"
    assert "column 'weight' is negative" in repr(run)
    assert "column &#x27;weight&#x27; is negative" in run._repr_html_()
    assert not (folder / "run").exists()


@pytest.mark.parametrize(("error", "status"), [(ZeroDivisionError, "failed"), (KeyboardInterrupt, "stopped")])
def test_a_progress_function_may_end_a_run(error: type[BaseException], status: str, anywhere: Client | None) -> None:
    def end(event: dask_rac.Event) -> None:
        if event.stage == "round":
            raise error

    run = dask_rac.cluster(EDGES, duplicates="min", progress=end, client=anywhere, wait=False)
    assert run.wait(60)
    assert run.status == status
    with pytest.raises(dask_rac.RunStoppedError if status == "stopped" else error):
        run.result()


@pytest.mark.parametrize("store", [False, True])
def test_warnings_come_with_the_result_and_once(anywhere: Client | None, store: bool, folder: Path) -> None:
    edges = ([0, 1, 2], [1, 1, 2], [1.0, 2.0, 3.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = dask_rac.cluster(edges, client=anywhere, store=folder / "run" if store else None, wait=False)
        run.wait(60)
        assert not caught
        run.result()
        run.result()
    assert [str(warning.message) for warning in caught] == ["dropped 2 self loops: a node has no distance to itself"]
    assert caught[0].filename == __file__


def test_two_runs_in_one_store_do_not_go_together(folder: Path) -> None:
    gate = Gate("ingest")
    first = dask_rac.cluster(EDGES, duplicates="min", store=folder / "run", progress=gate, wait=False)
    assert gate.reached.wait(60)
    with pytest.raises(dask_rac.StoreInUseError, match="holds a run and is in use by process"):
        dask_rac.cluster(EDGES, duplicates="min", store=folder / "run", wait=False)
    second = dask_rac.resume(folder / "run", wait=False)
    with pytest.raises(dask_rac.StoreInUseError, match="is in use by process"):
        second.result(timeout=60)
    gate.opened.set()
    assert first.result(timeout=60).n_nodes == 3000


@pytest.mark.filterwarnings("ignore:the graph has")
def test_a_graph_of_vectors_is_made_in_the_background_too(anywhere: Client | None, folder: Path) -> None:
    vectors = np.random.default_rng(0).random((400, 5)).astype(np.float32)
    expected = dask_rac.cluster(vectors, graph={"k": 5})
    assert_same(dask_rac.cluster(vectors, graph={"k": 5}, client=anywhere, wait=False).result(timeout=60), expected)
    gate = Gate("edges")
    options: dict[str, Any] = {"graph": {"k": 5}, "store": folder / "run", "client": anywhere}
    run = dask_rac.cluster(vectors, **options, progress=gate, wait=False)
    gate.stop(run)
    advice = "stopped: finished work is kept; run it again with the same arguments to continue"
    with pytest.raises(dask_rac.RunStoppedError, match=advice):
        run.result()
    assert_same(dask_rac.cluster(vectors, **options, wait=False).result(timeout=60), expected)


def test_a_stored_result_tells_the_progress_of_its_audit(folder: Path) -> None:
    events: list[dask_rac.Event] = []
    edges = write_parquet(folder / "edges.parquet", random_edges(50, 20))
    run = dask_rac.cluster(edges, duplicates="min", store=folder / "run", progress=events.append, wait=False)
    found = run.result(timeout=60)
    text = run.progress.text
    assert run.stop()
    assert found.verify().ok
    assert events[-1].stage == "verify"
    assert run.progress.text == text


SCRIPT = """
import sys, threading
import numpy as np, dask_rac
reached = threading.Event()
def report(event):
    if event.stage == "round":
        reached.set()
u = np.arange(60_000)
edges = u, (u * 7919 + 13) % 60_000, (u % 1013) + 1.0
keep = edges[0] != edges[1]
run = dask_rac.cluster(tuple(c[keep] for c in edges), duplicates="min", finisher=False, store=sys.argv[1], shards=4,
                       progress=report, wait=False)
assert reached.wait(60)
assert run.status == "running"
"""


def test_a_run_ends_with_the_interpreter_and_can_be_resumed(folder: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(folder / "run")]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert not dask_rac.open(folder / "run").finished
    assert dask_rac.resume(folder / "run").finished


@pytest.mark.parametrize("store", [False, True])
def test_a_progress_function_may_stop_its_own_run_but_not_wait_for_it(store: bool, folder: Path) -> None:
    answers: list[object] = []

    def early(event: dask_rac.Event) -> None:
        if event.stage == "round" and not answers:
            with pytest.raises(RuntimeError, match="a progress function cannot wait for its own run"):
                made[0].result()
            answers.append(made[0].stop())

    gate, made = threading.Event(), list[dask_rac.RunHandle]()

    def after_the_start(event: dask_rac.Event) -> None:
        assert gate.wait(60)
        early(event)

    where = {"store": folder / "run", "shards": 3} if store else {}
    made.append(dask_rac.cluster(EDGES, progress=after_the_start, wait=False, **where))  # type: ignore[call-overload]
    gate.set()
    assert made[0].wait(60)
    assert (made[0].status, answers) == ("stopped", [False])
    if store:
        assert_same(dask_rac.resume(folder / "run"), dask_rac.cluster(EDGES))


def test_a_stop_is_noticed_while_there_are_no_workers() -> None:
    with local_client(0) as client:
        run = dask_rac.cluster(EDGES, client=client, wait=False)
        began = time.monotonic()
        assert run.stop(20)
        assert (run.status, time.monotonic() - began < 15) == ("stopped", True)


@pytest.mark.parametrize("store", [False, True])
def test_a_client_that_is_closed_too_early_is_told_of(store: bool, folder: Path) -> None:
    gate = Gate("round")
    with local_client(1, processes=False) as client:
        where = {"store": folder / "run", "shards": 3} if store else {}
        run = dask_rac.cluster(LARGE, client=client, progress=gate, wait=False, **where)  # type: ignore[call-overload]
        assert gate.reached.wait(60)
    gate.opened.set()
    with pytest.raises(
        dask_rac.ResourceError, match="the client was closed while the run was in progress: start another"
    ):
        run.result(60)
    with pytest.raises(dask_rac.InputError, match="is closed: give another one, or leave it out"):
        dask_rac.cluster(EDGES, client=client)
