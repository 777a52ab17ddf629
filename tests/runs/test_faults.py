"""What goes wrong for users: dying workers, full disks, folders of other programs, changing edges, Ctrl-C."""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pandas as pd
import psutil
import pytest
from distributed import Client, LocalCluster

import dask_rac
from tests.support import crash
from tests.support.clients import count_tasks
from tests.support.crash import Child, begin, layout, manifests, result_hash
from tests.support.faults import counted_disk, fill, mounted_disk, read_only
from tests.support.folders import no_fsync, quick_folder, snapshot


@pytest.fixture(autouse=True)
def _quick_disk() -> Iterator[None]:
    with no_fsync():
        yield


@pytest.fixture
def edges(folder: Path) -> Path:
    return crash.write_edges(folder / "edges", crash.path_edges())


@pytest.fixture(scope="module")
def expected() -> Iterator[tuple[str, list[str]]]:
    """The hash of the merges, and what a finished store holds."""
    with quick_folder() as path, no_fsync():
        edges = crash.write_edges(path / "edges", crash.path_edges())
        found = begin(edges, path / "run")
        yield result_hash(found), layout(path / "run")


# Workers


def cluster_of(client: Client) -> LocalCluster:
    """What a client is connected to."""
    assert isinstance(client.cluster, LocalCluster)
    return client.cluster


def short_patience() -> Any:
    """How long a run waits for workers."""
    return dask.config.set({"distributed.comm.timeouts.connect": "3s"})


