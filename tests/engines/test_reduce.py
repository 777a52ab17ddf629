"""The pass that reduces all pairs of vectors to clusters, against plain sums and maxima over a matrix of all pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dask_rac.engines.certain import centres, order, products, reduce
from dask_rac.engines.certain.differences import Differences
from dask_rac.engines.certain.groups import Grouped
from dask_rac.engines.certain.order import jobs_of, order_of, parts_of, whole_job
from dask_rac.engines.certain.products import Products
from dask_rac.kernels.certain.centres import sum_near
from dask_rac.kernels.certain.fold import PIECE
from dask_rac.kernels.jit import inlined
from dask_rac.kernels.matrix.weights import LARGEST, MEAN, WEIGHTED
from dask_rac.kernels.vectors import fours
from dask_rac.kernels.vectors.pairs import EUCLIDEAN, INNER, Points, weigh
from dask_rac.kernels.vectors.products import TALL, WIDE, multiply_lanes
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs import opening
from dask_rac.vectors.pairs.triangle import triangle_entries
from tests.support.effort import examples

METRICS = ("euclidean", "sqeuclidean", "cosine", "inner_product", "manhattan")
CODES = (MEAN, LARGEST, WEIGHTED)
SEEDS = st.integers(0, 2**32 - 1)


def grid(nodes: int, dimensions: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Points with small whole coordinates: most weights are tied."""
    return random.integers(0, 4, (nodes, dimensions)).astype(float) + np.eye(1, dimensions)


def blobs(nodes: int, dimensions: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Groups of very different density, and some far outliers."""
    centre = random.standard_normal((5, dimensions))[random.integers(0, 5, nodes)]
    scale = 10.0 ** random.integers(-6, 1, nodes)
    points = centre + scale[:, None] * random.standard_normal((nodes, dimensions))
    points[random.random(nodes) < 0.03] *= 1e4
    return points


def offset(nodes: int, dimensions: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Points far from the origin."""
    return 1e6 + random.standard_normal((nodes, dimensions))


KINDS: dict[str, Callable[[int, int, np.random.Generator], NDArray[Any]]] = {
    "grid": grid,
    "blobs": blobs,
    "offset": offset,
    "normal": lambda nodes, dimensions, random: random.standard_normal((nodes, dimensions)),
    "bytes": lambda nodes, dimensions, random: random.integers(0, 256, (nodes, dimensions)).astype(np.uint8),
}


def draw_label(nodes: int, kind: str, random: np.random.Generator) -> NDArray[np.int64]:
    """The cluster of each row, in the order of their smallest rows."""
    clusters = {"singles": nodes, "few": min(nodes, 3), "one large": nodes // 10 + 2, "some": nodes // 4 + 2}[kind]
    label = np.arange(nodes) if kind == "singles" else random.integers(0, clusters, nodes)
    if kind == "one large":
        label[random.random(nodes) < 0.85] = 0
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def grouped(label: NDArray[np.int64], code: int, random: np.random.Generator) -> Grouped:
    """The same as a pass takes it; shares of weighted linkage add up to 1."""
    size = np.bincount(label)
    share = random.integers(1, 4, len(label)).astype(float)
    if code == WEIGHTED:
        share /= np.bincount(label, share)[label]
    return Grouped(np.argsort(label, kind="stable"), np.concatenate(([0], np.cumsum(size))), share)


def oracle(pairs: Any, label: NDArray[np.int64], groups: Grouped, code: int) -> NDArray[np.float64]:
    """The triangle of clusters from that of vectors, as the matrix engine fills it."""
    nodes, clusters = pairs.nodes, groups.clusters
    triangle = np.empty(triangle_entries(nodes))
    pairs.read(0, nodes, triangle)
    weight = np.zeros((nodes, nodes))
    weight[np.triu_indices(nodes, 1)] = triangle[::-1]
    weight += weight.T
    member = (label == np.arange(clusters)[:, None]).astype(float)
    if code == LARGEST:
        entry = np.array([[weight[np.ix_(a > 0, b > 0)].max() for b in member] for a in member])
    else:
        entry = (member * groups.share) @ weight @ (member * groups.share).T
    return np.concatenate([entry[clusters - 1 - s, clusters - s :][::-1] for s in range(clusters)])


def open_vector_pairs(vectors: Any, metric: str) -> Any:
    """All pairs of vectors."""
    return opening.open_vector_pairs(vectors, metric)


def run(pairs: Any, groups: Grouped, code: int, threads: int = 1) -> NDArray[np.float64]:
    """The triangle of clusters."""
    with Team(threads) as team:
        return reduce.reduced_triangle(pairs, groups, code, team, lambda _: None)


@inlined
def multiply_all(own, panels, tile):  # type: ignore[no-untyped-def]
    """Multiply all rows with all panels."""
    for panel in range(len(panels)):
        for row in range(0, len(own), TALL):
            multiply_lanes(own, row, panels, panel, tile)


@st.composite
def problems(draw: st.DrawFn, most: int = 150) -> tuple[Any, NDArray[np.int64], Grouped, int]:
    """Vectors of any kind, clusters of them, and a linkage."""
    random = np.random.default_rng(draw(SEEDS))
    kind, metric, code = (
        draw(st.sampled_from(sorted(KINDS))),
        draw(st.sampled_from(METRICS)),
        draw(st.sampled_from(CODES)),
    )
    nodes, dimensions = draw(st.integers(2, most)), draw(st.sampled_from([1, 2, 3, 5, 16, 70]))
    points: Any = KINDS[kind](nodes, dimensions, random)
    if metric == "cosine":
        points[(points == 0).all(axis=1)] = 1
    if points.dtype == float and draw(st.booleans()):
        points = points.astype(np.float32)
    if metric != "manhattan" and draw(st.booleans()):
        points = sp.csr_array(np.where(random.random(points.shape) < 0.5, points, 0) + np.eye(1, dimensions))
    label = draw_label(nodes, draw(st.sampled_from(["singles", "few", "one large", "some"])), random)
    return open_vector_pairs(points, metric), label, grouped(label, code, random), code


def assert_reduced(problem: tuple[Any, NDArray[np.int64], Grouped, int], found: NDArray[np.float64]) -> None:
    """Largest weights to the bit, sums to 1e-9 of the sum of absolute values."""
    pairs, label, groups, code = problem
    expected = oracle(pairs, label, groups, code)
    if code == LARGEST:
        np.testing.assert_array_equal(found, expected)
    elif pairs.metric.code == INNER:
        scale = np.abs(expected).max(initial=1e-300)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * scale)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-300)


