"""Approximate neighbours against all distances; each metric is compiled only once for all tests."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances

import dask_rac
from dask_rac.base.errors import InputError, ResourceError
from dask_rac.vectors.graph.approximate import approximate_neighbours
from tests.support.needs import need

need(importlib.util.find_spec("pynndescent") is not None, "pynndescent is not installed")

K = 10


def clustered(rows: int, columns: int, seed: int = 0) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(40, columns))
    spread = rng.normal(size=(6, columns)) / 3
    points = centres[rng.integers(40, size=rows)] + rng.normal(size=(rows, 6)) @ spread
    return (points + rng.normal(scale=0.1, size=points.shape)).astype(np.float32)


def distances(vectors: NDArray[Any], metric: str) -> NDArray[np.float64]:
    exact = vectors.astype(np.float64)
    table = -exact @ exact.T if metric == "inner_product" else pairwise_distances(exact, metric=metric)
    np.fill_diagonal(table, np.inf)
    return table


def recall(found: NDArray[np.int64], table: NDArray[np.float64]) -> float:
    """Return the share of neighbours no farther than the last true one; ties count as correct."""
    last = np.sort(table, axis=1)[:, found.shape[1] - 1]
    near = np.take_along_axis(table, found, axis=1) <= last[:, None] + 1e-9 * np.abs(last[:, None])
    return float((near & (found >= 0)).mean())


def assert_proper(found: NDArray[np.int64], rows: int, k: int) -> None:
    assert found.shape == (rows, k)
    assert found.dtype == np.int64
    assert found.min() >= 0
    assert found.max() < rows
    assert (found != np.arange(rows)[:, None]).all()
    assert (np.diff(np.sort(found, axis=1), axis=1) > 0).all()


@pytest.mark.parametrize("metric", ["euclidean", pytest.param("sqeuclidean", marks=pytest.mark.soak), "cosine"])
def test_most_neighbours_are_found(metric: str) -> None:
    vectors = clustered(3000, 24)
    found = approximate_neighbours(vectors, K, metric, 2, 0)
    assert_proper(found, 3000, K)
    assert recall(found, distances(vectors, metric)) > 0.95


@pytest.mark.soak
@pytest.mark.parametrize("metric", ["manhattan", "inner_product"])
def test_most_neighbours_are_found_by_metrics_compiled_apart(metric: str) -> None:
    vectors = clustered(3000, 24)
    found = approximate_neighbours(vectors, K, metric, 2, 0)
    assert_proper(found, 3000, K)
    assert recall(found, distances(vectors, metric)) > 0.9


@pytest.mark.soak
def test_products_below_zero_are_distinguished() -> None:
    rng = np.random.default_rng(5)
    vectors = np.column_stack([rng.normal(size=(400, 2)), np.where(np.arange(400) == 0, -9, 1)])
    found = approximate_neighbours(vectors, 5, "inner_product", 2, 0)
    assert recall(found[:1], distances(vectors, "inner_product")[:1]) > 0.9


@pytest.mark.soak
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_sparse_vectors(metric: str) -> None:
    rng = np.random.default_rng(1)
    topics = np.where(rng.random((60, 2000)) < 0.02, rng.random((60, 2000)), 0)
    noise = np.where(rng.random((1500, 2000)) < 0.005, rng.random((1500, 2000)), 0)
    vectors = sp.csr_array(topics[rng.integers(60, size=1500)] + noise)
    found = approximate_neighbours(vectors, K, metric, 2, 0)
    assert_proper(found, 1500, K)
    assert recall(found, distances(vectors.toarray(), metric)) > 0.9


def test_more_effort_finds_more() -> None:
    vectors = np.random.default_rng(3).normal(size=(3000, 40)).astype(np.float32)
    table = distances(vectors, "euclidean")
    little, much = (recall(approximate_neighbours(vectors, K, "euclidean", 2, 0, e), table) for e in (1, 4))
    assert little < much
    assert much > 0.95


def test_the_same_seed_gives_the_same() -> None:
    vectors = clustered(3000, 24)
    one, same, other = (approximate_neighbours(vectors, K, "euclidean", 2, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@pytest.mark.parametrize("threads", [1, 1000])
def test_any_number_of_threads(threads: int) -> None:
    vectors = clustered(3000, 24)
    found = approximate_neighbours(vectors, K, "euclidean", threads, 0)
    assert recall(found, distances(vectors, "euclidean")) > 0.95


@pytest.mark.parametrize(("rows", "k"), [(2, 1), (3, 2), (5, 1), (11, 10), (50, 10), (50, 49)])
def test_few_rows(rows: int, k: int) -> None:
    vectors = clustered(rows, 4)
    found = approximate_neighbours(vectors, k, "euclidean", 2, 0)
    assert_proper(found, rows, k)
    assert recall(found, distances(vectors, "euclidean")) > 0.95


@pytest.mark.parametrize("different", [1, 5, 700])
def test_equal_rows(different: int) -> None:
    vectors = np.repeat(clustered(different, 6), 2100 // different, axis=0)
    found = approximate_neighbours(vectors, K, "euclidean", 2, 0)
    assert_proper(found, len(vectors), K)
    assert recall(found, distances(vectors, "euclidean")) > 0.9


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_rows_of_zeros(metric: str) -> None:
    vectors = np.where(np.arange(500)[:, None] % 50 == 0, 0, clustered(500, 6))
    assert_proper(approximate_neighbours(vectors, K, metric, 2, 0), 500, K)
    assert_proper(approximate_neighbours(sp.csr_array(vectors), K, metric, 2, 0), 500, K)


@pytest.mark.parametrize("moved", [(1e9, 1.0), (0.0, 1e100), (0.0, 1e-100)])
def test_what_single_precision_does_not_hold(moved: tuple[float, float]) -> None:
    vectors = clustered(1000, 6).astype(np.float64)
    found = approximate_neighbours(vectors * moved[1] + moved[0], K, "euclidean", 2, 0)
    assert recall(found, distances(vectors, "euclidean")) > 0.95


def test_whole_numbers() -> None:
    vectors = np.random.default_rng(4).integers(256, size=(1000, 8)).astype(np.uint8)
    found = approximate_neighbours(vectors, K, "euclidean", 2, 0)
    assert recall(found, distances(vectors, "euclidean")) > 0.95


def test_vectors_are_left_as_they_are() -> None:
    dense = clustered(300, 6)
    sparse = sp.csr_array(([1.0, 2.0, 3.0], [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    before = dense.copy(), sparse.indices.copy()
    approximate_neighbours(dense, 3, "cosine", 2, 0)
    approximate_neighbours(sparse, 1, "cosine", 2, 0)
    np.testing.assert_array_equal(dense, before[0])
    np.testing.assert_array_equal(sparse.indices, before[1])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    with pytest.raises(InputError, match=r"needs pynndescent: pip install 'dask-rac\[ann\]'"):
        approximate_neighbours(clustered(50, 4), 3, "euclidean", 1, 0)


@pytest.mark.parametrize(("vectors", "metric"), [(sp.eye_array(9, format="csr"), "inner_product"), (np.eye(9), "odd")])
def test_other_metrics_are_left_to_the_exact_method(vectors: NDArray[Any] | sp.csr_array, metric: str) -> None:
    with pytest.raises(InputError, match=f"metric='{metric}': use method=\"exact\""):
        approximate_neighbours(vectors, 3, metric, 1, 0)


@pytest.mark.filterwarnings("ignore:the graph has")
def test_a_graph_has_exact_weights_and_states_its_recall(tmp_path: Path) -> None:
    vectors = clustered(3000, 24)
    table = distances(vectors, "euclidean")
    for mode in ("union", "mutual"):
        edges = dask_rac.knn_graph(vectors, K, mode=mode, method="approximate", seed=3)
        assert (edges.source < edges.target).all()
        assert not edges.duplicated(["source", "target"]).any()
        np.testing.assert_allclose(edges.weight, table[edges.source, edges.target], rtol=1e-6)
        exact = dask_rac.knn_graph(vectors, K, mode=mode)
        same = len(edges.merge(exact, on=["source", "target"]))
        assert same > 0.95 * len(exact)
        facts = edges.attrs["graph"]
        assert facts["method"] == "approximate"
        assert 0.95 < facts["recall"] <= 1
    again = dask_rac.knn_graph(vectors, K, mode="mutual", method="approximate", seed=3, store=tmp_path / "edges")
    pd.testing.assert_frame_equal(again.compute().reset_index(drop=True), edges)


def test_what_one_process_does_not_hold_is_refused() -> None:
    with pytest.raises(ResourceError, match=r"holds all of the vectors in one process, .* set memory='1GB' or more"):
        dask_rac.knn_graph(clustered(3000, 24), K, method="approximate", memory="2MB")