def test_workers_that_die_between_tasks(
    client: Client, folder: Path, edges: Path, expected: tuple[str, list[str]]
) -> None:
    client.wait_for_workers(2, timeout=crash.PATIENCE)
    deaths = iter([3, 9, 20])
    due, seen = next(deaths), 0

    def progress(event: dask_rac.Event) -> None:
        nonlocal due, seen
        seen += event.stage == "tasks"
        if seen == due:
            due = next(deaths, -1)
            pids = client.run(os.getpid, on_error="ignore")
            os.kill(next(iter(pids.values())), signal.SIGKILL)

    found = begin(edges, folder / "run", client=client, progress=progress)
    assert due == -1
    assert result_hash(found) == expected[0]
    assert layout(folder / "run") == expected[1]


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError if the block takes longer, even if it hangs."""

    def give_up(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def dismiss(client: Client) -> None:
    """Retire all workers for good."""
    cluster_of(client).scale(0)
    while client.scheduler_info(n_workers=-1)["workers"]:
        time.sleep(0.05)


def check_dismissed(
    client: Client, edges: Path, store: Path, expected: tuple[str, list[str]], progress: Any, shards: int = crash.SHARDS
) -> None:
    """Check that a run whose workers leave fails soon, and can be resumed without them."""
    cluster_of(client).scale(2)
    client.wait_for_workers(2, timeout=crash.PATIENCE)
    gone = r"no worker for 3 s: start workers .* and resume"
    with within(25), short_patience(), pytest.raises(dask_rac.ResourceError, match=gone):
        begin(edges, store, client=client, progress=progress, shards=shards)
    with within(25), short_patience(), pytest.raises(dask_rac.ResourceError, match=gone):
        dask_rac.resume(store, client=client)
    assert result_hash(dask_rac.resume(store)) == expected[0]
    assert layout(store) == expected[1]


def test_workers_that_go_between_rounds(
    client: Client, folder: Path, edges: Path, expected: tuple[str, list[str]]
) -> None:
    def progress(event: dask_rac.Event) -> None:
        if event.stage == "round":
            dismiss(client)

    check_dismissed(client, edges, folder / "run", expected, progress)


def test_workers_that_go_with_results(client: Client, folder: Path, edges: Path) -> None:
    def progress(event: dask_rac.Event) -> None:
        if event.stage == "tasks" and event.record is not None and event.done < 3:
            while any(client.processing().values()):  # until all six are done
                time.sleep(0.02)
        if event.stage == "tasks" and event.record is not None and event.done == 3:
            dismiss(client)

    whole = begin(edges, folder / "whole", shards=6)
    expected = result_hash(whole), layout(folder / "whole")
    check_dismissed(client, edges, folder / "run", expected, progress, shards=6)


# Disks


@pytest.fixture(params=["counted", "mounted"])
def small_disk(request: pytest.FixtureRequest, folder: Path) -> Iterator[Path]:
    """A disk of 16 MB: one that the system keeps, where it lets us mount one, and everywhere one that we keep."""
    path = folder / "disk"
    path.mkdir()
    with counted_disk(path, 2**24) if request.param == "counted" else mounted_disk(path, 2**24):
        yield path


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_disk_that_is_too_small_is_refused_before_anything_is_written(
    small_disk: Path, folder: Path, on_disk: bool
) -> None:
    frame = crash.path_edges(40_000).drop(columns="remark")
    given = crash.write_edges(folder / "large", frame) if on_disk else frame
    filling = fill(small_disk, 500_000)
    with pytest.raises(dask_rac.ResourceError, match=r"free, and the run may need .* at its peak: make room"):
        begin(given, small_disk / "run")
    assert list(small_disk.iterdir()) == [filling]


def test_a_disk_that_fills_up_costs_one_round(small_disk: Path, edges: Path, expected: tuple[str, list[str]]) -> None:
    store = small_disk / "run"
    fillings: list[Path] = []

    def progress(event: dask_rac.Event) -> None:
        if event.stage == "tasks" and event.record is not None and event.record.round == 2 and not fillings:
            fillings.append(fill(small_disk, 4096))

    with pytest.raises(dask_rac.ResourceError, match=r"disk of .* is full: make room, then resume with"):
        begin(edges, store, progress=progress)
    kept = manifests(store)
    assert len(kept) == 3
    with pytest.raises(dask_rac.ResourceError, match="make room"):
        dask_rac.resume(store)
    fillings[0].unlink()
    assert result_hash(dask_rac.resume(store)) == expected[0]
    assert manifests(store)[:3] == kept
    assert layout(store) == expected[1]


@contextlib.contextmanager
def full_disk(target: str, call: int) -> Iterator[None]:
    """A disk that is full from a call of a function on."""
    calls = 0

    def refuse(after: bool) -> None:
        nonlocal calls
        calls += not after
        if calls > call and not after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with crash.patch_calls(target, refuse):
        yield


def check_full(folder: Path, edges: Path, expected: tuple[str, list[str]], target: str, call: int) -> None:
    """Check that a run on a full disk says what to do, and that doing it works."""
    store = folder / "run"
    with full_disk(target, call), pytest.raises(dask_rac.ResourceError) as caught:
        begin(edges, store)
    if "dask_rac.resume(" in str(caught.value):
        assert result_hash(dask_rac.resume(store)) == expected[0]
    else:
        assert not store.exists()
        assert result_hash(begin(edges, store)) == expected[0]
    assert layout(store) == expected[1]


@pytest.mark.parametrize("call", [5, 100, 200])
def test_a_full_disk_for_arrays(folder: Path, edges: Path, expected: tuple[str, list[str]], call: int) -> None:
    check_full(folder, edges, expected, "os.writev", call)


@pytest.mark.parametrize("call", [1, 3, 5])
def test_a_full_disk_for_manifests(folder: Path, edges: Path, expected: tuple[str, list[str]], call: int) -> None:
    check_full(folder, edges, expected, "os.link", call)


@pytest.mark.parametrize("call", [1, 3, 8])
def test_a_full_disk_for_merges_and_statistics(
    folder: Path, edges: Path, expected: tuple[str, list[str]], call: int
) -> None:
    check_full(folder, edges, expected, "os.replace", call)


def test_a_full_disk_for_the_header(folder: Path, edges: Path, expected: tuple[str, list[str]]) -> None:
    with full_disk("os.link", 0), pytest.raises(dask_rac.ResourceError, match="disk"):
        begin(edges, folder / "run")
    assert not (folder / "run").exists()
    assert result_hash(begin(edges, folder / "run")) == expected[0]


def test_a_full_disk_while_a_dask_frame_is_written(folder: Path) -> None:
    frame = dask.dataframe.from_pandas(crash.path_edges()[["source", "target", "weight"]], npartitions=2)
    with full_disk("os.replace", 1), pytest.raises(dask_rac.ResourceError, match=r"disk|No space left"):
        begin(frame, folder / "run")
    assert not (folder / "run").exists()


def test_a_full_disk_while_edges_in_memory_are_written(folder: Path) -> None:
    frame = crash.path_edges()[["source", "target", "weight"]]
    with full_disk("os.writev", 5), pytest.raises(dask_rac.ResourceError, match="make room and start again"):
        begin(frame, folder / "run")
    assert not (folder / "run").exists()


# Folders


def test_a_path_below_a_file_cannot_be_a_store(folder: Path, edges: Path) -> None:
    (folder / "file").write_text("mine")
    with pytest.raises(dask_rac.StoreError, match="cannot be written: Not a directory"):
        begin(edges, folder / "file" / "run")
    with pytest.raises(dask_rac.StoreError):
        begin(edges, folder / "file")
    assert (folder / "file").read_text() == "mine"


@pytest.mark.parametrize("use", [dask_rac.resume, dask_rac.open])
@pytest.mark.parametrize("name", ["file", "file/run", "nothing"])
def test_a_path_without_a_store_is_named(folder: Path, use: Callable[[Path], Any], name: str) -> None:
    (folder / "file").write_text("mine")
    with pytest.raises(dask_rac.StoreError, match=f"{folder}/{name} (is not a store|does not exist)"):
        use(folder / name)
    assert list(folder.iterdir()) == [folder / "file"]


def test_a_disk_that_cannot_be_written(small_disk: Path, edges: Path, expected: tuple[str, list[str]]) -> None:
    begin(edges, small_disk / "run")
    with (
        read_only(small_disk),
        pytest.raises(dask_rac.StoreError, match="cannot be written: Read-only file system; choose another folder"),
    ):
        begin(edges, small_disk / "new")
    with read_only(small_disk):
        assert result_hash(dask_rac.open(small_disk / "run")) == expected[0]


def test_a_finished_run_on_a_disk_that_cannot_be_written_resumes(
    small_disk: Path, edges: Path, expected: tuple[str, list[str]]
) -> None:
    begin(edges, small_disk / "run")
    with read_only(small_disk):
        assert result_hash(dask_rac.resume(small_disk / "run")) == expected[0]


def test_another_format_is_named(folder: Path, edges: Path) -> None:
    store = folder / "run"
    begin(edges, store)
    header = json.loads((store / "rac.json").read_text())
    (store / "rac.json").write_text(json.dumps(header | {"format": 99}))
    before = snapshot(store)
    for use in (dask_rac.resume, dask_rac.open):
        with pytest.raises(dask_rac.StoreError, match=r"has format 99, this dask_rac reads \d+: use the version"):
            use(store)
    assert snapshot(store) == before


# Edges


class StopError(BaseException):
    """What a test raises to stop a run, as Ctrl-C would: nothing is undone."""


def stop(edges: Any, store: Path, stage: str) -> None:
    """Begin a run that is stopped at a stage."""

    def progress(event: dask_rac.Event) -> None:
        if event.stage == stage:
            raise StopError

    with pytest.raises(StopError):
        begin(edges, store, progress=progress)


def rewrite(edges: Path) -> None:
    """Write different weights, as many as before."""
    frame = pd.read_parquet(edges / "1.parquet")
    frame.assign(weight=frame["weight"] + 1).to_parquet(edges / "1.parquet", index=False)


CHANGES: dict[str, Callable[[Path], Any]] = {
    "touched": lambda edges: os.utime(edges / "1.parquet", (1, 1)),
    "written": rewrite,
    "added": lambda edges: shutil.copy(edges / "1.parquet", edges / "3.parquet"),
    "lost": lambda edges: (edges / "1.parquet").unlink(),
}


@pytest.mark.parametrize("stage", ["ingest", "round"])
@pytest.mark.parametrize("change", CHANGES)
def test_edges_that_changed_are_refused(folder: Path, edges: Path, stage: str, change: str) -> None:
    stop(edges, folder / "run", stage)
    before = manifests(folder / "run")
    CHANGES[change](edges)
    with pytest.raises(dask_rac.InputError, match=f"{edges} has changed since the run began"):
        dask_rac.resume(folder / "run")
    assert manifests(folder / "run") == before


@pytest.mark.parametrize("change", CHANGES)
def test_verify_refuses_edges_that_changed(folder: Path, edges: Path, change: str) -> None:
    found = begin(edges, folder / "run")
    assert found.verify().ok
    CHANGES[change](edges)
    with pytest.raises(dask_rac.InputError, match=f"{edges} has changed since the run began"):
        found.verify()


def test_edges_may_go_once_they_are_read(folder: Path, edges: Path, expected: tuple[str, list[str]]) -> None:
    stop(edges, folder / "run", "round")
    shutil.rmtree(edges)
    assert result_hash(dask_rac.resume(folder / "run")) == expected[0]
    with pytest.raises(dask_rac.InputError, match=f"{edges} does not exist"):
        dask_rac.open(folder / "run").verify()


def test_edges_that_go_before_they_are_read_are_missed(folder: Path, edges: Path) -> None:
    stop(edges, folder / "run", "ingest")
    shutil.rmtree(edges)
    with pytest.raises(dask_rac.InputError, match=f"{edges} does not exist"):
        dask_rac.resume(folder / "run")


@pytest.mark.parametrize("kind", ["frame", "dask"])
def test_edges_in_memory_are_gone_when_a_run_stops_too_early(
    folder: Path, expected: tuple[str, list[str]], kind: str
) -> None:
    frame = crash.path_edges()[["source", "target", "weight"]]
    given = frame if kind == "frame" else dask.dataframe.from_pandas(frame, npartitions=3)
    stop(given, folder / "early", "ingest")
    with pytest.raises(dask_rac.StoreError, match="stopped before its edges were read, and they were not on disk"):
        dask_rac.resume(folder / "early")
    stop(given, folder / "late", "round")
    assert result_hash(dask_rac.resume(folder / "late")) == expected[0]


# Signals


def interrupted(edges: Path, store: Path) -> str:
    """Send SIGINT to a run in the middle of its second round, and return what it prints then."""

    def progress(event: dask_rac.Event) -> None:
        if event.stage == "tasks" and event.record is not None and event.done == 4:
            os.kill(os.getpid(), signal.SIGINT)

    try:
        begin(edges, store, progress=progress)
    except KeyboardInterrupt as stopped:
        return "; ".join(stopped.__notes__)
    return "not stopped"


def test_ctrl_c_that_makes_something_else_fail_is_still_one(folder: Path, edges: Path) -> None:
    def progress(event: dask_rac.Event) -> None:
        if event.stage == "round":
            try:
                raise KeyboardInterrupt
            finally:
                raise OSError(errno.EBADF, "Bad file descriptor")

    with pytest.raises(KeyboardInterrupt) as stopped:
        begin(edges, folder / "run", progress=progress)
    assert stopped.value.__notes__ == [f"resume with dask_rac.resume('{folder / 'run'}')"]


def test_ctrl_c_says_how_to_go_on(folder: Path, edges: Path, expected: tuple[str, list[str]]) -> None:
    store = folder / "run"
    assert Child(interrupted, edges, store).join() == f"resume with dask_rac.resume('{store}')"
    kept = manifests(store)
    assert len(kept) == 2
    assert result_hash(dask_rac.resume(store)) == expected[0]
    assert manifests(store)[:2] == kept
    assert layout(store) == expected[1]


def test_ctrl_c_then_resume_in_one_process(folder: Path, edges: Path, expected: tuple[str, list[str]]) -> None:
    def progress(event: dask_rac.Event) -> None:
        if event.stage == "tasks" and event.record is not None and event.done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begin(edges, folder / "run", progress=progress)
    assert result_hash(dask_rac.resume(folder / "run")) == expected[0]
    assert layout(folder / "run") == expected[1]


# Long runs


@pytest.mark.soak
def test_nothing_grows_with_rounds(client: Client, folder: Path) -> None:
    steps, rng = 60, np.random.default_rng(0)
    nodes = 2**12
    weight = 1 + np.arange(nodes - 1) // (nodes // steps) + rng.random(nodes - 1) / 2  # merges from one end on
    frame = pd.DataFrame({"source": np.arange(nodes - 1), "target": np.arange(1, nodes), "weight": weight})
    given = crash.write_edges(folder / "long", frame)
    cluster_of(client).scale(2)
    client.wait_for_workers(2, timeout=crash.PATIENCE)
    memory: list[int] = []
    tasks: list[int] = []
    process = psutil.Process()

    def progress(event: dask_rac.Event) -> None:
        if event.stage == "round" and event.seconds:
            gc.collect()
            memory.append(process.memory_info().rss + sum(child.memory_info().rss for child in process.children(True)))
            tasks.append(client.run_on_scheduler(count_tasks))

    begin(given, folder / "run", client=client, progress=progress, shards=32)
    assert len(memory) > 9
    assert max(tasks) == 0
    half = len(memory) // 2
    assert np.mean(memory[half:]) < np.mean(memory[2:half]) + 30e6
