"""Runs through the disk on workers, and workers that are refused."""

from __future__ import annotations

import importlib.metadata
import os
import time
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from distributed import Client

import dask_rac
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.engines.rows.needs import VECTORS, EntrySizes, rest_bytes, rest_fits
from dask_rac.tasks import admission, scratch, workers
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.connection import workers_of
from tests.support.clients import Prefixes, local_client, nothing_left, seen_prefixes
from tests.support.named_graphs import GRAPHS, SMALL
from tests.support.results import assert_same
from tests.support.stored import write_parquet


def test_tasks_have_names_that_a_dashboard_can_show(client: Client, folder: Path) -> None:
    client.register_plugin(Prefixes())
    edges = write_parquet(folder / "edges.parquet", GRAPHS["grid"])
    with client.as_current():  # found without being passed
        dask_rac.cluster(edges, store=folder / "run", shards=3)
    seen = client.run_on_scheduler(seen_prefixes)
    assert {"scan", "route", "build", "cut", "split", "fold", "finish_rest"} <= seen
    assert seen <= {"scan", "route", "build", "cut", "split", "fold", "finish_rest"} | {
        "routed", "moved", "source", "histogram", "layout", "state", "list",
    }  # fmt: skip
    dask_rac.cluster(edges, store=folder / "threads", shards=3)
    assert client.run_on_scheduler(seen_prefixes) == set(), "a client that is not current was used"


def test_a_dask_dataframe_is_read_by_the_workers(client: Client, folder: Path) -> None:
    edges = GRAPHS["tangled"]
    frame = pd.DataFrame(dict(zip(EDGE_COLUMNS, edges, strict=True)))
    found = dask_rac.cluster(dd.from_pandas(frame, npartitions=4), store=folder / "run", shards=2, client=client)
    assert_same(found, dask_rac.cluster(edges))
    assert nothing_left(client)
    assert "input" not in os.listdir(folder / "run")


def test_errors_come_back_from_workers_and_leave_nothing(client: Client, folder: Path) -> None:
    u, v, weight = (column.copy() for column in GRAPHS["tangled"])
    weight[100] = -1
    edges = write_parquet(folder / "edges.parquet", (u, v, weight), row_group_size=40)
    with pytest.raises(dask_rac.InputError, match=r"'weight' is negative in row 100 of .*edges\.parquet \(-1.0\)"):
        dask_rac.cluster(edges, store=folder / "run", client=client)
    assert nothing_left(client)
    assert not (folder / "run").exists()


def test_a_worker_with_other_versions_is_refused(client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0.1" if name == "zarr" else real(name))
    with pytest.raises(
        dask_rac.ResourceError, match=r"has zarr .*, this process has 0\.0\.1: install the same versions"
    ):
        dask_rac.cluster(SMALL, store=folder / "run", client=client)
    assert not (folder / "run" / "rac.json").exists()


def test_a_preflight_that_fails_leaves_nothing(client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_sees", lambda *_: False)
    with pytest.raises(dask_rac.ResourceError):
        dask_rac.cluster(SMALL, store=folder / "run", client=client)
    assert not (folder / "run").exists()


def test_a_store_that_workers_do_not_see_is_refused(client: Client, folder: Path) -> None:
    with pytest.raises(dask_rac.ResourceError, match=r"worker .* cannot access memory://.*: use a folder that all"):
        dask_rac.cluster(SMALL, store=f"memory://{folder.name}/run", client=client)


def test_more_memory_than_workers_have_is_refused_with_what_they_have(client: Client, folder: Path) -> None:
    with pytest.raises(dask_rac.ResourceError, match="GB for each of 2 workers, and one of them has") as caught:
        dask_rac.cluster(SMALL, store=folder / "run", memory="1PB", client=client)
    advised = str(caught.value).rpartition("set memory='")[2].partition("'")[0]
    assert dask_rac.cluster(SMALL, store=folder / "run", memory=advised, client=client).n_nodes == 400


def test_a_task_that_runs_alone_may_use_what_the_others_do_not_need(folder: Path) -> None:
    with local_client(2, threads_per_worker=2, memory_limit="1GB") as client:
        there = workers.Workers(client)
        for memory, alone in ((2 * 10**8, 2 * 10**8), (10**9, 7 * 10**8)):
            budget = there.budget(memory)
            assert (budget.process, budget.alone_memory) == (memory // 2, alone)
            assert (budget.threads, budget.most_threads) == (2, 4)
        edges = write_parquet(folder / "edges.parquet", SMALL)
        found = dask_rac.cluster(edges, store=folder / "run", shards=6, client=client)
        assert_same(found, dask_rac.cluster(edges))
        assert set(client.run(held_bytes).values()) == {0}


def held_bytes() -> int:
    """The bytes that this process keeps for the next tasks."""
    return sum(len(slab.memory) for slab in scratch._slabs)


def test_the_rest_is_done_alone_where_one_share_would_not_hold_it() -> None:
    sizes, clusters, entries = EntrySizes(4, 8, 14, 1.0), 1_000_000, 10_000_000
    needed = rest_bytes(sizes, clusters, entries)
    kept = 2 * VECTORS * 4 * clusters
    assert not rest_fits(sizes, clusters, entries, Budget(needed + kept, 2, 1))
    assert rest_fits(sizes, clusters, entries, Budget(needed + kept, 2, 1, needed + kept, 2))
    assert not rest_fits(sizes, clusters, entries, Budget(needed + kept - 1, 2, 1, needed + kept, 2))
    assert not rest_fits(sizes, clusters, entries, Budget(needed + kept, 2, 1, needed - 1, 2))


def cut_connection(client: Client) -> None:
    """Cut the connection between a client and its scheduler, as a network does."""
    loop: Any = client.loop
    connection: Any = client.scheduler_comm
    loop.add_callback(connection.comm.abort)


def test_a_connection_that_is_lost_stops_the_run(folder: Path) -> None:
    def progress(event: dask_rac.Event) -> None:
        if event.stage == "tasks" and event.record is not None and event.record.round == 2:
            cut_connection(client)
            end = time.monotonic() + 5  # a client that is quick has another connection before anybody looks
            while client.status == "running" and time.monotonic() < end:
                time.sleep(0.001)

    edges = write_parquet(folder / "edges.parquet", GRAPHS["grid"])
    message = "the cluster went away while the run was in progress: start another one and resume the run"
    with local_client(1, processes=False) as client, pytest.raises(dask_rac.ResourceError, match=message):
        dask_rac.cluster(edges, store=folder / "run", shards=3, finisher=False, client=client, progress=progress)
    assert_same(dask_rac.resume(folder / "run"), dask_rac.cluster(edges, finisher=False))


def test_a_scheduler_that_cannot_be_reached_is_named(client: Client) -> None:
    lost = OSError("Timed out trying to connect to 'tcp://10.0.0.1:8786' after 30 s")
    for ask in (lambda: workers_of(client), lambda: workers.Workers(client).ready()):
        with (
            mock.patch.object(Client, "sync", side_effect=lost),
            pytest.raises(dask_rac.ResourceError, match="the cluster went away while"),
        ):
            ask()


def test_a_cluster_without_workers_is_refused(folder: Path) -> None:
    with (
        local_client(0) as client,
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(dask_rac.ResourceError, match="the cluster has had no worker for 1 s: start workers"),
    ):
        dask_rac.cluster(SMALL, store=folder / "run", client=client)
    assert not (folder / "run").exists()