@pytest.mark.kernels
@examples(150)
@given(problems(), st.sampled_from([1, 2, 3]))
def test_entries_are_those_of_all_pairs(problem: tuple[Any, NDArray[np.int64], Grouped, int], threads: int) -> None:
    pairs, _, groups, code = problem
    assert_reduced(problem, run(pairs, groups, code, threads))


@examples(80)
@given(problems(), SEEDS)
def test_bits_depend_on_no_cut(problem: tuple[Any, NDArray[np.int64], Grouped, int], seed: int) -> None:
    pairs, _, groups, code = problem
    random, clusters = np.random.default_rng(seed), groups.clusters
    expected = run(pairs, groups, code)
    with (
        mock.patch.object(products, "ROWS", int(random.integers(1, 100))),
        mock.patch.object(products, "COLUMNS", int(random.integers(1, 100))),
        mock.patch.object(products, "HELD", int(random.integers(1, 9))),
        mock.patch.object(products, "LEAST_ROWS", 1),
        mock.patch.object(reduce, "JOBS", (int(random.integers(1, 30)),) * 2),
    ):
        assert run(pairs, groups, code, 2).tobytes() == expected.tobytes()
        first, last = sorted(random.integers(0, clusters + 1, 2).tolist())
        out = np.empty(triangle_entries(last) - triangle_entries(first))
        reduce.reduce_rows(pairs, groups, code, (first, last), out)
        part = slice(triangle_entries(first), triangle_entries(last))
        assert out.tobytes() == expected[part].tobytes()
        radius = float(np.median(expected)) if len(expected) else 0.0
        reducer, most = reduce.reducer_of(pairs, groups, code), int(random.integers(1, 100))
        near = reduce.near_of(reducer, groups, code, (first, last), radius, most)
    last_cluster = clusters - 1
    size = np.bincount(np.repeat(np.arange(clusters), np.diff(groups.begin)), groups.share[groups.row])
    rows = []
    for slot in range(first, last):
        for other in range(slot):
            a, b, entry = last_cluster - slot, last_cluster - other, expected[triangle_entries(slot) + other]
            if (entry / (size[a] * size[b]) if code == MEAN else entry) <= radius:
                rows.append((a, b, entry))
    assert list(zip(*(column.tolist() for column in near), strict=True)) == rows


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("kind", ["normal", "offset", "grid", "blobs"])
@pytest.mark.parametrize(("nodes", "dimensions"), [(700, 300), (900, 128), (2000, 9)])
def test_large_clusters_and_many_dimensions(kind: str, code: int, nodes: int, dimensions: int) -> None:
    random = np.random.default_rng(nodes)
    points = KINDS[kind](nodes, dimensions, random).astype(np.float32)
    for metric in ("euclidean", "sqeuclidean"):
        pairs = open_vector_pairs(points, metric)
        label = draw_label(nodes, "one large", random)
        groups = grouped(label, code, random)
        found = run(pairs, groups, code, 2)
        assert_reduced((pairs, label, groups, code), found)
        assert found.tobytes() == run(pairs, groups, code).tobytes()


@pytest.mark.parametrize("code", [LARGEST, MEAN])
def test_far_pairs_of_equal_score_are_all_weighed(code: int) -> None:
    """On a sphere scores are equal but for rounding, so that float32 decides nothing."""
    random = np.random.default_rng(3)
    circle = np.exp(2j * np.pi * np.arange(200) / 200)
    points = np.stack((circle.real, circle.imag), 1) + 1e-9 * random.standard_normal((200, 2))
    label = np.arange(200) % 7
    for metric in METRICS[:4]:
        pairs, groups = open_vector_pairs(points, metric), grouped(label, code, random)
        assert_reduced((pairs, label, groups, code), run(pairs, groups, code))


