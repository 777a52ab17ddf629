"""Graphs of vectors hold the neighbours and weights that plain arithmetic gives, whichever way they were found."""

from __future__ import annotations

import os
import struct
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from decimal import Context, Decimal, localcontext
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics.cluster import contingency_matrix
from sklearn.neighbors import NearestNeighbors, radius_neighbors_graph

import dask_rac
from dask_rac.vectors import check, job, neighbours, plan, search, stages
from tests.effort import examples

Weights = NDArray[np.float64]
Edges = dict[tuple[int, int], float]
METRICS = ("euclidean", "sqeuclidean", "cosine", "inner_product", "manhattan")
DISTANCES = ("euclidean", "sqeuclidean", "manhattan")
DIGITS = 120  # more than it takes to add the square of 1e-20 to that of 1e8


# How graphs are computed


@dataclass(frozen=True)
class Way:
    """What changes how a graph is computed, and must not change it."""

    tree: bool = False
    most_rows: int = 131_072
    near_rows: int = 8_192
    file_edges: int = 2**22
    group_edges: int = 2**20
    tile: tuple[int, int] = (512, 1024)
    sparse_tile: int = 2**19
    flooded: int = 8
    kept_bytes: int = 48
    double: bool = False
    """Whether scores are float64."""
    whole: bool = True
    """Whether whole numbers may be known to be whole."""
    threads: int = 2


TREE = Way(tree=True)
PRODUCTS = Way()
MANY = Way(most_rows=13, near_rows=11, file_edges=50, group_edges=7, tile=(3, 4), sparse_tile=30, flooded=0)


@contextmanager
def computed(way: Way) -> Iterator[None]:
    """Compute graphs in a given way."""
    constants: list[tuple[Any, dict[str, Any]]] = [
        (plan, {"TREE_LIMITS": ((float("inf"), 10**9 if way.tree else 0),), "NEAR_ROWS": way.near_rows}),
        (plan, {"MOST_ROWS": way.most_rows, "LEAST_ROWS": 1, "WORTH_A_TASK": min(2_048, way.most_rows)}),
        (stages, {"FILE_EDGES": way.file_edges, "KEPT_BYTES": way.kept_bytes}),
        (job, {"GROUP_EDGES": way.group_edges}),
        (neighbours, {"FLOODED": way.flooded}),
        (search, {"TILE_ROWS": way.tile[0], "TILE_COLUMNS": way.tile[1], "SPARSE_TILE": way.sparse_tile}),
        (check, {"SINGLE": (np.inf, np.inf)} if way.double else {}),
        (check, {} if way.whole else {"MOST_WHOLE": 0.0}),
    ]
    with ExitStack() as stack:
        for module, values in constants:
            for name, value in values.items():
                stack.enter_context(mock.patch.object(module, name, value))
        stack.enter_context(mock.patch.object(os, "fsync"))
        stack.enter_context(dask.config.set(num_workers=way.threads, temporary_directory=quick_place()))
        yield


def quick_place() -> str | None:
    """A folder that costs no disk, where there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


ways = st.builds(
    Way,
    tree=st.booleans(),
    most_rows=st.sampled_from([6, 14, 131_072]),
    near_rows=st.sampled_from([5, 14, 8_192]),
    file_edges=st.sampled_from([20, 60, 2**22]),
    group_edges=st.sampled_from([4, 2**20]),
    tile=st.sampled_from([(2, 5), (5, 2), (7, 7), (512, 1024)]),
    sparse_tile=st.sampled_from([1, 40, 2**19]),
    flooded=st.sampled_from([0, 8]),
    kept_bytes=st.sampled_from([48, 2**60]),
    double=st.booleans(),
    whole=st.booleans(),
    threads=st.sampled_from([1, 2, 3]),
)


def quiet(function: Any, *arguments: Any, **options: Any) -> pd.DataFrame:
    """A graph, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found: pd.DataFrame = function(*arguments, **options)
    return found


# Vectors


