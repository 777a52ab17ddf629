"""With a client, runs in memory go to one of its workers, and match local runs to the last bit."""

import asyncio
import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from dask.delayed import delayed
from distributed import (
    Client,
    LocalCluster,
    Nanny,
    Scheduler,
    SpecCluster,
    get_client,
    performance_report,
)

import dask_rac
from dask_rac.base.settings import checked_settings
from dask_rac.runs import in_memory as runs_memory
from dask_rac.tasks import client as tasks_client
from dask_rac.tasks import threads as tasks_threads
from dask_rac.tasks import workers as tasks_workers
from dask_rac.tasks.connection import workers_of
from tests.support.clients import Prefixes, forked_workers, local_client, nothing_left, seen_prefixes
from tests.support.graphs import as_frame, random_edges, tangled_edges
from tests.support.results import assert_same, rounds_told
from tests.support.stored import Columns, write_parquet

N, M = 300, 1500


EDGES = random_edges(N, M)
LARGE = random_edges(300_000, 1_000_000)


def as_matrix(edges: Columns) -> sp.coo_array:
    u, v, weight = edges
    upper = pd.DataFrame({"u": np.minimum(u, v), "v": np.maximum(u, v), "w": weight}).groupby(["u", "v"]).min()
    rows, columns = (upper.index.get_level_values(k).to_numpy() for k in range(2))
    return sp.coo_array((upper["w"].to_numpy(), (rows, columns)), shape=(N, N))


FORMS: dict[str, Callable[[Path], Any]] = {
    "arrays": lambda _: EDGES,
    "lists": lambda _: tuple(column.tolist() for column in EDGES),
    "Dask arrays": lambda _: tuple(da.from_array(column, chunks=500) for column in EDGES),
    "DataFrame": lambda _: as_frame(EDGES),
    "Dask DataFrame": lambda _: dd.from_pandas(as_frame(EDGES), npartitions=3),
    "Arrow table": lambda _: pa.table(as_frame(EDGES)),
    "triangle": lambda _: as_matrix(EDGES),
    "symmetric": lambda _: (as_matrix(EDGES) + as_matrix(EDGES).T).tocsr(),
    "columns": lambda _: (as_matrix(EDGES) + as_matrix(EDGES).T).tocsc(),
    "path": lambda folder: write_parquet(folder / "edges.parquet", EDGES),
    "name": lambda folder: str(write_parquet(folder / "edges.parquet", EDGES)),
}


@pytest.fixture(scope="module", autouse=True)
def _names_are_kept(client: Client) -> None:
    client.register_plugin(Prefixes())


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_edges_gives_what_it_gives_here(client: Client, form: str, tmp_path: Path) -> None:
    edges = FORMS[form](tmp_path)
    with dask.config.set(scheduler="threads"):
        expected = dask_rac.cluster(edges, duplicates="min", n_nodes=N + 2)
    found = dask_rac.cluster(edges, duplicates="min", n_nodes=N + 2, client=client)
    assert_same(found, expected)
    np.testing.assert_array_equal(found.cut(height=50.0), expected.cut(height=50.0))
    assert type(found) is dask_rac.Clustering
    assert "cluster_in_memory" in client.run_on_scheduler(seen_prefixes)
    assert nothing_left(client)


@pytest.mark.parametrize("linkage", ["single", "complete", "average"])
@pytest.mark.parametrize(("weights", "missing"), [("distance", "ignore"), ("distance", 1e6), ("similarity", 0.0)])
def test_every_linkage_gives_what_it_gives_here(client: Client, linkage: str, weights: str, missing: Any) -> None:
    edges = tangled_edges(500, 2000, 7, 0)
    for finisher in (True, False):
        found = dask_rac.cluster(edges, linkage, missing, weights, finisher=finisher, client=client)
        assert_same(found, dask_rac.cluster(edges, linkage, missing, weights, finisher=finisher))


