"""The kernels of the points engine: bounds that nobody comes below, and screens that lose nobody."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dask_rac.engines.contract import Limits
from dask_rac.engines.points.state import NO_MEMBERS, Points, first_points
from dask_rac.engines.start import Start, single_nodes
from dask_rac.kernels.arrays import empty_merges
from dask_rac.kernels.points import lists, screen, search, unite, weights
from dask_rac.kernels.points.arrays import Centroids, Frame
from dask_rac.vectors.sources.memory import open_array
from tests.support.effort import examples
from tests.support.points import KINDS, WAYS, settings_of

pytestmark = pytest.mark.kernels

SEEDS = st.integers(0, 2**32 - 1)
CODES = st.sampled_from([weights.WARD, weights.SQUARES, weights.COSINES, weights.PRODUCTS])


def some_points(way: tuple[str, str], seed: int, nodes: int, kind: str = "one cloud", sizes: bool = True) -> Points:
    """Clusters of one vector each, of any sizes."""
    random = np.random.default_rng(seed)
    points = KINDS[kind](nodes, 3, random)
    start = single_nodes(nodes)
    if sizes:
        size = random.integers(1, 9, nodes)
        begin = np.concatenate(([0], np.cumsum(size)))
        start = Start(begin[:-1], size.astype(np.float64), np.arange(begin[-1]), begin)
    return first_points(open_array(points), start, settings_of(*way), Limits(lists=4))


def w_of(code: int, first: tuple[float, NDArray[np.float64]], second: tuple[float, NDArray[np.float64]]) -> float:
    """W of two sets of vectors, from the definition."""
    (a, x), (b, y) = first, second
    if code == weights.WARD:
        return float(2 * a * b / (a + b) * np.square(x.mean(axis=0) - y.mean(axis=0)).sum())
    squares = np.square(x[:, None] - y[None]).sum(axis=2)
    products = np.einsum("ik,jk->ij", x, y)
    return float({1: squares, 2: squares / 2, 3: -products}[code].mean())


@examples(60)
@given(CODES, SEEDS, st.integers(1, 5), st.integers(1, 5))
def test_w_from_centroids_is_that_of_the_vectors(code: int, seed: int, a: int, b: int) -> None:
    random = np.random.default_rng(seed)
    parts = random.standard_normal((a, 3)), random.standard_normal((b, 3))
    mean = np.array([part.mean(axis=0) for part in parts])
    spread = np.array([np.square(part - part.mean(axis=0)).sum(axis=1).mean() for part in parts])
    centroids = Centroids(mean, np.array([a, b], float), spread)
    found = weights.weigh(code, centroids, 0, 1)
    assert found == weights.weigh(code, centroids, 1, 0)
    np.testing.assert_allclose(found, w_of(code, (a, parts[0]), (b, parts[1])), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_nobody_comes_below_the_bound_of_a_merged_cluster(way: tuple[str, str]) -> None:
    """For any two reciprocal clusters, and the least of each one's W with the others as its bound."""

    @examples(60)
    @given(SEEDS, st.integers(3, 12), st.sampled_from(sorted(set(KINDS) - {"small"})))
    def check(seed: int, nodes: int, kind: str) -> None:
        points = some_points(way, seed, nodes, kind)
        state = points.state
        table = np.array(
            [[weights.weigh(state.code, state.centroids, i, j) for j in range(nodes)] for i in range(nodes)]
        )
        table[np.diag_indices(nodes)] = np.inf
        i, j = sorted(int(slot) for slot in np.unravel_index(table.argmin(), table.shape))
        height, others = table[i, j], np.setdiff1d(np.arange(nodes), [i, j])
        for slot in (i, j):
            state.lists.bound[slot] = table[slot, others].min()
            state.groups.height[slot] = height
        state.groups.nearest[i], state.groups.nearest[j] = j, i
        found, least = unite.match(state.centroids, state.groups, np.inf)
        assert (found.lower.tolist(), found.upper.tolist()) == ([i], [j])
        unite.unite(state, found, least, empty_merges(1, np.dtype(np.int64)), (0, 1))
        floor = weights.floor_of(state.code, state.lists.bound[i], state.centroids.size[i], state.frame, 2.0**-47)
        for other in others:
            assert weights.weigh(state.code, state.centroids, i, other) >= floor

    check()


@pytest.mark.parametrize("way", WAYS)
def test_who_is_within_a_limit_passes_the_screen(way: tuple[str, str]) -> None:
    @examples(60)
    @given(SEEDS, st.integers(2, 12), st.sampled_from(sorted(KINDS)))
    def check(seed: int, nodes: int, kind: str) -> None:
        state = some_points(way, seed, nodes, kind).state
        rows, half, inverse, _ = state.screen
        products = rows @ rows.T
        for i in range(nodes):
            for j in range(nodes):
                w = weights.weigh(state.code, state.centroids, i, j)
                factor, limit = screen.limits_of(state, i, w)
                assert half[j] - products[i, j] - factor * inverse[j] <= limit
                assert screen.any_near(products[i, j : j + 1], half[j : j + 1], inverse[j : j + 1], factor, limit)
                low, high = screen.range_of(state, i, j, products[i, j])
                assert low <= w <= high

    check()