def drawn(kind: str, n: int, d: int, seed: int) -> NDArray[np.float64]:
    """Vectors of one kind."""
    rng = np.random.default_rng(seed)
    few = rng.standard_normal((max(1, n // 9), d))
    made: dict[str, Callable[[], Any]] = {
        "normal": lambda: rng.standard_normal((n, d)),
        "grid": lambda: rng.integers(0, 3, (n, d)) * 1.0,
        "tenths": lambda: rng.integers(0, 3, (n, d)) * 0.1,
        "copies": lambda: few[rng.integers(0, len(few), n)],
        "equal": lambda: np.repeat(few[:1], n, axis=0),
        "scaled": lambda: few[rng.integers(0, len(few), n)] * 10.0 ** rng.integers(-3, 4, (n, 1)),
        "offset": lambda: 1e6 + rng.standard_normal((n, d)),
        "outliers": lambda: rng.standard_normal((n, d)) * np.where(rng.random((n, 1)) < 0.1, 1e8, 1.0),
        "tiny": lambda: rng.standard_normal((n, d)) * 1e-20,
        "huge": lambda: rng.standard_normal((n, d)) * 1e40,
        "zeros": lambda: rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3),
    }
    values: NDArray[np.float64] = made[kind]()
    return values


KINDS = ("normal", "grid", "tenths", "copies", "equal", "scaled", "offset", "outliers", "tiny", "huge", "zeros")
GENTLE = ("normal", "offset", "zeros")


@dataclass(frozen=True)
class Case:
    """Vectors, and what is asked of them."""

    kind: str
    given: Any
    """As they are handed over."""
    exact: NDArray[np.float64]
    """Their values."""
    metric: str
    k: int
    mode: str

    def __repr__(self) -> str:
        form = "sparse" if sp.issparse(self.given) else self.given.dtype
        return f"{self.kind} {self.exact.shape} {form} {self.metric} k={self.k} {self.mode}"


@st.composite
def cases(draw: st.DrawFn, metrics: Sequence[str] = METRICS, kinds: Sequence[str] = KINDS, most: int = 30) -> Case:
    """Vectors of all kinds and forms."""
    kind, metric = draw(st.sampled_from(kinds)), draw(st.sampled_from(metrics))
    n, d = draw(st.integers(2, most)), draw(st.sampled_from([1, 2, 3, 5, 9]))
    values = drawn(kind, n, d, draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(["float32", "float64"] if kind not in {"huge", "tiny"} else ["float64"]))
    if kind == "grid":
        dtype = draw(st.sampled_from(["float32", "float64", "uint8"]))
    if metric == "cosine":
        values[~values.any(axis=1), 0] = 1.0  # who is zero has no direction
    given: Any = values.astype(dtype)
    exact = given.astype(np.float64)
    if metric != "manhattan" and draw(st.booleans()):
        given = sp.csr_array(given)
    k = draw(st.one_of(st.just(n - 1), st.integers(1, min(n - 1, 12))))
    return Case(kind, given, exact, metric, k, draw(st.sampled_from(["union", "mutual"])))


# Oracles


def truth(values: NDArray[np.float64], metric: str) -> tuple[Weights, Weights]:
    """The weight of every pair in decimal arithmetic, near ones smallest; and how far float64 may be off."""
    n = len(values)
    rows = [[Decimal(float(value)) for value in row] for row in values]
    weight, error = np.zeros((n, n)), np.zeros((n, n))
    with localcontext(Context(prec=DIGITS)):
        norms = [sum((x * x for x in row), Decimal(0)).sqrt() for row in rows]
        for i in range(n):
            for j in range(i + 1, n):
                found, off = _true_weight(rows[i], rows[j], norms[i] * norms[j], metric)
                weight[i, j] = weight[j, i] = float(found)
                error[i, j] = error[j, i] = off
    return weight, error


def _true_weight(x: list[Decimal], y: list[Decimal], norms: Decimal, metric: str) -> tuple[Decimal, float]:
    """The weight of a pair, and how far float64 may be off."""
    if metric in {"cosine", "inner_product"}:
        inner = sum((p * q for p, q in zip(x, y, strict=True)), Decimal(0))
        if metric == "inner_product":
            return -inner, 1e-15 * float(norms)
        far = 1 - inner / norms
        return far, 1e-14 * float(abs(far).sqrt()) + 1e-30
    if metric == "manhattan":
        total = sum((abs(p - q) for p, q in zip(x, y, strict=True)), Decimal(0))
        return total, 1e-14 * float(total)
    square = sum(((p - q) ** 2 for p, q in zip(x, y, strict=True)), Decimal(0))
    far = square if metric == "sqeuclidean" else square.sqrt()
    return far, 1e-14 * float(far)


def whole_weights(values: NDArray[np.float64], metric: str) -> Weights:
    """The weights of whole numbers, which are exact up to a root; near ones smallest."""
    x = values.astype(np.int64)
    differ = x[:, None] - x[None]
    if metric == "inner_product":
        return np.asarray(-(x @ x.T), np.float64)
    if metric == "manhattan":
        return np.asarray(np.abs(differ).sum(axis=2), np.float64)
    square = np.asarray((differ**2).sum(axis=2), np.float64)
    return np.sqrt(square) if metric == "euclidean" else square


def far_apart(values: NDArray[np.float64], metric: Any) -> Weights:
    """All distances by scipy, in its order."""
    return pdist(values, "cityblock" if metric == "manhattan" else metric)


def ranked(weight: Weights, k: int, mode: str) -> set[tuple[int, int]]:
    """The pairs of a kNN graph, from lists by weight and then by id."""
    lists = []
    for i, row in enumerate(weight):
        others = [j for j in range(len(row)) if j != i]
        lists.append(set(sorted(others, key=lambda j, row=row: (row[j], j))[:k]))  # type: ignore[misc]
    pairs = [(i, j) for i in range(len(lists)) for j in range(i + 1, len(lists))]
    if mode == "union":
        return {(i, j) for i, j in pairs if j in lists[i] or i in lists[j]}
    return {(i, j) for i, j in pairs if j in lists[i] and i in lists[j]}


def edges_of(frame: pd.DataFrame) -> Edges:
    """The edges of a graph, which are checked: the smaller id first, each once, none to itself."""
    source, target = frame["source"].to_numpy(), frame["target"].to_numpy()
    assert (source < target).all()
    assert (source != target).all()
    pairs = list(zip(np.minimum(source, target).tolist(), np.maximum(source, target).tolist(), strict=True))
    found = dict(zip(pairs, frame["weight"].tolist(), strict=True))
    assert len(found) == len(frame)
    assert frame.attrs["graph"]["edges"] == len(frame)
    return found


def own_weights(case: Case) -> Weights:
    """The float64 weights that all graphs have in common, near ones smallest; infinite where there is no edge."""
    n = len(case.exact)
    weight = np.full((n, n), np.inf)
    sign = -1.0 if case.metric == "inner_product" else 1.0
    for (i, j), far in edges_of(quiet(dask_rac.complete_graph, case.given, case.metric)).items():
        weight[i, j] = weight[j, i] = sign * far
    return weight


def kept(pairs: set[tuple[int, int]], weight: Weights, metric: str) -> set[tuple[int, int]]:
    """Pairs that get an edge: similarities below 0 get none."""
    return {pair for pair in pairs if weight[pair] <= 0} if metric == "inner_product" else pairs


def assert_weights(found: Edges, weight: Weights, error: Weights, metric: str) -> None:
    """Weights are the true ones, but for rounding."""
    sign = -1.0 if metric == "inner_product" else 1.0
    for pair, far in found.items():
        assert abs(sign * far - weight[pair]) <= error[pair], pair


# k nearest neighbours


@given(cases(), ways)
@examples(80)
def test_neighbours_are_the_true_ones(case: Case, way: Way) -> None:
    weight, error = truth(case.exact, case.metric)
    with computed(way):
        found = edges_of(quiet(dask_rac.knn_graph, case.given, case.k, case.metric, case.mode))
    assert_weights(found, weight, error, case.metric)
    far = weight + np.diag(np.full(len(weight), np.inf))
    last = np.partition(far, case.k - 1, axis=1)[:, case.k - 1, None]
    room = (
        error + error.max(axis=1, keepdims=True) if case.metric == "inner_product" else 2 * error + 2e-14 * np.abs(last)
    )
    surely, maybe = far < last - room, far <= last + room
    join = np.logical_or if case.mode == "union" else np.logical_and
    least, most = join(surely, surely.T), join(maybe, maybe.T)
    if case.metric == "inner_product":
        least, most = least & (weight < -error), most & (weight <= error)
    pairs = set(found)
    assert {(i, j) for i, j in np.argwhere(least).tolist() if i < j} <= pairs
    assert pairs <= {(i, j) for i, j in np.argwhere(most).tolist() if i < j}


@given(cases(kinds=("grid",), metrics=(*DISTANCES, "inner_product")), ways)
@examples(60)
def test_ties_go_to_the_smallest_ids(case: Case, way: Way) -> None:
    weight = whole_weights(case.exact, case.metric)
    with computed(way):
        found = edges_of(quiet(dask_rac.knn_graph, case.given, case.k, case.metric, case.mode))
    assert set(found) == kept(ranked(weight, case.k, case.mode), weight, case.metric)
    sign = -1.0 if case.metric == "inner_product" else 1.0
    assert all(far == sign * weight[pair] for pair, far in found.items())


@given(cases(), ways)
@examples(60)
def test_neighbours_are_the_first_of_all_pairs(case: Case, way: Way) -> None:
    """To the last bit, ties that are made by rounding too."""
    if case.metric == "inner_product":
        case = Case(case.kind, abs(case.given), np.abs(case.exact), case.metric, case.k, case.mode)
    weight = own_weights(case)
    with computed(way):
        found = edges_of(quiet(dask_rac.knn_graph, case.given, case.k, case.metric, case.mode))
    assert set(found) == ranked(weight, case.k, case.mode)
    assert all(far == abs(weight[pair]) for pair, far in found.items())


@pytest.mark.parametrize("way", [TREE, PRODUCTS, MANY], ids=["tree", "products", "many"])
@pytest.mark.parametrize("metric", [*DISTANCES, "cosine"])
@pytest.mark.parametrize("form", ["float32", "float64", "sparse"])
def test_neighbours_are_those_of_scikit_learn(way: Way, metric: str, form: str) -> None:
    if form == "sparse" and metric == "manhattan":
        pytest.skip("for dense vectors")
    values = np.random.default_rng(1).standard_normal((60, 6)).astype("float32" if form == "float32" else "float64")
    holes = np.random.default_rng(2).random(values.shape) < 0.2
    given: Any = sp.csr_array(np.where(holes, 0, values)) if form == "sparse" else values
    dense = given.toarray() if form == "sparse" else values.astype(np.float64)
    search = NearestNeighbors(n_neighbors=5, algorithm="brute", metric=metric).fit(dense)
    directed = search.kneighbors_graph(mode="distance").toarray()
    for mode, join in (("union", np.maximum), ("mutual", np.minimum)):
        with computed(way):
            frame = quiet(dask_rac.knn_graph, given, 5, metric, mode)
        expected = np.triu(join(directed, directed.T))
        assert set(edges_of(frame)) == {(i, j) for i, j in np.argwhere(expected).tolist()}
        low, high = frame[["source", "target"]].min(axis=1), frame[["source", "target"]].max(axis=1)
        np.testing.assert_allclose(frame["weight"], expected[low, high], rtol=1e-7)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("way", [TREE, PRODUCTS], ids=["tree", "products"])
def test_neighbours_are_those_of_a_tree(d: int, way: Way) -> None:
    values = np.random.default_rng(d).random((500, d))
    far, near = (np.asarray(found) for found in cKDTree(values).query(values, 9))
    expected = {tuple(sorted((i, int(j)))) for i in range(500) for j in near[i] if i != j}
    with computed(way):
        found = edges_of(quiet(dask_rac.knn_graph, values, 8))
    assert set(found) == expected
    assert max(found.values()) == pytest.approx(far.max(), rel=1e-12)


@pytest.mark.parametrize("way", [TREE, PRODUCTS, MANY], ids=["tree", "products", "many"])
@pytest.mark.parametrize("metric", METRICS)
def test_two_vectors(way: Way, metric: str) -> None:
    values = np.array([[3.0, 4.0], [6.0, 8.0]])
    expected = {"euclidean": 5.0, "sqeuclidean": 25.0, "cosine": 0.0, "inner_product": 50.0, "manhattan": 7.0}[metric]
    with computed(way):
        for graph in (
            dask_rac.knn_graph(values, 1, metric),
            dask_rac.knn_graph(values, 1, metric, "mutual"),
            dask_rac.eps_graph(values, expected, metric),
            dask_rac.complete_graph(values, metric),
        ):
            assert edges_of(graph) == {(0, 1): pytest.approx(expected, abs=1e-15)}
            assert (graph.attrs["n_nodes"], graph.attrs["graph"]["components"]) == (2, 1)


@pytest.mark.parametrize("way", [TREE, PRODUCTS, MANY], ids=["tree", "products", "many"])
@pytest.mark.parametrize("metric", METRICS)
def test_many_copies(way: Way, metric: str) -> None:
    """Of more than k copies the first are everyone's neighbours."""
    values = np.repeat(np.arange(1.0, 4.0), 20)[np.random.default_rng(0).permutation(60)][:, None] * [1.0, 0.5]
    if metric == "cosine":
        values[:, 1] = 1.0
    case = Case("copies", values, values, metric, 5, "union")
    weight = own_weights(case)
    with computed(way):
        assert set(edges_of(quiet(dask_rac.knn_graph, values, 5, metric))) == ranked(weight, 5, "union")


# Balls


@given(cases(), ways, st.floats(0.0, 1.0))
@examples(60)
def test_balls_hold_all_that_is_near(case: Case, way: Way, share: float) -> None:
    weight = own_weights(case)
    pairs = np.abs(weight[np.triu_indices(len(weight), 1)])
    finite = pairs[np.isfinite(pairs)]
    eps = float(np.quantile(finite, share, method="nearest")) if len(finite) else 1.0  # one is just at the border
    with computed(way):
        frame = quiet(dask_rac.eps_graph, case.given, eps, case.metric)
    found = edges_of(frame)
    sign = -1.0 if case.metric == "inner_product" else 1.0
    assert set(found) == {(i, j) for i, j in np.argwhere(weight <= sign * eps).tolist() if i < j}
    assert all(far == abs(weight[pair]) for pair, far in found.items())
    assert frame.attrs["n_nodes"] == len(weight)
    assert list(zip(frame["source"], frame["target"], strict=True)) == sorted(found)


@pytest.mark.parametrize("way", [TREE, PRODUCTS, MANY], ids=["tree", "products", "many"])
@pytest.mark.parametrize("metric", [*DISTANCES, "cosine"])
def test_balls_are_those_of_scikit_learn(way: Way, metric: str) -> None:
    values = np.random.default_rng(4).standard_normal((60, 4))
    far = squareform(far_apart(values, metric))
    eps = float(np.quantile(far, 0.1)) + 1e-6
    expected = radius_neighbors_graph(values, eps, mode="distance", metric=metric).toarray()
    with computed(way):
        found = edges_of(quiet(dask_rac.eps_graph, values, eps, metric))
    assert set(found) == {(i, j) for i, j in np.argwhere(np.triu(expected)).tolist()}
    for pair, weight in found.items():
        assert weight == pytest.approx(far[pair], rel=1e-9)


@pytest.mark.parametrize("way", [TREE, PRODUCTS], ids=["tree", "products"])
def test_balls_are_those_of_a_tree(way: Way) -> None:
    values = np.random.default_rng(5).random((400, 3))
    expected = cKDTree(values).query_pairs(0.1)
    with computed(way):
        assert set(edges_of(quiet(dask_rac.eps_graph, values, 0.1))) == expected


@pytest.mark.parametrize("way", [TREE, PRODUCTS], ids=["tree", "products"])
def test_ball_of_radius_zero_holds_copies(way: Way) -> None:
    values = drawn("copies", 40, 3, 0)
    expected = {(i, j) for i in range(40) for j in range(i + 1, 40) if (values[i] == values[j]).all()}
    with computed(way):
        assert set(edges_of(quiet(dask_rac.eps_graph, values, 0))) == expected


# All pairs


@given(cases())
@examples(30)
def test_all_pairs_weigh_what_they_should(case: Case) -> None:
    weight, error = truth(case.exact, case.metric)
    with computed(MANY):
        frame = quiet(dask_rac.complete_graph, case.given, case.metric)
    found = edges_of(frame)
    assert_weights(found, weight, error, case.metric)
    everyone = {(i, j) for i in range(len(weight)) for j in range(i + 1, len(weight))}
    if case.metric == "inner_product":
        assert {pair for pair in everyone if weight[pair] < -error[pair]} <= set(found)
        assert set(found) <= {pair for pair in everyone if weight[pair] <= error[pair]}
    else:
        assert set(found) == everyone
        assert list(zip(frame["source"], frame["target"], strict=True)) == sorted(everyone)


@pytest.mark.parametrize("metric", [*DISTANCES, "cosine"])
def test_all_pairs_are_those_of_scipy(metric: str) -> None:
    values = np.random.default_rng(6).standard_normal((80, 7))
    frame = dask_rac.complete_graph(values, metric)
    np.testing.assert_allclose(frame["weight"], far_apart(values, metric), rtol=1e-12)


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_inner_products_are_those_of_numpy(form: Any) -> None:
    values = np.abs(np.random.default_rng(6).standard_normal((80, 7)))
    frame = dask_rac.complete_graph(form(values), "inner_product")
    np.testing.assert_allclose(frame["weight"], (values @ values.T)[np.triu_indices(80, 1)], rtol=1e-12)


def test_one_vector_is_a_node_without_edges() -> None:
    for frame in (dask_rac.eps_graph(np.ones((1, 3)), 1.0), dask_rac.complete_graph(np.ones((1, 3)))):
        assert len(frame) == 0
        assert (frame.attrs["n_nodes"], frame.attrs["graph"]["components"]) == (1, 1)


# Clustering what was made


def same_partition(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two labelings put the same together."""
    table = contingency_matrix(one, other)
    return bool(((table > 0).sum(axis=0) == 1).all() and ((table > 0).sum(axis=1) == 1).all())


SETS, APART = 20, 1e4


@given(st.sampled_from([1, 2, 5]), st.integers(0, 2**32 - 1), st.floats(0.02, 3.0), st.sampled_from(DISTANCES), ways)
@examples(25)
def test_balls_give_complete_linkage_up_to_their_radius(d: int, seed: int, eps: float, metric: str, way: Way) -> None:
    """Many sets at a time, so far apart that they have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    sets = [rng.standard_normal((int(n), d)) for n in rng.integers(1, 15, SETS)]
    ends = np.append(0, np.cumsum([len(one) for one in sets]))
    values = np.column_stack([np.concatenate(sets), np.repeat(APART * np.arange(SETS), np.diff(ends))])
    with computed(
        replace(way, most_rows=131_072, near_rows=max(40, way.near_rows), file_edges=max(100, way.file_edges))
    ):
        frame = quiet(dask_rac.eps_graph, values, eps, metric)
        found = dask_rac.cluster(frame, linkage="complete", missing="infinite", n_nodes=frame.attrs["n_nodes"])
    trees = [linkage(far_apart(one, metric), "complete") for one in sets if len(one) > 1]
    heights = np.concatenate([tree[:, 2] for tree in trees])
    np.testing.assert_allclose(np.sort(found.merges["height"]), np.sort(heights[heights <= eps]), rtol=1e-9)
    for height in (eps, 0.9 * eps, 0.5 * eps, 0.1 * eps):
        labels = np.split(np.asarray(found.cut(height)), ends[1:-1])
        alone = [one for one in labels if len(one) > 1]
        assert all(
            same_partition(one, fcluster(tree, height, "distance")) for one, tree in zip(alone, trees, strict=True)
        )
        assert len(set(np.concatenate(labels))) == sum(len(set(one)) for one in labels)


@pytest.mark.parametrize("method", ["average", "complete", "single"])
@pytest.mark.parametrize("metric", [*DISTANCES, "cosine"])
def test_all_pairs_give_the_linkage_of_scipy(method: Any, metric: str) -> None:
    for seed in range(5):
        values = np.random.default_rng(seed).standard_normal((30 + seed, 4))
        expected = linkage(far_apart(values, metric), method)
        found = dask_rac.cluster(dask_rac.complete_graph(values, metric), linkage=method)
        np.testing.assert_allclose(np.sort(found.merges["height"]), expected[:, 2], rtol=1e-9)


# Forms


def records(path: Path, values: NDArray[np.float32]) -> str:
    """An .fvecs file."""
    path.write_bytes(b"".join(struct.pack(f"<i{len(row)}f", len(row), *row.tolist()) for row in values))
    return str(path)


def forms(folder: Path, values: NDArray[np.float32]) -> dict[str, Any]:
    """The same vectors in several forms."""
    np.save(folder / "x.npy", values)
    pq.write_table(
        pa.table({"v": pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])}),
        folder / "x.parquet",
    )
    zarr.create_array(str(folder / "x.zarr"), data=values, chunks=(7, 2))
    return {
        "numpy": values,
        "npy": str(folder / "x.npy"),
        "parquet": str(folder / "x.parquet"),
        "zarr": str(folder / "x.zarr"),
        "fvecs": records(folder / "x.fvecs", values),
        "dask": da.from_array(values, chunks=(11, 3)),
        "frame": pd.DataFrame(values),
    }


def sparse_forms(folder: Path, matrix: sp.csr_array) -> dict[str, Any]:
    """The same sparse vectors in several forms."""
    sp.save_npz(folder / "s.npz", matrix)
    group = zarr.create_group(
        str(folder / "s.zarr"), attributes={"encoding-type": "csr_matrix", "shape": list(matrix.shape)}
    )
    for name in ("data", "indices", "indptr"):
        group.create_array(name, data=getattr(matrix, name), chunks=(16,))
    return {"scipy": matrix, "npz": str(folder / "s.npz"), "group": str(folder / "s.zarr")}


def written(store: Path) -> dict[str, bytes]:
    """The files of edges, with what they hold."""
    found = {path.name: path.read_bytes() for path in sorted(store.iterdir()) if path.suffix == ".parquet"}
    assert found
    return found


@pytest.mark.parametrize("sparse", [False, True])
def test_all_forms_give_the_same_bytes(sparse: bool, tmp_path: Path) -> None:
    values = drawn("zeros", 50, 5, 3).astype(np.float32)
    values[~values.any(axis=1), 0] = 1
    given = sparse_forms(tmp_path, sp.csr_array(values)) if sparse else forms(tmp_path, values)
    with computed(Way(most_rows=9, file_edges=60)):
        asked: list[tuple[Any, dict[str, Any]]] = [
            (dask_rac.knn_graph, {"k": 4}),
            (dask_rac.eps_graph, {"eps": 0.5, "metric": "cosine"}),
        ]
        for number, (function, options) in enumerate(asked):
            stores = {name: tmp_path / f"{name}-{number}" for name in given}
            for name, form in given.items():
                quiet(function, form, store=stores[name], **options)
            one, *others = [written(store) for store in stores.values()]
            assert len(one) > 1
            assert all(other == one for other in others)


# Scales that differ from span to span


def uneven(scales: Sequence[float], d: int = 3, rows: int = 24, seed: int = 0) -> NDArray[np.float64]:
    """Spans of vectors of one size each, their middle at 0 exactly."""
    rng = np.random.default_rng(seed)
    halves = [rng.standard_normal((rows // 2, d)) * scale for scale in scales]
    return np.concatenate([np.concatenate([half, -half]) for half in halves])


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "inner_product"])
@pytest.mark.parametrize("scales", [(1.0, 1e-20), (1.0, 1e-25), (1e-25, 1.0, 1e-10)], ids=str)
def test_small_vectors_beside_large_ones(form: Any, metric: str, scales: tuple[float, ...]) -> None:
    values = uneven(scales, rows=70)
    if metric == "inner_product":
        values = np.abs(values)
    case = Case("uneven", form(values), values, metric, 3, "union")
    weight = own_weights(case)
    for way in (Way(most_rows=70), Way(most_rows=40, tile=(5, 7), sparse_tile=100)):
        with computed(way):
            found = edges_of(quiet(dask_rac.knn_graph, case.given, 3, metric))
            assert set(found) == ranked(weight, 3, "union"), way
            eps = float(np.sort(np.abs(weight), axis=None)[len(values)])
            near = edges_of(quiet(dask_rac.eps_graph, case.given, eps, metric))
            sign = -1.0 if metric == "inner_product" else 1.0
            assert set(near) == {(i, j) for i, j in np.argwhere(weight <= sign * eps).tolist() if i < j}, way


@pytest.mark.parametrize("metric", DISTANCES)
@pytest.mark.parametrize("scale", [1e8, 1e11, 1e14])
@pytest.mark.parametrize("double", [False, True])
def test_far_vectors_see_ties_that_rounding_makes(metric: str, scale: float, double: bool) -> None:
    """To one far away many are equally far, by float64: the smallest ids are nearest, whichever way they are found."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.standard_normal((400, 3)), scale * np.array([[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]])])
    values[:400] *= 1e-3
    case = Case("far", values, values, metric, 4, "union")
    expected = ranked(own_weights(case), 4, "union")
    for way in (TREE, Way(most_rows=140)):
        with computed(replace(way, double=double)):
            assert set(edges_of(quiet(dask_rac.knn_graph, values, 4, metric))) == expected, way


def test_tiny_differences_beside_copies() -> None:
    """Numbers whose difference has no square are no copies, where differences are not squared."""
    values = np.column_stack([np.tile([1e-170, 0.0], 30), np.ones(60)])
    case = Case("nearly copies", values, values, "manhattan", 3, "union")
    expected = ranked(own_weights(case), 3, "union")
    for way in (TREE, PRODUCTS):
        with computed(way):
            assert set(edges_of(quiet(dask_rac.knn_graph, values, 3, "manhattan"))) == expected, way


# Components, isolated vectors, negative similarities


def pieces(frame: pd.DataFrame, n: int) -> tuple[int, int]:
    """Components by scipy: how many, and the size of the largest."""
    ends = frame["source"].to_numpy(), frame["target"].to_numpy()
    count, label = sp.csgraph.connected_components(
        sp.coo_array((np.ones(len(frame)), ends), shape=(n, n)), directed=False
    )
    return int(count), int(np.bincount(label).max())


@given(cases(metrics=DISTANCES), ways)
@examples(20)
def test_components_are_those_of_scipy(case: Case, way: Way) -> None:
    n = len(case.exact)
    far = own_weights(case)[np.triu_indices(n, 1)]
    with computed(way):
        for function, options in (
            (dask_rac.knn_graph, {"k": min(2, n - 1), "mode": case.mode}),
            (dask_rac.eps_graph, {"eps": float(np.quantile(far, 0.05))}),
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                frame = function(case.given, metric=case.metric, **options)
            count, largest = pieces(frame, n)
            facts = frame.attrs["graph"]
            assert (facts["components"], facts["largest"], facts["nodes"]) == (count, largest, n)
            assert frame.attrs["n_nodes"] == n
            texts = [str(warning.message) for warning in caught]
            assert len(texts) == (count > 1)
            for text in texts:
                assert f"{count:,} components, the largest with {largest:,} of {n:,} nodes" in text


@pytest.mark.parametrize("stored", [False, True])
def test_the_warning_names_the_line_of_the_caller(stored: bool, tmp_path: Path) -> None:
    store = tmp_path / "edges" if stored else None
    with pytest.warns(UserWarning, match=r"3 components.*a larger eps connects more") as caught:
        dask_rac.eps_graph(np.array([[0.0], [1.0], [5.0], [9.0]]), 1, store=store)
    assert caught[0].filename == __file__


def test_isolated_vectors_are_nodes(tmp_path: Path) -> None:
    values = np.array([[0.0], [1.0], [100.0], [1000.0]])
    for place in ({}, {"store": tmp_path / "edges"}):
        with pytest.warns(UserWarning, match="3 components, the largest with 2 of 4 nodes"):
            frame = dask_rac.eps_graph(values, 2.0, **place)  # type: ignore[arg-type]
        assert frame.attrs["n_nodes"] == 4
        assert dask_rac.cluster(frame, n_nodes=4).n_nodes == 4
    stored = dask_rac.cluster(tmp_path / "edges")
    assert (stored.n_nodes, stored.n_trees) == (4, 3)


@given(cases(metrics=("inner_product",), kinds=("grid", "normal", "zeros", "scaled")), ways)
@examples(20)
def test_negative_inner_products_get_no_edge(case: Case, way: Way) -> None:
    values = np.rint(case.exact * 3) - 1  # small whole numbers of either sign: exact
    given = sp.csr_array(values) if sp.issparse(case.given) else values
    weight = whole_weights(values, "inner_product")
    pairs = {(i, j) for i in range(len(values)) for j in range(i + 1, len(values))}
    eps = float(max(0.0, -np.median(weight)))
    with computed(way):
        for function, options, wanted in (
            (dask_rac.knn_graph, {"k": case.k, "mode": case.mode}, ranked(weight, case.k, case.mode)),
            (dask_rac.complete_graph, {}, pairs),
            (dask_rac.eps_graph, {"eps": eps}, {pair for pair in pairs if weight[pair] <= -eps}),
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                frame = function(given, metric="inner_product", **options)
            expected = kept(wanted, weight, "inner_product")
            assert edges_of(frame) == {pair: -weight[pair] for pair in expected}
            assert not np.signbit(frame["weight"]).any()
            dropped = len(wanted) - len(expected)
            assert frame.attrs["graph"]["dropped"] == dropped
            texts = [str(warning.message) for warning in caught]
            told = [text for text in texts if "negative inner product" in text]
            assert [text.partition(" ")[0] for text in told] == ([f"{dropped:,}"] if dropped else [])


# Attributes


def test_attributes_say_how() -> None:
    values = drawn("normal", 60, 3, 0)
    with computed(TREE):
        assert dask_rac.knn_graph(values, 6).attrs["graph"]["method"] == "tree"
    with computed(PRODUCTS):
        frame = dask_rac.knn_graph(values, 6)
        assert frame.attrs["graph"]["method"] == "products"
    facts = frame.attrs["graph"]
    assert (facts["kind"], facts["metric"], facts["nodes"], facts["edges"]) == ("knn", "euclidean", 60, len(frame))
    assert (facts["recall"], facts["dropped"]) == (None, 0)
    assert facts["seconds"] > 0


def test_nothing_is_left_in_the_temporary_folder() -> None:
    with tempfile.TemporaryDirectory() as place, dask.config.set(temporary_directory=place):
        dask_rac.knn_graph(drawn("normal", 30, 3, 0), 6)
        assert os.listdir(place) == []
