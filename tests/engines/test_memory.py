"""What is held for clusters, rows and readers is counted, and what would never end says which memory would do."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.base.errors import StoppedError
from dask_rac.base.events import Event, RoundRecord
from dask_rac.base.settings import EDGE_COLUMNS, checked_settings
from dask_rac.base.text import at_least
from dask_rac.edges.source import open_edges
from dask_rac.engines.contract import Limits
from dask_rac.engines.rows import in_memory
from dask_rac.engines.rows.columns import copy_columns
from dask_rac.engines.rows.groups import groups_of
from dask_rac.engines.rows.needs import EntrySizes, Room, finisher_bytes, finisher_room, table_bytes
from dask_rac.engines.rows.pace import JUDGED, MOST_ROUNDS, rounds_until, stalls
from dask_rac.engines.rows.receipts import Job
from dask_rac.engines.rows.round import finisher_round
from dask_rac.engines.rows.sizes import shard_entries
from dask_rac.engines.rows.tasks import cut, fates_of
from dask_rac.files.arrays import write_group
from dask_rac.files.buffers import REQUEST
from dask_rac.files.folder import Folder
from dask_rac.kernels.arrays import Clusters, Merges, Rule
from dask_rac.kernels.rows.links import Links
from dask_rac.kernels.rows.match import LEADS
from dask_rac.kernels.rows.table import table_size
from dask_rac.show.progress import Describer
from dask_rac.store.manifest import ShardRecord, State
from dask_rac.tasks.budget import MOST_EVENED, Budget
from dask_rac.tasks.cache import forget_state
from dask_rac.tasks.team import Team
from tests.support.folders import no_fsync
from tests.support.graphs import tangled_edges
from tests.support.limits import cluster_within
from tests.support.results import assert_same, merge_set, merges_frame
from tests.support.stored import Columns, PlugPulledError, steps_of, write_parquet

LEAVES = 5_000


def star(leaves: int) -> Columns:
    """One node that all others want to join, one after the other."""
    return np.zeros(leaves, int), np.arange(1, leaves + 1), np.random.default_rng(0).random(leaves)


def advised(error: BaseException) -> str:
    """The memory that a refusal names."""
    found = re.search(r"memory='([\d.]+[GM]B)'", str(error).partition(": ")[2])
    assert found, error
    return found[1]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Budgets are for one thread, whatever the machine has."""
    with dask.config.set(num_workers=1), no_fsync():
        yield