@pytest.mark.parametrize("way", WAYS)
def test_a_search_finds_the_nearest_and_the_next(way: tuple[str, str]) -> None:
    @examples(60)
    @given(SEEDS, st.integers(2, 40), st.integers(1, 9), st.sampled_from(sorted(KINDS)))
    def check(seed: int, nodes: int, wide: int, kind: str) -> None:
        state = some_points(way, seed, nodes, kind).state
        slots = np.random.default_rng(seed).permutation(nodes)[: 1 + nodes // 2]
        hits = search.begin_search(state, slots, NO_MEMBERS)
        for first in range(0, nodes, wide):
            tile = state.screen.row[slots] @ state.screen.row[first : first + wide].T
            search.scan(state, tile, first, hits, NO_MEMBERS)
        assert search.end_search(state, hits, np.inf, NO_MEMBERS) == 0
        for i in slots.tolist():
            others = np.setdiff1d(np.arange(nodes), [i])
            exact = np.array([weights.weigh(state.code, state.centroids, i, j) for j in others])
            order = np.argsort(exact)
            assert state.groups.nearest[i] == others[order[0]]
            assert state.groups.height[i] == exact[order[0]]
            kept = min(len(others), state.lists.entry.shape[1])
            assert state.lists.entry[i, : state.lists.length[i]].tolist() == others[order[:kept]].tolist()
            assert state.lists.bound[i] == (exact[order[kept]] if len(others) > kept else np.inf)

    check()


def test_lists_keep_the_nearest_of_all_pairs_with_both_ends() -> None:
    near = np.array([0, 0, 0, 1]), np.array([1, 2, 3, 2]), np.array([3.0, 1.0, 2.0, 0.5])
    entry, weight, count = np.zeros((4, 2), np.int32), np.zeros((4, 2)), np.zeros(4, np.int32)
    lists.take_pairs(near, entry, weight, count)
    assert count.tolist() == [2, 2, 2, 1]
    assert [entry[i, : count[i]].tolist() for i in range(4)] == [[2, 3], [2, 0], [1, 0], [0]]
    bound = np.empty(4)
    lists.first_bounds(weights.SQUARES, np.ones(4), weight, count, bound)
    assert bound.tolist() == [2.0, 3.0, 1.0, -np.inf]
    lists.first_bounds(weights.PRODUCTS, np.ones(4), weight, count, bound)
    assert bound.tolist() == [2.0, 3.0, 1.0, 0.0]
    lists.first_bounds(weights.WARD, np.array([1.0, 3.0, 1.0, 1.0]), weight, count, bound)
    assert bound[:3].tolist() == [2.0, 4.5, 1.0]


def test_a_nearest_that_rounding_lets_a_merged_cluster_overtake_is_replaced() -> None:
    """Three slots, each nearest to the next: no pair is reciprocal until the offer is taken."""
    groups = some_points(WAYS[0], 0, 3, sizes=False).state.groups
    groups.nearest[:], groups.height[:] = [1, 2, 0], [1.0, 3.0, 2.0]
    assert lists.propose(groups, np.arange(3), NO_MEMBERS) == 0
    assert groups.nearest.tolist()[:2] == [1, 0]
    assert groups.height.tolist()[:2] == [1.0, 1.0]


def test_slots_close_up_and_keep_what_they_know() -> None:
    points = some_points(WAYS[1], 5, 6, sizes=False)
    state = points.state
    state.lists.entry[:, 0], state.lists.length[:] = [1, 0, 3, 2, 5, 4], 1
    state.groups.nearest[:], state.groups.height[:] = [1, 0, 4, 4, 5, 4], 0.5
    found, least = unite.match(state.centroids, state.groups, np.inf)
    assert found.search.tolist() == [0, 2, 3, 4]
    unite.unite(state, found, least, empty_merges(2, np.dtype(np.int64)), (0, 2))
    unite.flatten(state.groups.root)
    mean = state.centroids.mean.copy()
    state.groups.nearest[[0, 2, 3, 4]] = [2, 4, 2, 0]
    points.close_up()
    state = points.state
    assert (points.slots, state.groups.ids.tolist()) == (4, [0, 2, 3, 4])
    assert state.groups.nearest.tolist() == [1, 3, 1, 0]
    assert state.lists.entry[:, 0].tolist() == [0, 2, 1, 3]
    np.testing.assert_array_equal(state.centroids.mean, mean[[0, 2, 3, 4]])
    members = unite.list_members(state.centroids, state.groups)
    assert (members.node.tolist(), members.begin.tolist()) == ([0, 1, 2, 3, 4, 5], [0, 2, 3, 4, 6])


def test_no_bound_is_below_what_is_known_without_rounding() -> None:
    frame = Frame(np.zeros(2), 1.0, 1e-6, 10.0)
    for code in range(4):
        assert weights.floor_of(code, np.inf, 3.0, frame, 1e-15) == np.inf
        assert 4.0 - 1e-9 < weights.floor_of(code, 4.0, 3.0, frame, 1e-15) < 4.0
