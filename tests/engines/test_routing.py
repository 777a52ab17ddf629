"""How edges come to their shards: the layout, the counts that it is made from, and ways by block and by group."""

from pathlib import Path
from typing import Any
from unittest import mock

import dask
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.base.names import COUNTED
from dask_rac.base.settings import EDGE_COLUMNS, checked_settings
from dask_rac.edges.checks import checked_weights
from dask_rac.engines.contract import Limits
from dask_rac.engines.rows import layout as rows_layout
from dask_rac.engines.rows import scanning, stored
from dask_rac.engines.rows.receipts import Job
from dask_rac.engines.rows.sweeper import IntakeSweeper
from dask_rac.files.folder import Folder
from dask_rac.store.manifest import ShardRecord
from tests.support.effort import examples
from tests.support.folders import quick_folder
from tests.support.graphs import columns, tangled_edges
from tests.support.limits import cluster_within
from tests.support.results import assert_same
from tests.support.stored import Columns, steps_of, write_parquet
from tests.support.strategies import Graph, graphs

BY_GROUPS = Limits(direct_blocks=0, unit_rows=50)


def scanned(edges: Columns) -> scanning.Scanned:
    """Return the result of scanning arrays."""
    settings = checked_settings("average", None, "distance", None, "error", True)
    source = mock.Mock(read=lambda _: [(dict(zip(EDGE_COLUMNS, edges, strict=True)), str)])
    assert len(checked_weights(edges[2], settings, str)) == len(edges[2])
    return scanning.scan(source, mock.Mock(), None, settings, scanning.Histogram())


@given(
    st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 60_000)), max_size=60),
    st.integers(0, 500),
    st.integers(1, 200),
)
def test_every_node_has_one_shard_and_no_shard_is_much_too_large(
    pairs: list[tuple[int, int]], more: int, room: int
) -> None:
    u, v = np.array(pairs, np.int64).reshape(-1, 2).T
    receipts = [scanned((u[k::2], v[k::2], np.ones(len(u[k::2])))) for k in range(2)]
    nodes = 1 + max((receipt.largest_id for receipt in receipts), default=-1) + more
    counted = scanning.count_entries([receipt.counted for receipt in receipts], nodes, scanning.Histogram())
    layout = rows_layout.lay_out(counted, nodes, room)
    assert layout.bounds[0] == 0
    assert layout.bounds[-1] == nodes
    assert list(layout.bounds) == sorted(layout.bounds)
    owner = np.array(layout.owner)
    for node in {0, nodes - 1, *u.tolist(), *v.tolist()} & set(range(nodes)):
        number = owner[node >> layout.shift]
        assert layout.bounds[number] <= node < layout.bounds[number + 1]
    degrees = np.bincount(np.concatenate((u, v)) >> layout.shift, minlength=1)
    held = np.bincount(owner[np.concatenate((u, v)) >> layout.shift], minlength=layout.shards)
    assert held.max() <= room + degrees.max()
    blocks = [layout.block(i, j) for i in range(layout.shards) for j in range(i, layout.shards)]
    assert blocks == list(range(layout.blocks))


@examples(60)
@given(graphs(), st.integers(1, 12), st.integers(1, 3), st.booleans())
def test_edges_that_go_by_way_of_groups_make_the_same_first_state(
    graph: Graph, shards: int, threads: int, both_ways: bool
) -> None:
    u, v, weight = columns(graph)
    edges = (np.append(u, v), np.append(v, u), np.append(weight, weight)) if both_ways else (u, v, weight)
    with quick_folder() as folder, dask.config.set(num_workers=threads):
        path = write_parquet(folder / "edges.parquet", edges, row_group_size=5)
        options: dict[str, Any] = {"n_nodes": graph.n_nodes, "shards": shards, "duplicates": "max"}
        found = cluster_within(BY_GROUPS, path, store=folder / "run", **options)
        expected = dask_rac.cluster(path, store=folder / "direct", **options)
        assert_same(found, expected)
        assert [shard.entries for shard in first_shards(folder / "run")] == [
            shard.entries for shard in first_shards(folder / "direct")
        ]


def first_shards(store: Path) -> tuple[ShardRecord, ...]:
    """The shards of the first state."""
    state = steps_of(store)[0].state
    assert state is not None
    return state.shards


def test_edges_on_their_way_are_deleted_as_soon_as_they_are_read(folder: Path) -> None:
    seen: list[int] = []

    class Watched(IntakeSweeper):
        def __call__(self, layer: str, receipt: Any) -> None:
            super().__call__(layer, receipt)
            on_their_way = [*folder.glob("run/rounds/*/routed*"), *folder.glob("run/rounds/*/sorted*")]
            if layer == "build":
                seen.append(len(on_their_way))

    tangled = tangled_edges(200, 600, 1000, seed=1)
    path = write_parquet(folder / "edges.parquet", tangled, row_group_size=20)
    with mock.patch.object(stored, "IntakeSweeper", Watched), dask.config.set(num_workers=1):
        found = cluster_within(BY_GROUPS, path, shards=9, store=folder / "run")
    assert_same(found, dask_rac.cluster(tangled))
    assert len(seen) >= 8
    assert max(seen[1:]) < seen[0] + 3, "what one group has sorted comes on top, not what all have"
    assert seen[-1] == 0


def test_counts_for_many_shards_are_in_files_and_cut_as_finely(folder: Path) -> None:
    edges = dask_rac.datasets.lattice(3_000, 6, store=folder / "edges")
    counted: list[int] = []
    real = rows_layout.lay_out

    def lay_out(*given: Any) -> Any:
        counted.append(len([*folder.glob(f"run/rounds/*/{COUNTED}*")]))
        return real(*given)

    with mock.patch.object(scanning, "FEW_BINS", 8), mock.patch.object(stored, "lay_out", lay_out):
        found = cluster_within(Limits(unit_rows=1_000), edges, shards=9, store=folder / "run")
    assert_same(found, dask_rac.cluster(edges))
    assert counted == [0], "they are deleted once they are added up"
    entries = [shard.entries for shard in first_shards(folder / "run")]
    assert len(entries) == 9
    assert max(entries) < 1.3 * sum(entries) / len(entries)


def test_a_histogram_in_files_is_the_one_in_receipts(folder: Path) -> None:
    job = mock.Mock(spec=Job, store=Folder(folder), folder="rounds/0")
    large, small = scanning.Histogram.of(300, job), scanning.Histogram.of(256, job)
    assert (large.bins, small.bins) == (8192, 4096)
    counts = [scanning.Counted(shift, np.arange(8192)) for shift in (0, 2, 1)]
    saved = [large.save(counted) for counted in counts]
    assert all(counted.name and not len(counted.bins) for counted in saved)
    assert small.save(counts[0]) is counts[0]
    scanned_too = [mock.Mock(spec=scanning.Scanned, counted=counted) for counted in saved]
    total = scanning.count_entries([scanning.add_up(large, scanned_too)], 4 * 8192, large)
    assert total.shift == 2
    assert total.bins.sum() == 3 * np.arange(8192).sum()
    expected = np.arange(8192).copy()
    for shift in (1, 2):
        np.add.at(expected, np.arange(8192) >> shift, np.arange(8192))
    assert (total.bins == expected).all()
