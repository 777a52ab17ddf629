"""Where a round cuts the next state, and how good merges regroup clusters: compared with plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dask_rac.kernels.rows import regroup
from dask_rac.kernels.rows.match import cut_leaders, weigh_leaders
from tests.support.effort import examples

pytestmark = pytest.mark.kernels


@st.composite
def states(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """The nearest of each cluster, some reciprocal, some far from everybody, and the lengths of their rows."""
    n = draw(st.integers(2, 30))
    others = st.lists(st.integers(-1, n - 1), min_size=n, max_size=n)
    nearest = np.array([v if v != u else -1 for u, v in enumerate(draw(others))], np.int32)
    for u, v in draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=10)):
        if u != v:
            nearest[u], nearest[v] = v, u
    while stray := [u for u in range(n) if nearest[u] >= 0 and nearest[nearest[u]] < 0]:
        nearest[stray] = -1
    lengths = st.lists(st.integers(1, 50), min_size=n, max_size=n)
    return nearest, np.where(nearest >= 0, np.array(draw(lengths), np.int32), 0).astype(np.int32)


def leads(nearest: np.ndarray) -> dict[int, list[int]]:
    """The clusters that each new cluster is made of, by the one that leads it."""
    found: dict[int, list[int]] = {}
    for u, v in enumerate(nearest.tolist()):
        if v >= 0:
            found.setdefault(min(u, v) if nearest[v] == u else u, []).append(u)
    return found


LATE = (
    np.array([10, 0, 0, 8, 5, 4, 10, 10, 9, 8, 6], np.int32),
    np.array([1, 2, 4, 1, 9, 2, 1, 10, 2, 1, 23], np.int32),
)
"""The last cluster adds nothing: it joins one before it."""


@examples(200)
@given(states(), st.integers(0, 20), st.integers(1, 12))
@example(LATE, 0, 1)
def test_leaders_are_cut_into_ranges_of_about_the_same_load(
    state: tuple[np.ndarray, np.ndarray], row_load: int, parts: int
) -> None:
    nearest, length = state
    new = leads(nearest)
    sums = {u: int(sum(length[v] for v in group)) for u, group in new.items()}
    own = np.array([row_load * (1 + (len(new.get(u, ())) > 1)) + sums.get(u, 0) for u in range(len(nearest))])
    live, merges, _, entries, load, widest = weigh_leaders(nearest, length, row_load)
    assert (live, merges) == (int((nearest >= 0).sum()), sum(len(group) > 1 for group in new.values()))
    assert (entries, load, widest) == (sum(sums.values()), own.sum(), max(sums.values(), default=0))
    if not load:
        return
    borders = np.empty((parts + 1, 4), np.int64)
    count = cut_leaders(nearest, length, row_load, load, borders)
    places, before, folded, loaded = borders[: count + 1].T
    assert 1 <= count <= parts
    assert (places[0], places[-1]) == (0, len(nearest))
    assert (np.diff(places) > 0).all()
    for place, clusters, some, loads in zip(places, before, folded, loaded, strict=True):
        assert clusters == sum(u < place for u in new)
        assert some == sum(size for u, size in sums.items() if u < place)
        assert loads == own[:place].sum()
    assert np.diff(loaded).max() <= load / parts + own.max()


@examples(200)
@given(states(), st.integers(1, 120))
def test_groups_are_linked_by_their_nearest_and_fit(state: tuple[np.ndarray, np.ndarray], most: int) -> None:
    nearest, length = state
    order = np.flatnonzero(nearest >= 0).astype(np.int32)
    load, root = length.astype(np.int64), np.empty(len(nearest), np.int32)
    regroup.join_nearest(nearest, order, load, most, root)
    assert (root[root] == root).all()
    first = {int(order[0]), int(nearest[order[0]])} if len(order) else set()
    for group in set(root.tolist()):
        members = set(np.flatnonzero(root == group).tolist())
        assert load[group] == length[sorted(members)].sum()
        assert load[group] <= most or len(members) == 1 or first <= members
        reached = {group}
        while grown := {u for u in members - reached if int(nearest[u]) in reached} | {
            int(nearest[u]) for u in reached if int(nearest[u]) in members - reached
        }:
            reached |= grown
        assert reached == members
    assert not first or len({int(root[u]) for u in first}) == 1


@examples(100)
@given(states(), st.integers(1, 5))
def test_every_cluster_gets_a_place_in_the_shard_of_its_group(
    state: tuple[np.ndarray, np.ndarray], shards: int
) -> None:
    nearest, length = state
    n = len(nearest)
    root, shard = np.arange(n, dtype=np.int32), np.full(n, -1, np.int32)
    groups, held = np.flatnonzero(nearest >= 0), np.empty(shards, np.int64)
    regroup.deal(groups[np.argsort(-length[groups], kind="stable")], length.astype(np.int64), shard, held)
    assert held.max() - held.min() <= max(length.max(), held.max() if len(groups) < shards else 0)
    bases = np.concatenate(([0], np.cumsum(np.bincount(shard[groups], minlength=shards))))
    place = np.empty(n, np.int32)
    regroup.place_clusters(nearest, root, shard, bases.copy(), place)
    assert sorted(place.tolist()) == list(range(n))
    for u in range(n):
        there = int(np.searchsorted(bases, place[u], side="right")) - 1
        assert there == shard[u] if nearest[u] >= 0 else place[u] >= bases[-1]


@given(st.integers(1, 40), st.data())
def test_positions_are_counted_from_a_shard_and_back(n: int, data: st.DataObject) -> None:
    first, last = sorted(data.draw(st.tuples(st.integers(0, n - 1), st.integers(1, n))))
    place = np.array(data.draw(st.permutations(range(n))), np.int32)
    neighbour = place.copy()
    regroup.count_from(neighbour, first, n)
    assert ((neighbour < last - first) == ((place >= first) & (place < last))).all()
    regroup.count_from_start(neighbour, first, n)
    assert (neighbour == place).all()