def test_products_that_cancel_too_often_are_not_used() -> None:
    random = np.random.default_rng(1)
    tight = np.concatenate(([[1e9, 0.0]], random.standard_normal((300, 2))))
    label = draw_label(301, "some", random)
    groups = grouped(label, MEAN, random)
    pairs = open_vector_pairs(tight, "euclidean")
    assert not Products(pairs, order_of(groups), MEAN).pays
    assert isinstance(reduce.reducer_of(pairs, groups, MEAN), Differences)
    assert_reduced((pairs, label, groups, MEAN), run(pairs, groups, MEAN))
    usual = open_vector_pairs(tight[1:], "euclidean")
    assert Products(usual, order_of(grouped(label[1:] * 0, MEAN, random)), MEAN).pays


def test_both_ways_to_sums_agree() -> None:
    random = np.random.default_rng(8)
    points = random.standard_normal((300, 20))
    label = draw_label(300, "some", random)
    groups = grouped(label, MEAN, random)
    for metric in METRICS[:4]:
        pairs = open_vector_pairs(points, metric)
        found = run(pairs, groups, MEAN)
        with (
            mock.patch.object(reduce, "suits_centres", return_value=False),
            mock.patch.object(reduce, "suits_products", return_value=False),
        ):
            np.testing.assert_allclose(run(pairs, groups, MEAN), found, rtol=1e-10, atol=1e-9)


def test_means_as_near_as_their_rounding_are_not_used() -> None:
    random = np.random.default_rng(2)
    points = np.repeat([[0.0, 0.0], [1e7, 3.0]], 40, axis=0) + 1e-3 * random.standard_normal((80, 2))
    label = np.arange(80) // 4
    groups = grouped(label, MEAN, random)
    pairs = open_vector_pairs(points, "sqeuclidean")
    with mock.patch.object(centres, "sum_near", wraps=sum_near) as summed:
        found = run(pairs, groups, MEAN)
    assert summed.called
    assert_reduced((pairs, label, groups, MEAN), found)


@examples(60)
@given(SEEDS, st.integers(1, 40), st.integers(1, 90))
def test_jobs_and_parts_cover_each_pair_once(seed: int, count: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    size = random.integers(1, random.choice([2, 9, 300]), random.integers(1, 40))
    begin = np.concatenate(([0], np.cumsum(size)))
    groups = Grouped(np.arange(begin[-1]), begin, np.ones(begin[-1]))
    clusters, placed = groups.clusters, order_of(groups)
    filled = np.zeros(triangle_entries(clusters), int)
    for job in jobs_of(begin, count):
        first, last = order.job_run(job, clusters)
        filled[first:last] += 1
        assert [part.first for part in parts_of(placed, job, 0, rows)][:1] == [begin[clusters - job.last]]
    assert (filled == 1).all()
    parts = list(parts_of(placed, whole_job((0, clusters), clusters), 0, rows))
    assert [part.first for part in parts] == [0, *(part.last for part in parts[:-1])]
    for part in parts:
        assert part.last - part.first <= max(rows, PIECE)
        inside = part.last - begin[placed.cluster[part.last - 1]]
        assert part.last in begin or inside % PIECE == 0


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_products_in_registers_are_products(kind: str) -> None:
    random = np.random.default_rng(4)
    lanes = WIDE // np.dtype(kind).itemsize
    for dimensions in (1, 3, 4, 129):
        own, others = (random.integers(-9, 9, (count, dimensions)).astype(kind) for count in (2 * TALL, 3 * lanes))
        panels = np.ascontiguousarray(others.reshape(3, lanes, dimensions).transpose(0, 2, 1)).reshape(3, -1)
        tile = np.zeros((2 * TALL, 3 * lanes), kind)
        multiply_all(own, panels, tile)
        np.testing.assert_array_equal(tile, own @ others.T)


@pytest.mark.kernels
@pytest.mark.parametrize("metric", [EUCLIDEAN, INNER])
def test_four_sums_in_a_register_give_the_same_bits(metric: int) -> None:
    random = np.random.default_rng(5)
    for dimensions in (1, 2, 3, 4, 7, 128, 301):
        dense = random.standard_normal((2, dimensions))
        points = Points(dense, np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0))
        assert fours.weigh_rows(dense, 0, dense, 1, metric) == weigh(points, 0, points, 1, metric)


def test_memory_is_counted() -> None:
    random = np.random.default_rng(0)
    pairs = open_vector_pairs(random.standard_normal((1000, 10)), "sqeuclidean")
    assert reduce.reduce_bytes(pairs, 100, MEAN, 2, 0) > reduce.reduce_bytes(pairs, 100, LARGEST, 2, 0) > 0
    sparse = open_vector_pairs(sp.csr_array(random.random((50, 9))), "cosine")
    assert reduce.reduce_bytes(sparse, 10, LARGEST, 4, 0) > reduce.reduce_bytes(sparse, 10, LARGEST, 1, 0)