def test_rounds_that_lead_nowhere_stop_with_the_memory_that_ends_them(folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", star(LEAVES))
    with pytest.raises(StoppedError, match=r"rounds have merged 8 of .* more rounds would follow") as caught:
        dask_rac.cluster(edges, store=folder / "run", memory=600_000)
    assert len(dask_rac.open(folder / "run").rounds) == JUDGED + 1
    with pytest.raises(StoppedError, match="more rounds would follow"):  # at once: nothing has changed
        dask_rac.resume(folder / "run", memory=600_000)
    assert len(dask_rac.open(folder / "run").rounds) == JUDGED + 1
    found = dask_rac.resume(folder / "run", memory=advised(caught.value))
    expected = dask_rac.cluster(edges)
    assert merge_set(mock.Mock(merges=merges_frame(found))) == merge_set(expected)


@pytest.mark.parametrize(
    ("edges", "memory", "options"),
    [
        (star(LEAVES), 600_000, {}),
        (tangled_edges(3_000, 60_000, 1_000, seed=5), 900_000, {"missing": "ignore"}),
        (tangled_edges(2_000, 60_000, 1_000, seed=5), 600_000, {"weights": "similarity", "epsilon": 0.1}),
    ],
    ids=["star", "tangled", "within a factor"],
)
def test_a_round_for_lack_of_memory_says_at_once_how_much_ends_the_run(
    edges: Columns, memory: int, options: dict[str, Any], folder: Path
) -> None:
    source, said = write_parquet(folder / "edges.parquet", edges), list[Event]()

    def listen(event: Event) -> None:
        said.append(event)
        if event.wanted:
            raise PlugPulledError

    with pytest.raises(PlugPulledError):
        dask_rac.cluster(source, store=folder / "run", memory=memory, progress=listen, **options)
    rounds = [event for event in said if event.stage == "round" and event.record]
    assert [event.record.deferred for event in rounds if event.record] == [False] * (len(rounds) - 1) + [True]
    wanted = rounds[-1].wanted
    assert f"memory='{at_least(wanted)}' would end the run in memory" in Describer()(rounds[-1])
    plan = dask_rac.plan(source, memory=memory, **options)
    assert memory < wanted <= plan.ending
    assert plan.facts()["with hubs"].endswith("would end it once rounds merge few clusters")
    assert "with hubs" not in dask_rac.plan(source, memory=plan.ending, **options).facts()
    found = dask_rac.resume(folder / "run", memory=wanted)
    assert len(found.rounds) == len(rounds) + 1
    assert found.facts()["rounds"].startswith(f"{len(rounds)}, 1 of them in place of the finisher and")
    assert len(merges_frame(found)) == len(dask_rac.cluster(edges, **options).merges)


def test_no_memory_ends_a_run_that_has_no_finisher(folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", star(100))
    assert dask_rac.plan(edges, "single", memory=100_000).ending == 0
    assert dask_rac.plan(edges, memory=100_000).ending > 0


@pytest.mark.parametrize("as_matrix", [False, True])
def test_when_the_finisher_begins_all_rows_are_gone(as_matrix: bool) -> None:
    u, v, weight = edges = tangled_edges(2_000, 100_000, 1_000, seed=5)
    half = sp.csr_array((weight, (u, v)), shape=(2_000, 2_000))
    given_edges = sp.csr_array(half + half.T) if as_matrix else edges
    held = []

    def finish(clusters: Clusters, links: Links, rule: Rule, merges: Merges, team: Team) -> RoundRecord:
        held.append(tracemalloc.get_traced_memory()[0] - before - sum(array.nbytes for array in links[1:]))
        return finisher_round(clusters, links, rule, merges, team)

    dask_rac.cluster(edges)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        with mock.patch.object(in_memory, "finisher_round", finish):
            cluster_within(Limits(hand_over=2.0), given_edges, missing="ignore")
    finally:
        tracemalloc.stop()
    assert held[0] < 2 * len(u) + 500 * 2_000  # a row has two entries of at least 14 bytes for each edge


@pytest.mark.parametrize("limits", [Limits(), Limits(direct_shards=1)])
def test_vectors_over_clusters_have_room_for_what_is_on_its_way(folder: Path, limits: Limits) -> None:
    """From an object store, even while all copies are made at a time; each of these stays in memory:// once more."""
    clusters, shards, ids = 2**21, 16, "int32"
    job = Job(f"memory://{folder.name}", checked_settings("average", None, "distance"), clusters, ids, ids, ids, "r", 1)
    job = replace(job, limits=limits)
    each, parts = clusters // shards, []
    for first in range(0, clusters, each):
        place = np.arange(first, first + each, dtype=ids)
        columns = {"nearest": place ^ 1, "length": np.ones(each, ids), "ids": place, "size": np.ones(each, ids)}
        parts.append(ShardRecord(f"r/{first}", first, each, each, tuple(write_group(job.store, f"r/{first}", columns))))
    state = State(1, clusters, tuple(parts))
    column, sizes = clusters * np.dtype(ids).itemsize, EntrySizes.of(job.settings, clusters, clusters, "float32")
    tasks = range(groups_of(shards).count) if limits.direct_shards == 1 else ()
    copies, peaks = [], []

    def measured(task: Callable[..., Any], *arguments: Any) -> Any:
        tracemalloc.start()
        try:
            found = task(*arguments)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        return found

    try:
        for number in tasks:
            copied = measured(copy_columns, job, state, number)
            copies.append(copied)
        before = len(peaks)
        assert measured(cut, job, state, copies).merges == clusters // 2
        forget_state()
        fate, merged, _ = measured(fates_of, job, state, copies)
        assert len(merged) == clusters // 2
        assert (fate[::8] == np.arange(0, clusters, 4) // 2 << 2 | LEADS).all()
    finally:
        forget_state()
        Folder(job.url).remove("")
    assert max(peaks[before:]) <= 1.01 * sizes.vectors(1) * clusters
    assert len(tasks) * max(peaks[:before], default=0) <= 1.1 * sizes.vectors(1) * clusters + column


@given(
    st.integers(10**6, 10**9),
    st.integers(1, 50),
    st.floats(0, 1),
    st.integers(1, 64),
    st.floats(2, 100),
)
def test_replies_take_no_more_than_vectors_have_left(
    nodes: int, degree: int, left: float, threads: int, memory: float
) -> None:
    settings, clusters = checked_settings("average", None, "distance"), int(left * nodes)
    sizes = EntrySizes.of(settings, nodes, degree * nodes, "float32")
    budget = Budget(int(memory * sizes.vectors(threads) * nodes), 1, threads)
    load = shard_entries(sizes, nodes, degree * nodes, budget, None)
    replies = Room(sizes, budget).replies(nodes, clusters)
    held = sizes.vectors(threads) * clusters + threads * (sizes.task(load) + replies)
    assert replies >= REQUEST
    assert held <= budget.process or replies == REQUEST
    assert Room(sizes, budget).replies(nodes, nodes) == REQUEST


def test_rounds_in_memory_that_lead_nowhere_stop_as_well(folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", star(LEAVES))
    with pytest.raises(StoppedError, match="what is left does not fit in memory") as caught:
        dask_rac.cluster(edges, store=folder / "run", memory=1_000_000)
    assert not dask_rac.open(folder / "run").finished
    assert len(dask_rac.resume(folder / "run", memory=advised(caught.value)).rounds) == 2


def test_a_row_that_no_task_can_hold_is_refused_before_anything_is_written(folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", star(200_000))
    with pytest.raises(dask_rac.ResourceError, match="has 200,063 edges, which need") as caught:
        dask_rac.cluster(edges, missing="ignore", store=folder / "run", memory="8MB")
    assert not (folder / "run").exists()
    assert dask.utils.parse_bytes(advised(caught.value)) <= 60e6
    found = dask_rac.cluster(edges, missing="ignore", store=folder / "run", memory=advised(caught.value))
    assert len(found.rounds) == 2


def test_any_number_of_rounds_is_done_without_the_finisher(folder: Path) -> None:
    u = np.arange(20)
    chain = u, u + 1, 1.0 + u
    found = dask_rac.cluster(chain, missing="ignore", store=folder / "run", finisher=False, memory=80 * 21)
    assert len(found.rounds) == 20
    assert not found.rounds["deferred"].any()


def record(edges: int, deferred: bool = True) -> RoundRecord:
    """A round that began with some edges."""
    return RoundRecord(round=1, clusters=edges, edges=edges, merges=1, deferred=deferred)


@given(st.lists(st.integers(1, 10**9), min_size=JUDGED, max_size=JUDGED + 3), st.integers(0, 10**9), st.booleans())
def test_rounds_are_judged_by_their_pace(lost: Sequence[int], room: int, deferred: bool) -> None:
    left = [10**12 - sum(lost[:k]) for k in range(len(lost) + 1)]
    records = [record(edges, deferred) for edges in left[:-1]]
    rounds = rounds_until(records, left[-1], room)
    if deferred:
        assert rounds == pytest.approx((left[-1] - room) / (sum(lost[-JUDGED:]) / JUDGED))
        assert stalls(records, left[-1], room) == (rounds > MOST_ROUNDS)
        assert not stalls([replace(records[0], deferred=False), *records[-JUDGED + 1 :]], left[-1], room)
        assert not stalls(records[-JUDGED + 1 :], left[-1], room)
        assert not stalls(records, room, room)
    else:
        assert rounds == 0


@pytest.mark.parametrize("linkage", ["average", "single"])
def test_nodes_without_edges_are_cut_into_shards_too(linkage: str, folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", (np.array([0, 5000]), np.array([1, 9999]), np.array([1.0, 2.0])))
    options: dict[str, Any] = {"linkage": linkage, "n_nodes": 100_000, "memory": 7_000_000}
    with dask.config.set(num_workers=2):
        plan = dask_rac.plan(edges, **options)
        found = dask_rac.cluster(edges, store=folder / "run", **options)
    assert plan.shards > 1
    assert plan.node_bytes >= 12 * 100_000
    assert "MB in each process" in plan.facts()["for nodes"]
    state = steps_of(folder / "run")[0].state
    assert state is not None
    assert len(state.shards) == plan.shards
    assert max(shard.clusters for shard in state.shards) < 1.1 * 100_000 / plan.shards + 32
    assert found.n_trees == 99_998


@given(st.integers(1, 10**6), st.integers(1, 300), st.integers(1, 64))
def test_threads_share_tasks_evenly(tasks: int, processes: int, threads: int) -> None:
    width = processes * threads
    found = Budget(1, processes, threads).evened(tasks)
    assert 0 <= found - tasks < width
    assert found % width == 0 or found == tasks < width or found == tasks > MOST_EVENED * width


def test_shards_are_shared_evenly_until_there_are_few(folder: Path) -> None:
    random = np.random.default_rng(0)
    u = random.integers(0, 20_000, 400_000)
    v = (u + random.integers(1, 20_000, len(u))) % 20_000
    edges = write_parquet(folder / "edges.parquet", (u, v, random.random(len(u))))
    options: dict[str, Any] = {"n_nodes": 20_000, "weights": "similarity"}
    all_options = options | {"finisher": False, "duplicates": "max"}
    with dask.config.set(num_workers=3):
        plan = dask_rac.plan(edges, memory=7_000_000, **options)
        found = dask_rac.cluster(edges, store=folder / "run", memory=7_000_000, **all_options)
    shards = found.phases["shards"].to_numpy()
    assert shards[0] == plan.shards > 6
    assert all(count % 3 == 0 or count < 3 or count > 3 * MOST_EVENED for count in shards[:-1])
    assert any(count % 3 == 0 for count in shards[:-1])
    assert_same(found, dask_rac.cluster(edges, **all_options))


def test_a_row_group_is_read_in_pieces(folder: Path) -> None:
    rows = 400_000
    rng = np.random.default_rng(0)
    edges = *rng.integers(0, 2**40, (2, rows)), rng.random(rows)
    file = write_parquet(folder / "edges.parquet", edges, row_group_size=rows, compression="none", use_dictionary=False)
    source = replace(open_edges(file), batch_rows=10_000)
    (unit,) = source.units(50_000)
    assert unit.rows == rows
    before, most, first = pa.total_allocated_bytes(), 0, 0
    for columns, _ in source.read(unit):
        most = max(most, pa.total_allocated_bytes() - before)
        for name, column in zip(EDGE_COLUMNS, edges, strict=True):
            np.testing.assert_array_equal(columns[name], column[first : first + len(columns[name])])
        first += len(columns["weight"])
    assert first == rows
    assert most < 24 * rows / 2


def test_a_chunk_that_can_only_be_decoded_whole_is_in_the_plan(folder: Path) -> None:
    rows = 1_000_000
    group = zarr.create_group(str(folder / "edges.zarr"))
    u = np.arange(rows) % 100
    for name, column in {"source": u, "target": u + 1, "weight": np.ones(rows)}.items():
        group.create_array(name, data=column, chunks=(rows,))
    calls: list[tuple[Any, dict[str, Any]]] = [(dask_rac.plan, {}), (dask_rac.cluster, {"store": folder / "run"})]
    with dask.config.set(num_workers=2):
        for call, options in calls:
            with pytest.raises(dask_rac.ResourceError, match="chunks of 1,000,000 edges need 96 MB in each") as caught:
                call(folder / "edges.zarr", memory="20MB", n_nodes=101, **options)
        assert dask_rac.plan(folder / "edges.zarr", memory=advised(caught.value), n_nodes=101).nodes == 101
    assert not (folder / "run").exists()


@given(st.integers(0, 10**7))
def test_tables_are_as_large_as_the_kernel_makes_them(widest: int) -> None:
    sizes = EntrySizes(4, 8, 14, 1.0)
    assert table_bytes(sizes, widest) == table_size(widest) * 34 + 16 * widest
    assert table_size(widest) <= table_size(widest + 1)
    assert table_size(widest) >= 2 * widest


@given(st.integers(0, 10**7), st.integers(1, 10**10), st.sampled_from([4, 8]))
def test_the_finisher_takes_as_many_edges_as_fit_and_no_more(clusters: int, memory: int, ids: int) -> None:
    sizes, budget = EntrySizes(ids, 8, ids + 14, 1.0), Budget(memory, 1, 2)
    room = finisher_room(sizes, clusters, budget)
    assert room == 0 or finisher_bytes(sizes, clusters, room) <= memory
    assert finisher_bytes(sizes, clusters, room + 1) > memory