def test_the_current_client_is_used_unless_dask_is_told_otherwise(client: Client) -> None:
    client.run_on_scheduler(seen_prefixes)
    with client.as_current():
        dask_rac.cluster(EDGES, duplicates="min")
        assert client.run_on_scheduler(seen_prefixes) >= {"cluster_in_memory"}
        for name in ("threads", "Threading", "sync", "synchronous", "single-threaded"):
            with dask.config.set(scheduler=name):
                dask_rac.cluster(EDGES, duplicates="min")
                assert isinstance(tasks_client.choose_scheduler(None), tasks_threads.Threads)
                assert isinstance(tasks_client.choose_scheduler(client), tasks_workers.Workers)
        assert client.run_on_scheduler(seen_prefixes) == set()
        with dask.config.set(scheduler="dask.distributed"):
            assert isinstance(tasks_client.choose_scheduler(None), tasks_workers.Workers)
    dask_rac.cluster(EDGES, duplicates="min")
    assert client.run_on_scheduler(seen_prefixes) == set(), "a client that is not current was used"


def test_graphs_audits_and_stand_ins_run_on_the_current_client(client: Client, tmp_path: Path) -> None:
    with client.as_current():
        dask_rac.knn_graph(np.random.default_rng(0).random((400, 30)).astype(np.float32), 5)
        assert client.run_on_scheduler(seen_prefixes)
        lattice = dask_rac.datasets.lattice(1000, 6, store=tmp_path / "edges")
        assert client.run_on_scheduler(seen_prefixes)
        run = dask_rac.cluster(lattice, store=tmp_path / "run")
        client.run_on_scheduler(seen_prefixes)
        assert run.verify().ok
        assert "tally_part" in client.run_on_scheduler(seen_prefixes)


