"""Rows that go to their new shard by way of a group of shards, as where there are many: nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import numpy as np
import pytest
from distributed import Client
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.base.settings import checked_settings
from dask_rac.base.spans import starts_of
from dask_rac.engines.contract import Limits, Work
from dask_rac.engines.rows import stored, tasks
from dask_rac.engines.rows.groups import Groups, groups_of
from dask_rac.engines.rows.needs import EntrySizes
from dask_rac.engines.rows.receipts import Folded, Gathered, Moved
from dask_rac.engines.rows.sizes import projected_disk
from dask_rac.engines.rows.sweeper import Sweeper
from dask_rac.files.pieces import CHECKSUM
from dask_rac.kernels.rows.match import weigh_leaders
from dask_rac.tasks import cache
from tests.reference import hac
from tests.support.clients import nothing_left
from tests.support.effort import examples
from tests.support.folders import quick_folder
from tests.support.graphs import columns, tangled_edges
from tests.support.limits import cluster_within
from tests.support.results import assert_same, merge_set, merges_frame
from tests.support.stored import given_as
from tests.support.strategies import WEIGHTS, Graph, colliding_graphs, graphs, linkages, missing_value

TANGLED = tangled_edges(400, 2_000, 1_000, seed=3)
BY_GROUPS = Limits(direct_shards=1)


@examples(60)
@given(st.one_of(graphs(), colliding_graphs()), linkages(), WEIGHTS, st.integers(2, 12), st.integers(1, 3))
def test_groups_never_show(graph: Graph, how: tuple[str, str], weights: str, shards: int, threads: int) -> None:
    options: dict[str, Any] = {"linkage": how[0], "missing": missing_value(how[1], graph, weights), "weights": weights}
    with quick_folder() as folder, dask.config.set(num_workers=threads):
        edges = given_as(columns(graph), True, folder)
        given_too: dict[str, Any] = {"n_nodes": graph.n_nodes, "shards": shards, "finisher": False}
        found = cluster_within(BY_GROUPS, edges, **options, **given_too, store=folder / "run")
        oracle = hac(graph.n_nodes, graph.edges, **options)
        merges = merge_set(mock.Mock(merges=merges_frame(found)))
        assert merges == sorted((m.right, m.left, float(m.height), m.size) for m in oracle)


@pytest.mark.parametrize("options", [{}, {"weights": "similarity"}, {"linkage": "complete"}, {"linkage": "weighted"}])
@pytest.mark.parametrize("shards", [7, 30])
def test_bits_are_those_in_memory(folder: Path, options: dict[str, Any], shards: int) -> None:
    edges = given_as(TANGLED, True, folder)
    found = cluster_within(BY_GROUPS, edges, **options, shards=shards, store=folder / "run", finisher=False)
    assert_same(found, dask_rac.cluster(TANGLED, **options, finisher=False))


def test_bits_are_the_same_on_workers(folder: Path, client: Client) -> None:
    edges = given_as(TANGLED, True, folder)
    found = cluster_within(BY_GROUPS, edges, shards=9, store=folder / "run", finisher=False, client=client)
    assert_same(found, dask_rac.cluster(TANGLED, finisher=False))
    assert nothing_left(client)


def test_what_has_moved_is_deleted_while_a_round_goes_on(folder: Path) -> None:
    seen: list[Sweeper] = []

    class Watched(Sweeper):
        def __call__(self, layer: str, receipt: Any) -> None:
            super().__call__(layer, receipt)
            on_disk = sum(path.stat().st_size for path in folder.glob("run/rounds/*/[gm][ao][tv]*"))
            known = sum(part.disk[0] for parts in self._gathered.values() for part in parts)
            known += sum(moved.disk[number] for moved in self._moved for number in self._open)
            assert on_disk >= known or layer == "fold"
            if isinstance(receipt, Folded):
                seen.append(self)

    edges = given_as(TANGLED, True, folder)
    with mock.patch.object(stored, "Sweeper", Watched), dask.config.set(num_workers=1):
        cluster_within(BY_GROUPS, edges, shards=9, store=folder / "run", finisher=False)
    assert seen
    assert not any(sweeper._open or sweeper._gathered or sweeper._copied for sweeper in seen)
    assert not any(sweeper._between for sweeper in seen)
    assert all(sweeper.peak > 0 for sweeper in seen)


@pytest.mark.parametrize("linkage", ["average", "complete"])
def test_copies_are_part_of_the_projected_disk(folder: Path, linkage: str) -> None:
    nodes, degree, shards, copied = 20_000, 4, 9, [0]

    class Watched(Sweeper):
        def __call__(self, layer: str, receipt: Any) -> None:
            super().__call__(layer, receipt)
            copied.append(sum(copy.disk for copy in self._copied))

    edges = dask_rac.datasets.lattice(nodes, degree, store=folder / "edges")
    large = replace(BY_GROUPS, small_states=0)  # so that states are not kept, as of a large graph
    with mock.patch.object(stored, "Sweeper", Watched), dask.config.set(num_workers=1):
        found = cluster_within(large, edges, linkage, shards=shards, store=folder / "run", finisher=False)
    sizes = EntrySizes.of(checked_settings(linkage, None, "distance"), nodes, nodes * degree // 2, "float32")
    with_copies, without = (
        projected_disk(sizes, nodes, nodes * degree // 2, shards, limits) for limits in (large, Limits(small_states=0))
    )
    assert 0.5 * (with_copies - without) < max(copied) < with_copies - without
    assert found.peak_disk < with_copies


def test_single_linkage_copies_nothing() -> None:
    sizes = EntrySizes.of(checked_settings("single", None, "distance"), 10**6, 10**7, "float32")
    assert projected_disk(sizes, 10**6, 10**7, 10_000, Limits()) == projected_disk(sizes, 10**6, 10**7, 1, Limits())


def test_a_round_must_have_room_for_copies(folder: Path) -> None:
    asked: list[int] = []

    def require(_: Any, needed: int, what: str, *rest: Any) -> None:
        if what == "the next round":
            asked.append(needed)

    edges = given_as(TANGLED, True, folder)
    for limits, name in ((Limits(), "direct"), (BY_GROUPS, "groups")):
        with mock.patch.object(Work, "require_disk", require):
            cluster_within(limits, edges, shards=9, store=folder / name, finisher=False)
    rounds = len(asked) // 2
    more = [groups - direct for direct, groups in zip(asked[:rounds], asked[rounds:], strict=True)]
    nodes = dask_rac.open(folder / "groups").n_nodes
    assert more[0] == 2 * 4 * nodes
    assert 0 < more[1] < 4 * 4 * nodes


@pytest.mark.parametrize("limits", [BY_GROUPS, Limits()])
def test_nothing_of_the_round_before_is_kept_while_a_round_is_cut(folder: Path, limits: Limits) -> None:
    seen: list[set[str]] = []

    def weigh(*arguments: Any) -> Any:
        seen.append({"vector", "fates"} & set(cache._kept))
        return weigh_leaders(*arguments)

    edges = given_as(TANGLED, True, folder)
    with mock.patch.object(tasks, "weigh_leaders", weigh):
        cluster_within(limits, edges, shards=9, store=folder / "run", finisher=False)
    assert len(seen) > 3
    assert all(kept == {"vector"} for kept in seen)


@given(st.integers(1, 40_000), st.integers(0, 40_000))
def test_groups_divide_shards(shards: int, sources: int) -> None:
    groups = groups_of(shards)
    spans = [groups.span(group) for group in range(groups.count)]
    assert spans[0][0] == 0
    assert spans[-1][1] == shards
    assert all(stop == first for (_, stop), (first, _) in pairwise(spans))
    assert all(0 < stop - first <= groups.width for first, stop in spans)
    assert groups.count <= groups.width <= shards
    assert (groups.width - 1) ** 2 < shards
    batches = groups.batches(sources)
    assert len(batches) <= groups.count
    assert [k for first, stop in batches for k in range(first, stop)] == list(range(sources))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=30), st.integers(1, 9))
def test_a_receipt_tells_where_each_piece_begins(pieces: list[tuple[int, int]], files: int) -> None:
    sizes = np.array([(rows, entries if rows else 0) for rows, entries in pieces])
    files = min(files, len(pieces))
    kinds = (("length", "int32"),), (("weight", "float64"), ("tie", "uint16"))
    names = tuple(map(str, range(files)))
    moved = Moved(names, *kinds, starts_of(sizes[:, 0]), starts_of(sizes[:, 1]), (1,) * files)
    offsets: dict[str, int] = {}
    for number, (rows, entries) in enumerate(sizes.tolist()):
        arrival = moved.piece(number)
        name = names[max(k for k in range(files) if len(pieces) * k // files <= number)]
        at = offsets.setdefault(name, 0)
        offsets[name] += 4 * rows + 10 * entries + CHECKSUM
        if not rows:
            assert arrival is None
        else:
            assert arrival is not None
            assert (arrival.name, arrival.offset, arrival.rows, arrival.entries) == (name, at, rows, entries)


def test_twenty_thousand_shards_take_few_numbers() -> None:
    groups: Groups = groups_of(20_000)
    assert groups.count <= 142
    starts = np.zeros(groups.count + 1, np.int64)
    receipt = Moved(("",) * 8, (), (), starts, starts, (0,) * 8)
    held = 20_000 * (receipt.rows.nbytes + receipt.entries.nbytes)
    parts = Gathered(0, (Moved(("",), (), (), np.zeros(groups.width + 1, np.int64), starts, (0,)),)).parts
    held += groups.count**2 * sum(part.rows.nbytes + part.entries.nbytes for part in parts)
    assert held < 100_000_000
