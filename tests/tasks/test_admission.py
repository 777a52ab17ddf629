"""Workers that join a run in the middle: they take part, or the run stops before anything of theirs counts."""

from __future__ import annotations

import importlib.metadata
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

import dask_rac
from dask_rac.tasks import admission, machine
from dask_rac.tasks.connection import workers_of
from tests.support.clients import local_client, nothing_left
from tests.support.named_graphs import GRAPHS
from tests.support.results import assert_same
from tests.support.stored import steps_of, write_parquet

MEMORY = "400MB"
JOIN_ROUND = 2


@pytest.fixture
def alone() -> Iterator[Client]:
    """A client of one worker, to which others can be added."""
    with local_client(1, memory_limit="1GB") as made:
        yield made


def joining(client: Client, then: Callable[[], Any], **options: Any) -> Callable[[dask_rac.Event], None]:
    """Have another worker join after some rounds, then call a function."""
    joined: list[int] = []

    def progress(event: dask_rac.Event) -> None:
        if event.stage == "round" and event.record is not None and event.record.round == JOIN_ROUND and not joined:
            joined.append(1)
            cluster: Any = client.cluster
            cluster.new_spec["options"].update(options)
            cluster.scale(2)
            client.wait_for_workers(2, timeout=60)
            then()

    return progress


def run(client: Client, folder: Path, progress: Callable[[dask_rac.Event], None]) -> Any:
    """Run without an end in memory, so that there are many steps."""
    edges = folder / "edges.parquet"
    if not edges.exists():
        write_parquet(edges, GRAPHS["grid"])
    options: dict[str, Any] = {"shards": 3, "finisher": False, "memory": MEMORY}
    return dask_rac.cluster(edges, store=folder / "run", client=client, progress=progress, **options)


def test_a_worker_like_the_others_takes_part(alone: Client, folder: Path) -> None:
    found = run(alone, folder, joining(alone, lambda: None))
    assert_same(found, dask_rac.cluster(folder / "edges.parquet", finisher=False))
    assert len(alone.scheduler_info(n_workers=-1)["workers"]) == 2


def test_a_worker_with_another_version_stops_the_run(
    alone: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.metadata.version

    def change() -> None:
        monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0.1" if name == "zarr" else real(name))

    message = r"a worker joined that cannot take part: worker tcp://.* has zarr .*, this process has 0\.0\.1: install"
    with pytest.raises(dask_rac.ResourceError, match=message):
        run(alone, folder, joining(alone, change))
    assert_stopped(alone, folder)
    monkeypatch.undo()
    assert_same(
        dask_rac.resume(folder / "run", client=alone), dask_rac.cluster(folder / "edges.parquet", finisher=False)
    )


def test_a_worker_with_less_memory_stops_the_run(alone: Client, folder: Path) -> None:
    message = r"worker tcp://.* has 0\.5 GB and 1 threads, for which this run has planned 0\.4 GB: give it 0\.571 GB or"
    with pytest.raises(dask_rac.ResourceError, match=message):
        run(alone, folder, joining(alone, lambda: None, memory_limit="500MB"))
    assert_stopped(alone, folder)


def test_a_worker_with_more_threads_than_memory_for_them_stops_the_run(alone: Client, folder: Path) -> None:
    with pytest.raises(dask_rac.ResourceError, match=r"has 1 GB and 2 threads, for which this run has planned 0\.8 GB"):
        run(alone, folder, joining(alone, lambda: None, nthreads=2))


def test_a_worker_without_the_store_stops_the_run(alone: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        dask_rac.ResourceError, match=r"joined that cannot take part: worker .* cannot access .*run: use"
    ):
        run(alone, folder, joining(alone, lambda: monkeypatch.setattr(admission, "_sees", lambda *_: False)))


def test_a_worker_that_joins_is_seen_while_tasks_run(
    alone: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before the end of a graph: here nobody looks when it has ended."""
    monkeypatch.setattr(admission, "JOIN_SECONDS", 0)
    asked = admission.Admission(alone)
    asked.admit(alone.scheduler_info(n_workers=-1)["workers"])
    cluster: Any = alone.cluster
    cluster.scale(2)
    alone.wait_for_workers(2, timeout=60)
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0.1" if name == "dask" else real(name))
    with pytest.raises(dask_rac.ResourceError, match=r"has dask .*, this process has 0\.0\.1"):
        asked.look()


def test_a_worker_that_dies_while_it_is_asked_is_ignored(
    alone: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the scheduler knows it for some time after its connection has broken."""
    asked = admission.Admission(alone)
    asked.admit(workers_of(alone))
    cluster: Any = alone.cluster
    cluster.scale(2)
    alone.wait_for_workers(2, timeout=60)
    died, known, versions, here = folder / "died", workers_of(alone), machine.versions, os.getpid()

    def die() -> dict[str, str]:
        if os.getpid() != here and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return versions()

    calls = iter(range(4))
    monkeypatch.setattr(admission, "workers_of", lambda client: known if next(calls, None) else workers_of(client))
    monkeypatch.setattr(admission, "versions", die)
    asked.check_joined()
    assert died.exists()


def test_a_worker_that_cannot_be_reached_but_stays_stops_the_run(
    alone: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = admission.Admission(alone)
    asked.admit(workers_of(alone))
    cluster: Any = alone.cluster
    cluster.scale(2)
    alone.wait_for_workers(2, timeout=60)

    versions, here = machine.versions, os.getpid()

    def broken() -> dict[str, str]:
        if os.getpid() != here:
            raise ConnectionResetError
        return versions()

    monkeypatch.setattr(admission, "LEAVE_SECONDS", 0.5)
    monkeypatch.setattr(admission, "versions", broken)
    with pytest.raises(dask_rac.ResourceError, match=r"worker tcp://.* fails \(ConnectionResetError.*: check its log"):
        asked.check_joined()


def assert_stopped(client: Client, folder: Path) -> None:
    """Nothing that came after the worker has joined counts, and nothing of it stays on workers."""
    assert len(steps_of(folder / "run")) == JOIN_ROUND + 1
    assert nothing_left(client)