def test_a_relative_path_is_opened_where_the_worker_finds_it(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "edges.parquet", EDGES)
    monkeypatch.chdir(tmp_path)
    assert dask_rac.cluster("edges.parquet", duplicates="min", client=client).n_nodes == N
    with pytest.raises(dask_rac.InputError, match=r"nowhere\.parquet") as caught:
        dask_rac.cluster("nowhere.parquet", client=client)
    assert any(note.startswith("as seen by worker tcp://") for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        (([0, 1], [1, 2], [1.0, -1.0]), {}, "column 'weight' is negative in row 1"),
        (([0, 0], [1, 1], [1.0, 2.0]), {}, "has two values for 1 edge"),
        (([0], [1], [1.0]), {"n_nodes": 1}, "n_nodes"),
        (([0], [1], [1.0]), {"n_nodes": True}, "n_nodes=True is not a whole number"),
        (([0], [1], [5.0]), {"missing": 2.0}, "missing"),
        (7, {}, "edges cannot be a int"),
        ((column for column in EDGES), {}, "edges cannot be a generator"),
        (delayed(as_frame)(EDGES), {}, "edges cannot be a dask"),
        (pd.DataFrame({"source": [0]}), {}, "no column 'target'"),
        (dd.from_pandas(pd.DataFrame({"source": [0]}), npartitions=1), {}, "no column 'target'"),
        ("", {}, "is not a path"),
    ],
)
def test_errors_come_through_as_themselves(
    client: Client, edges: Any, options: dict[str, Any], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(edges, client=client, **options)
    assert nothing_left(client)
    assert capfd.readouterr() == ("", "")


def test_self_loops_are_warned_of_where_cluster_is_called(client: Client) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dask_rac.cluster(([0, 1, 2], [1, 1, 2], [1.0, 2.0, 3.0]), client=client)
    assert [str(warning.message) for warning in caught] == ["dropped 2 self loops: a node has no distance to itself"]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("processes", [True, False])
def test_every_round_is_told_once(client: Client, processes: bool, tmp_path: Path) -> None:
    edges = random_edges(5000, 15_000)
    with local_client(1, processes=False) as threads:
        place = client if processes else threads
        events: list[dask_rac.Event] = []
        found = dask_rac.cluster(edges, missing="ignore", duplicates="min", client=place, progress=events.append)
        stages = [event.stage for event in events if event.stage not in ("compile", "round")]
        assert stages == ["load", "finisher", "done"]
        assert rounds_told(events) == found.rounds["merges"].tolist()
        for linkage in ("average", "single"):
            events.clear()
            stored = dask_rac.cluster(
                edges, linkage, duplicates="min", store=tmp_path / linkage, client=place, progress=events.append
            )
            assert rounds_told(events) == stored.rounds["merges"].tolist()


def test_progress_is_told_in_the_thread_that_waits_and_may_end_the_run(client: Client) -> None:
    def fail(event: dask_rac.Event) -> None:
        assert threading.current_thread() is threading.main_thread()
        if event.stage == "round":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dask_rac.cluster(LARGE, duplicates="min", client=client, progress=fail)
    assert nothing_left(client)


def test_runs_at_the_same_time_hear_of_themselves_alone(client: Client) -> None:
    graphs = [random_edges(20_000, 60_000, seed) for seed in range(3)]
    heard: list[list[dask_rac.Event]] = [[] for _ in graphs]
    runs = [
        dask_rac.cluster(edges, duplicates="min", client=client, wait=False, progress=events.append)
        for edges, events in zip(graphs, heard, strict=True)
    ]
    for run, events, edges in zip(runs, heard, graphs, strict=True):
        found = run.result()
        assert rounds_told(events) == found.rounds["merges"].tolist()
        assert_same(found, dask_rac.cluster(edges, duplicates="min"))
    subscribers = client.run_on_scheduler(
        lambda dask_scheduler: len(dask_scheduler._broker._topics["dask_rac"].subscribers)
    )
    assert subscribers == 0


def cluster_within(edges: Columns, store: str | None) -> list[float]:
    """A task of another program that clusters; a client of this worker is the default."""
    get_client()
    merges: Any = dask_rac.cluster(edges, duplicates="min", store=store).merges
    heights = merges["height"] if store is None else dask_rac.open(store).to_scipy(join=True)[:, 2]
    return sorted(np.asarray(heights).tolist())


def test_within_a_task_it_runs_in_threads_and_waits_for_no_worker(tmp_path: Path) -> None:
    expected = dask_rac.cluster(EDGES, duplicates="min")
    heights = sorted(expected.merges["height"].tolist())
    with local_client(1) as alone:
        assert alone.submit(cluster_within, EDGES, None).result(timeout=60) == heights
        joined = sorted(expected.to_scipy(join=True)[:, 2].tolist())
        assert alone.submit(cluster_within, EDGES, str(tmp_path / "run")).result(timeout=60) == joined


def test_a_worker_that_dies_costs_time_alone(client: Client) -> None:
    expected = dask_rac.cluster(LARGE, duplicates="min")
    killed: list[str] = []

    def kill(event: dask_rac.Event) -> None:
        if event.stage == "round" and not killed:
            counts = client.run(lambda dask_worker: (dask_worker.state.executing_count, os.getpid()))
            killed.extend(address for address, (count, _) in counts.items() if count)
            os.kill(counts[killed[0]][1], signal.SIGKILL)

    found = dask_rac.cluster(LARGE, duplicates="min", client=client, progress=kill)
    assert killed
    assert_same(found, expected)
    client.wait_for_workers(2, timeout=60)


def test_workers_that_die_again_and_again_are_told_of(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "edges.parquet", LARGE)

    def kill(event: dask_rac.Event) -> None:
        if event.stage == "round":
            for pid in frail.run(os.getpid).values():
                os.kill(pid, signal.SIGKILL)

    message = "workers died repeatedly during this run: give store= as well"
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), local_client(1) as frail:
        with pytest.raises(dask_rac.ResourceError, match=message):
            dask_rac.cluster(path, duplicates="min", client=frail, progress=kill)
        assert nothing_left(frail)


def test_workers_in_this_process_are_workers_too(tmp_path: Path) -> None:
    def fail(event: dask_rac.Event) -> None:
        if event.stage == "round":
            raise ZeroDivisionError

    with local_client(1, processes=False) as threads:
        for form in ("path", "Dask DataFrame", "symmetric"):
            edges = FORMS[form](tmp_path)
            found = dask_rac.cluster(edges, duplicates="min", client=threads)
            assert_same(found, dask_rac.cluster(edges, duplicates="min"))
        with pytest.raises(dask_rac.InputError, match=r"nowhere\.parquet"):
            dask_rac.cluster(tmp_path / "nowhere.parquet", client=threads)
        with pytest.raises(ZeroDivisionError):
            dask_rac.cluster(LARGE, duplicates="min", client=threads, progress=fail)
        assert nothing_left(threads)


def test_more_than_a_worker_holds_is_refused(tmp_path: Path) -> None:
    rows = 6_000_000
    many = tuple(np.broadcast_to(np.zeros(1, kind), rows) for kind in (np.int64, np.int64, np.float64))
    path = write_parquet(tmp_path / "edges.parquet", tuple(np.zeros(rows, "int8") for _ in range(3)))  # type: ignore[arg-type]
    message = r"6,000,000 edges need at least .*B of memory, and a worker has 0.5 GB: give store= as well"
    with local_client(1, memory_limit="500MB") as small:
        for edges in (many, path):
            with pytest.raises(dask_rac.ResourceError, match=message):
                dask_rac.cluster(edges, client=small)
            assert nothing_left(small)


