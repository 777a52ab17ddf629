"""Kernels from products to neighbours: what they drop is farther, and they keep what sorting would keep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dask_rac.kernels.vectors import screen
from dask_rac.kernels.vectors.lists import (
    component_sizes,
    join_ends,
    mark_listed,
    mark_returned,
    pick_edges,
    rank_candidates,
    unite_lists,
)
from dask_rac.kernels.vectors.pairs import (
    COSINE,
    EUCLIDEAN,
    INNER,
    MANHATTAN,
    SQUARED,
    Points,
    weigh,
    weigh_later,
    weigh_pairs,
)
from dask_rac.kernels.vectors.tiles import differ_rows, spread_rows
from dask_rac.vectors.compare import search
from dask_rac.vectors.compare.limits import CompareLimits
from dask_rac.vectors.compare.metrics import METRICS
from dask_rac.vectors.compare.search import Bounds, NeighbourLists, Side, View, as_points, near, prepare
from tests.support.effort import examples

pytestmark = pytest.mark.kernels

Values = NDArray[Any]
NAMES = tuple(METRICS)
SEEDS = st.integers(0, 2**32 - 1)
flags = st.tuples(st.booleans(), st.booleans())
counts_of = st.integers(1, 20)


def some(kind: str, n: int, d: int, seed: int) -> NDArray[np.float64]:
    """Return vectors of one kind, none of them zero."""
    rng = np.random.default_rng(seed)
    if kind == "grid":
        return rng.integers(0, 3, (n, d)) + np.eye(1, d)
    if kind == "copies":
        return (rng.standard_normal((3, d)) + 4)[rng.integers(0, 3, n)]
    if kind == "close":
        return 1e3 + 1e-4 * rng.standard_normal((n, d))
    return rng.standard_normal((n, d))


KINDS = ("normal", "grid", "copies", "close")


def plain_weight(x: Sequence[float], y: Sequence[float], metric: int) -> float:
    """Return the weight of two vectors, by definition."""
    if metric == INNER:
        return -math.fsum(p * q for p, q in zip(x, y, strict=True))
    if metric == MANHATTAN:
        return math.fsum(abs(p - q) for p, q in zip(x, y, strict=True))
    if metric == COSINE:
        inner = math.fsum(p * q for p, q in zip(x, y, strict=True))
        return 1 - inner / math.sqrt(math.fsum(p * p for p in x) * math.fsum(q * q for q in y))
    square = math.fsum((p - q) ** 2 for p, q in zip(x, y, strict=True))
    return math.sqrt(square) if metric == EUCLIDEAN else square


def all_weights(own: Points, others: Points, counts: tuple[int, int], metric: int) -> NDArray[np.float64]:
    """The weights of all pairs of two sides."""
    pairs = [(i, j) for i in range(counts[0]) for j in range(counts[1])]
    return np.array([weigh(own, i, others, j, metric) for i, j in pairs]).reshape(counts)


def side(
    values: Values,
    name: str,
    first: int = 0,
    limits: CompareLimits | None = None,
    *,
    sparse: bool = False,
    double: bool = False,
) -> Side:
    """Prepare a span of vectors for comparison."""
    metric = METRICS[name]
    whole = bool((values == np.rint(values)).all()) and metric.code not in {COSINE, MANHATTAN}
    centre = np.full(values.shape[1], 0.5) if metric.centred and not whole and not sparse else None
    view = View(metric, "float64" if double else "float32", whole, centre, limits or CompareLimits())
    return prepare(sp.csr_array(values) if sparse else values, first, view)


# Pairs


@given(st.sampled_from(NAMES), st.integers(1, 9), st.booleans(), SEEDS)
@examples(100)
def test_weights_are_what_they_are_defined_to_be(name: str, d: int, sparse: bool, seed: int) -> None:
    metric, rng = METRICS[name], np.random.default_rng(seed)
    values = rng.standard_normal((2, d)) * (rng.random((2, d)) < 0.7)
    values[~values.any(axis=1), -1] = 1
    points = as_points(sp.csr_array(values) if sparse and metric.sparse else values, metric)
    found = weigh(points, 0, points, 1, metric.code)
    assert found == pytest.approx(plain_weight(values[0], values[1], metric.code), rel=1e-12, abs=1e-14)
    assert found == weigh(points, 1, points, 0, metric.code)
    itself = weigh(points, 0, points, 0, metric.code)
    assert itself == 0 or metric.code == INNER


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["uint8", "float32", "float64", "sparse"])
def test_many_weights_are_those_of_each(name: str, form: str) -> None:
    metric = METRICS[name]
    if form == "sparse" and not metric.sparse:
        pytest.skip("for dense vectors")
    values = some("grid", 7, 5, 0) if form == "sparse" else some("grid", 7, 5, 0).astype(form)

    def points_of(rows: Values) -> Points:
        return as_points(sp.csr_array(rows) if form == "sparse" else rows, metric)

    points = points_of(values)
    expected = all_weights(points, points, (7, 7), metric.code)
    rows, places = np.divmod(np.arange(49, dtype=np.int32), np.int32(7))
    weight = np.empty(49)
    weigh_pairs(points, points, (rows, places), metric.code, weight)
    assert (weight.reshape(7, 7) == expected).all()
    own, later = points_of(values[2:5]), np.full(4 + 3 + 2, np.nan)
    for start, stop in ((2, 4), (4, 7)):
        weigh_later(own, points_of(values[start:stop]), (2, start, stop), np.array([0, 4, 7]), metric.code, later)
    assert later.tolist() == [expected[i, j] for i in range(2, 5) for j in range(i + 1, 7)]


# Tiles


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 5), SEEDS)
@examples(40)
def test_products_of_sparse_rows(n: int, m: int, step: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    own, others = (rng.integers(-3, 4, (rows, 6)) * (rng.random((rows, 6)) < 0.4) * 1.0 for rows in (n, m))
    for same, right in ((False, others), (True, own)):
        left = sp.csr_array(own)
        turned = sp.csr_array(right).tocsc()
        postings = turned.indptr.astype(np.int64), turned.indices.astype(np.int32), turned.data
        cursor = postings[0][:-1].copy()
        expected = np.triu(own @ right.T, 1) if same else own @ right.T
        for first in range(0, n, step):
            last = min(first + step, n)
            tile = np.full((last - first, len(right)), np.nan)
            rows = left.indptr.astype(np.int64), left.indices.astype(np.int32), left.data
            spread_rows(rows, (first, last, same), postings, cursor, tile)
            assert (tile == expected[first:last]).all()


def test_sums_of_differences() -> None:
    own, others = some("grid", 5, 3, 0), some("grid", 4, 3, 1)
    tile = np.full((5, 4), np.nan)
    differ_rows(own, np.ascontiguousarray(others.T), tile)
    assert (tile == -np.abs(own[:, None] - others[None]).sum(axis=2)).all()


# Shelves


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=30), st.data())
@examples(60)
def test_the_kth_smallest(values: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    room = np.append(np.array(values, np.float64), -np.inf)  # entries beyond the count are ignored
    assert screen.smallest(room, len(values), k) == sorted(values)[k - 1]
    assert sorted(room[:-1].tolist()) == sorted(values)


@pytest.mark.parametrize("metric", range(5))
def test_scores_order_like_weights(metric: int) -> None:
    weights = np.array([0.0, 0.5, 1.0, 1.5])
    scores = [screen.score_of(weight, 0.25, metric) for weight in weights]
    assert scores == sorted(scores)
    if metric in {EUCLIDEAN, SQUARED}:
        assert scores[1] == 0.5 * (0.5 ** (2 if metric == EUCLIDEAN else 1) - 0.25)
    else:
        assert scores[1] == (-0.5 if metric == COSINE else 0.5)


def plain_lists(weight: NDArray[np.float64], first: int, k: int, skip: int | None, bounds: Bounds | None) -> list[Any]:
    """The k nearest of each row by weight and then by id, within its bounds."""
    found = []
    for i, row in enumerate(weight.tolist()):
        ranked = sorted((far, first + j) for j, far in enumerate(row) if skip is None or j != i + skip)
        if bounds is not None:
            ranked = [pair for pair in ranked if pair <= (bounds.reach[i], bounds.last[i])]
        found.append(ranked[:k])
    return found


def lists_of(found: NeighbourLists) -> list[Any]:
    """Lists as pairs of weight and id."""
    return [
        list(zip(weight[:count].tolist(), ids[:count].tolist(), strict=True))
        for count, ids, weight in zip(found.count, found.neighbour, found.weight, strict=True)
    ]


def small(spare: int) -> CompareLimits:
    """Make shelves and tiles small, so that they fill up soon: room for twice the neighbours and `spare` more."""
    return CompareLimits(3, 5, 20, converted_rows=4, spare_room=spare, least_room=1)


@given(st.sampled_from(NAMES), st.sampled_from(KINDS), st.integers(2, 24), st.integers(1, 4), flags, SEEDS)
@examples(250)
def test_nearest_among_themselves(name: str, kind: str, n: int, k: int, options: tuple[bool, bool], seed: int) -> None:
    metric, (sparse, double) = METRICS[name], options
    own = side(some(kind, n, 3, seed), name, 5, small(2), sparse=sparse and metric.sparse, double=double)
    found, nothing, _ = search.search(own, None, k)
    assert nothing is None
    weight = all_weights(own.points, own.points, (n, n), metric.code)
    assert lists_of(found) == plain_lists(weight, 5, k, 0, None)


@given(st.sampled_from(NAMES), st.sampled_from(KINDS), st.tuples(counts_of, counts_of), st.integers(1, 4), flags, SEEDS)
@examples(250)
def test_nearest_of_two_sides(
    name: str, kind: str, counts: tuple[int, int], k: int, options: tuple[bool, bool], seed: int
) -> None:
    metric, rng, (sparse, bounded) = METRICS[name], np.random.default_rng(seed), options
    values = some(kind, sum(counts), 3, seed)
    one = side(values[: counts[0]], name, 0, small(2), sparse=sparse and metric.sparse)
    two = side(values[counts[0] :], name, counts[0], small(2), sparse=sparse and metric.sparse)
    weight = all_weights(one.points, two.points, counts, metric.code)
    bounds = None
    if bounded:  # some reaches are weights that occur, so that ids decide
        reaches = [
            np.where(rng.random(len(far)) < 0.3, np.inf, far[:, rng.integers(0, far.shape[1])])
            for far in (weight, weight.T)
        ]
        lasts = [
            np.where(np.isinf(reach), np.iinfo(np.int64).max, rng.integers(0, sum(counts), len(reach)))
            for reach in reaches
        ]
        bounds = Bounds(reaches[0], lasts[0]), Bounds(reaches[1], lasts[1])
    mine, theirs, _ = search.search(one, two, k, bounds)
    assert theirs is not None
    assert lists_of(mine) == plain_lists(weight, counts[0], k, None, bounds[0] if bounds else None)
    assert lists_of(theirs) == plain_lists(weight.T, 0, k, None, bounds[1] if bounds else None)


def test_scores_that_decide_nothing_are_weighed() -> None:
    """Vectors that float32 cannot distinguish overflow their shelves."""
    values = some("close", 40, 3, 0)
    view = View(METRICS["euclidean"], "float32", False, None, small(2))
    own = prepare(values, 0, view)
    found, _, weighed = search.search(own, None, 2)
    _, _, none = search.search(side(some("grid", 40, 3, 0), "euclidean", 0, small(2)), None, 2)
    assert weighed > 40
    assert none == 0
    weight = all_weights(own.points, own.points, (40, 40), EUCLIDEAN)
    assert lists_of(found) == plain_lists(weight, 0, 2, 0, None)


def test_a_shelf_of_copies_is_closed() -> None:
    """Nothing is nearer than a copy: later vectors are not weighed."""
    values = np.full((30, 3), 0.1)
    own = side(values, "euclidean", 0, small(0))
    shelf = search.new_shelf(own, own, 4)
    assert own.matrix is not None
    product = own.matrix @ own.matrix.T
    screen.scan(product, (0, 0, True), shelf, shelf, 2, EUCLIDEAN)
    assert np.isneginf(shelf.limit).sum() > 20
    found = search.search(own, None, 2)[0]
    assert found.neighbour.tolist() == [[1, 2], [0, 2]] + [[0, 1]] * 28
    assert (found.weight == 0).all()


@pytest.mark.parametrize("reach", [0.5, np.inf])
def test_limits_leave_room(reach: float) -> None:
    own = side(some("normal", 4, 3, 0), "sqeuclidean")
    shelf = search.new_shelf(own, own, 4, np.full(4, reach))
    for row in range(4):
        if math.isinf(reach):
            assert shelf.limit[row] == np.inf
        else:
            assert shelf.limit[row] > screen.score_of(reach, shelf.base[row], SQUARED)


# Balls


@given(
    st.sampled_from(NAMES),
    st.sampled_from(KINDS),
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.booleans(),
    st.booleans(),
    SEEDS,
)
@examples(150)
def test_pairs_in_a_ball(name: str, kind: str, counts: tuple[int, int], sparse: bool, same: bool, seed: int) -> None:
    metric = METRICS[name]
    values = some(kind, sum(counts), 3, seed)
    one = side(values[: counts[0]], name, 0, small(0), sparse=sparse and metric.sparse)
    two = one if same else side(values[counts[0] :], name, counts[0], small(0), sparse=sparse and metric.sparse)
    weight = all_weights(one.points, two.points, (len(one), len(two)), metric.code)
    eps = float(np.sort(weight, axis=None)[weight.size // 2])  # one is exactly at the border
    parts = list(near(one, two, eps, same))
    found = [(int(i), int(j), float(far)) for part in parts for i, j, far in zip(*part, strict=True)]
    expected = [
        (i, two.first + j, far)
        for i, row in enumerate(weight.tolist())
        for j, far in enumerate(row)
        if far <= eps and (not same or j > i)
    ]
    assert sorted(found) == expected


# Lists


@given(st.integers(1, 4), st.lists(st.integers(-1, 9), max_size=12), st.sampled_from([0, 3]))
@examples(80)
def test_candidates_are_ranked(k: int, candidates: list[int], row: int) -> None:
    points = as_points(np.array([[0.0], [1], [1], [2], [2], [2], [3], [5], [5], [9]]), METRICS["euclidean"])
    unique = list(dict.fromkeys(candidates))
    out = np.zeros(1, np.int32), np.full((1, k), -1, np.int64), np.full((1, k), np.inf)
    start = np.array([0, len(unique)])
    rank_candidates(points, np.array([row]), (start, np.array(unique, np.int64)), k, EUCLIDEAN, out)
    far = abs(points.dense[:, 0] - points.dense[row, 0]).tolist()
    expected = sorted((far[j], j) for j in unique if j >= 0 and j != row)[:k]
    assert lists_of(NeighbourLists(*out)) == [expected]


pair_lists = st.lists(
    st.tuples(st.integers(0, 3).map(float), st.integers(0, 30)), max_size=6, unique_by=lambda pair: pair[1]
)


@given(st.integers(1, 4), pair_lists, st.lists(pair_lists, max_size=3))
@examples(80)
def test_lists_are_united(k: int, own: list[tuple[float, int]], more: list[list[tuple[float, int]]]) -> None:
    own = sorted(own)[:k]
    best = np.array([len(own)], np.int32), np.full((1, k), -1, np.int64), np.full((1, k), np.inf)
    for at, (far, other) in enumerate(own):
        best[1][0, at], best[2][0, at] = other, far
    everyone = set(own)
    for number, part in enumerate(more):
        pairs = sorted((far, other + 100 * (number + 1)) for far, other in part)
        everyone |= set(pairs)
        arrays = np.array([other for _, other in pairs], np.int64), np.array([far for far, _ in pairs], np.float64)
        unite_lists(best, (np.array([0, len(pairs)]), *arrays), k)
    assert lists_of(NeighbourLists(*best)) == [sorted(everyone)[:k]]


@given(st.integers(2, 12), st.integers(1, 5), st.booleans(), SEEDS)
@examples(80)
def test_edges_are_picked_once(n: int, k: int, mutual: bool, seed: int) -> None:
    k = min(k, n - 1)
    values = np.random.default_rng(seed).integers(0, 6, (n, 1)).astype(np.float64)
    far = np.abs(values - values.T)
    lists = plain_lists(far, 0, k, 0, None)
    neighbour = np.array([[j for _, j in row] for row in lists])
    weight = np.array([[w for w, _ in row] for row in lists])
    returned, listed = np.empty((n, k), np.bool), np.empty((n, k), np.bool)
    half = n // 2
    for first, last in ((0, half), (half, n)):
        bounds = weight[:, -1], neighbour[:, -1]
        mark_returned(neighbour[first:last], weight[first:last], first, bounds, returned[first:last])
    mark_listed(neighbour, listed)
    assert returned.tolist() == listed.tolist() == [[i in neighbour[j] for j in neighbour[i]] for i in range(n)]
    picked = np.empty((n, k), np.bool)
    count = pick_edges(neighbour, returned, 0, mutual, picked)
    edges = [frozenset((i, int(j))) for i in range(n) for j in neighbour[i][picked[i]]]
    arcs = {(i, int(j)) for i in range(n) for j in neighbour[i]}
    expected = {frozenset(arc) for arc in arcs if not mutual or arc[::-1] in arcs}
    assert len(edges) == count == len(expected)
    assert set(edges) == expected


def test_empty_places_give_no_edge() -> None:
    """Lists that are not full."""
    neighbour = np.array([[1, -1], [0, 2], [-1, -1]])
    returned, picked = np.empty((3, 2), np.bool), np.empty((3, 2), np.bool)
    mark_listed(neighbour, returned)
    assert returned.tolist() == [[True, False], [True, False], [False, False]]
    assert pick_edges(neighbour, returned, 0, False, picked) == 2
    assert picked.tolist() == [[True, False], [False, True], [False, False]]


@given(st.integers(1, 15), st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=20))
@examples(60)
def test_components(n: int, pairs: list[tuple[int, int]]) -> None:
    pairs = [(i % n, j % n) for i, j in pairs]
    parent, size = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    ends = np.array(pairs, np.int32).reshape(-1, 2)
    join_ends(ends[:, 0].copy(), ends[:, 1].copy(), parent)
    component_sizes(parent, size)
    count, label = sp.csgraph.connected_components(
        sp.coo_array((np.ones(len(ends)), ends.T), shape=(n, n)), directed=False
    )
    assert np.count_nonzero(size) == count
    assert sorted(size[size > 0]) == sorted(np.bincount(label))
    assert all(parent[i] == np.flatnonzero(label == label[i])[0] for i in range(n))