def test_of_unequal_workers_the_largest_is_used(tmp_path: Path) -> None:
    def sized(limit: str) -> dict[str, Any]:
        return {"cls": Nanny, "options": {"nthreads": 1, "memory_limit": limit}}

    path = write_parquet(tmp_path / "edges.parquet", LARGE)
    nothing_ends = {f"distributed.worker.memory.{when}": False for when in ("target", "spill", "pause", "terminate")}
    scheduler = {"cls": Scheduler, "options": {"dashboard_address": ":0", "port": 0}}
    spec = {0: sized("400MB"), 1: sized("4GB"), 2: sized("400MB")}
    with (
        dask.config.set(nothing_ends),
        forked_workers(),
        SpecCluster(workers=spec, scheduler=scheduler, silence_logs=logging.CRITICAL) as cluster,
        Client(cluster, set_as_default=False) as unequal,
    ):
        unequal.wait_for_workers(3, timeout=60)
        for edges in (LARGE, path, LARGE):
            found = dask_rac.cluster(edges, duplicates="min", n_nodes=300_000, client=unequal)
            assert found.n_nodes == 300_000


def test_workers_and_clusters_that_go_while_edges_are_sent_are_told_of() -> None:
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), local_client(1, processes=False) as client:
        place = tasks_workers.Workers(client)
        assert isinstance(client.cluster, LocalCluster)
        client.cluster.scale(0)
        while workers_of(client):
            client.sync(asyncio.sleep, 0.02)
        with pytest.raises(dask_rac.ResourceError, match="the cluster has had no worker for 1 s"):
            place.send(EDGES)
        client.close()
        with pytest.raises(dask_rac.ResourceError, match="the client was closed while the run was in progress"):
            place.send(EDGES)


def test_an_asynchronous_client_is_refused() -> None:
    async def run() -> None:
        async with Client(processes=False, asynchronous=True, dashboard_address=":0") as client:
            for chosen in (client, None):
                with pytest.raises(dask_rac.InputError, match="is asynchronous, and runs wait for their tasks: give"):
                    dask_rac.cluster(EDGES, duplicates="min", client=chosen)
            with dask.config.set(scheduler="threads"):
                assert dask_rac.cluster(EDGES, duplicates="min").n_nodes == N

    asyncio.run(run())


def test_a_refusal_counts_the_edges_the_nodes_and_the_process() -> None:
    settings = checked_settings("average", None, "distance", None, "error", True)
    runs_memory.check_room(LARGE, 300_000, settings, 500_000_000)
    for nodes, limit in ((300_000, 400_000_000), (3_000_000, 500_000_000)):
        with pytest.raises(dask_rac.ResourceError, match="start workers with more memory"):
            runs_memory.check_room(LARGE, nodes, settings, limit)


def test_a_cluster_without_workers_is_refused() -> None:
    with (
        local_client(0) as empty,
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(dask_rac.ResourceError, match="the cluster has had no worker for 1 s: start workers"),
    ):
        dask_rac.cluster(EDGES, duplicates="min", client=empty)


@pytest.mark.parametrize("option", [{"memory": "1GB"}, {"shards": 2}])
def test_what_is_for_the_disk_needs_a_store(client: Client, option: dict[str, Any]) -> None:
    with pytest.raises(dask_rac.InputError, match="is only for runs through the disk"):
        dask_rac.cluster(EDGES, client=client, **option)
    with pytest.raises(dask_rac.InputError, match=r"client='there' is not a distributed\.Client"):
        dask_rac.cluster(EDGES, client="there")


def test_a_performance_report_names_our_tasks(client: Client, tmp_path: Path) -> None:
    with client.as_current(), performance_report(filename=str(tmp_path / "report.html")):
        dask_rac.cluster(EDGES, duplicates="min")
        dask_rac.cluster(EDGES, duplicates="min", store=tmp_path / "run", shards=2)
    report = (tmp_path / "report.html").read_text()
    for name in ("cluster_in_memory", "cut", "split", "fold", "finish_rest"):
        assert name in report
