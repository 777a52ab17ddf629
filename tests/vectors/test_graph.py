"""Graphs of vectors hold the neighbours and weights of plain arithmetic, however they were found."""

from __future__ import annotations

import os
import struct
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from scipy.spatial.distance import squareform
from sklearn.metrics.cluster import contingency_matrix
from sklearn.neighbors import NearestNeighbors, radius_neighbors_graph

import dask_rac
from tests.support.effort import examples
from tests.support.neighbours import (
    assert_weights,
    edges_of,
    far_apart,
    kept,
    own_weights,
    ranked,
    truth,
    whole_weights,
)
from tests.support.vectors import DISTANCES, METRICS, Case, cases, drawn
from tests.support.ways import MANY, PRODUCTS, TREE, Way, computed, quiet, ways, written

# k nearest neighbours


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
        with computed(way) as graphs:
            frame = quiet(graphs.knn_graph, given, 5, metric, mode)
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
    with computed(way) as graphs:
        found = edges_of(quiet(graphs.knn_graph, values, 8))
    assert set(found) == expected
    assert max(found.values()) == pytest.approx(far.max(), rel=1e-12)


@pytest.mark.parametrize("way", [TREE, PRODUCTS, MANY], ids=["tree", "products", "many"])
@pytest.mark.parametrize("metric", METRICS)
def test_two_vectors(way: Way, metric: str) -> None:
    values = np.array([[3.0, 4.0], [6.0, 8.0]])
    expected = {"euclidean": 5.0, "sqeuclidean": 25.0, "cosine": 0.0, "inner_product": 50.0, "manhattan": 7.0}[metric]
    with computed(way) as graphs:
        for graph in (
            graphs.knn_graph(values, 1, metric),
            graphs.knn_graph(values, 1, metric, "mutual"),
            graphs.eps_graph(values, expected, metric),
            graphs.complete_graph(values, metric),
        ):
            assert edges_of(graph) == {(0, 1): pytest.approx(expected, abs=1e-15)}
            assert (graph.attrs["n_nodes"], graph.attrs["graph"]["components"]) == (2, 1)


@pytest.mark.parametrize("way", [TREE, PRODUCTS, MANY], ids=["tree", "products", "many"])
@pytest.mark.parametrize("metric", METRICS)
def test_many_copies(way: Way, metric: str) -> None:
    """With more than k copies, the first copies are the neighbours of all."""
    values = np.repeat(np.arange(1.0, 4.0), 20)[np.random.default_rng(0).permutation(60)][:, None] * [1.0, 0.5]
    if metric == "cosine":
        values[:, 1] = 1.0
    case = Case("copies", values, values, metric, 5, "union")
    weight = own_weights(case)
    with computed(way) as graphs:
        assert set(edges_of(quiet(graphs.knn_graph, values, 5, metric))) == ranked(weight, 5, "union")


# Balls


@given(cases(), ways, st.floats(0.0, 1.0))
@examples(60)
def test_balls_hold_all_that_is_near(case: Case, way: Way, share: float) -> None:
    weight = own_weights(case)
    pairs = np.abs(weight[np.triu_indices(len(weight), 1)])
    finite = pairs[np.isfinite(pairs)]
    eps = float(np.quantile(finite, share, method="nearest")) if len(finite) else 1.0  # one is exactly at the border
    with computed(way) as graphs:
        frame = quiet(graphs.eps_graph, case.given, eps, case.metric)
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
    with computed(way) as graphs:
        found = edges_of(quiet(graphs.eps_graph, values, eps, metric))
    assert set(found) == {(i, j) for i, j in np.argwhere(np.triu(expected)).tolist()}
    for pair, weight in found.items():
        assert weight == pytest.approx(far[pair], rel=1e-9)


@pytest.mark.parametrize("way", [TREE, PRODUCTS], ids=["tree", "products"])
def test_balls_are_those_of_a_tree(way: Way) -> None:
    values = np.random.default_rng(5).random((400, 3))
    expected = cKDTree(values).query_pairs(0.1)
    with computed(way) as graphs:
        assert set(edges_of(quiet(graphs.eps_graph, values, 0.1))) == expected


@pytest.mark.parametrize("way", [TREE, PRODUCTS], ids=["tree", "products"])
def test_ball_of_radius_zero_holds_copies(way: Way) -> None:
    values = drawn("copies", 40, 3, 0)
    expected = {(i, j) for i in range(40) for j in range(i + 1, 40) if (values[i] == values[j]).all()}
    with computed(way) as graphs:
        assert set(edges_of(quiet(graphs.eps_graph, values, 0))) == expected


# All pairs


@given(cases())
@examples(30)
def test_all_pairs_weigh_what_they_should(case: Case) -> None:
    weight, error = truth(case.exact, case.metric)
    with computed(MANY) as graphs:
        frame = quiet(graphs.complete_graph, case.given, case.metric)
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
    """Whether two labellings give the same clusters."""
    table = contingency_matrix(one, other)
    return bool(((table > 0).sum(axis=0) == 1).all() and ((table > 0).sum(axis=1) == 1).all())


SETS, APART = 20, 1e4


@given(st.sampled_from([1, 2, 5]), st.integers(0, 2**32 - 1), st.floats(0.02, 3.0), st.sampled_from(DISTANCES), ways)
@examples(25)
def test_balls_give_complete_linkage_up_to_their_radius(d: int, seed: int, eps: float, metric: str, way: Way) -> None:
    """Cluster many sets at a time, so far apart that they do not interact."""
    rng = np.random.default_rng(seed)
    sets = [rng.standard_normal((int(n), d)) for n in rng.integers(1, 15, SETS)]
    ends = np.append(0, np.cumsum([len(one) for one in sets]))
    values = np.column_stack([np.concatenate(sets), np.repeat(APART * np.arange(SETS), np.diff(ends))])
    with computed(
        replace(way, most_rows=131_072, near_rows=max(40, way.near_rows), file_edges=max(100, way.file_edges))
    ) as graphs:
        frame = quiet(graphs.eps_graph, values, eps, metric)
        found = dask_rac.cluster(frame, linkage="complete", missing="infinite", n_nodes=frame.attrs["n_nodes"])
    trees = [linkage(far_apart(one, metric), "complete") for one in sets if len(one) > 1]
    heights = np.concatenate([tree[:, 2] for tree in trees])
    np.testing.assert_allclose(np.sort(found.merges["height"]), np.sort(heights[heights <= eps]), rtol=1e-9)
    for height in (eps, 0.9 * eps, 0.5 * eps, 0.1 * eps):
        labels = np.split(np.asarray(found.cut(height=height)), ends[1:-1])
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


@pytest.mark.parametrize("sparse", [False, True])
def test_all_forms_give_the_same_bytes(sparse: bool, tmp_path: Path) -> None:
    values = drawn("zeros", 50, 5, 3).astype(np.float32)
    values[~values.any(axis=1), 0] = 1
    given = sparse_forms(tmp_path, sp.csr_array(values)) if sparse else forms(tmp_path, values)
    with computed(Way(most_rows=9, file_edges=60)) as graphs:
        requests: list[tuple[Any, dict[str, Any]]] = [
            (graphs.knn_graph, {"k": 4}),
            (graphs.eps_graph, {"eps": 0.5, "metric": "cosine"}),
        ]
        for number, (function, options) in enumerate(requests):
            stores = {name: tmp_path / f"{name}-{number}" for name in given}
            for name, form in given.items():
                quiet(function, form, store=stores[name], **options)
            one, *others = [written(store) for store in stores.values()]
            assert len(one) > 1
            assert all(other == one for other in others)


# Scales that differ from span to span


def uneven(scales: Sequence[float], d: int = 3, rows: int = 24, seed: int = 0) -> NDArray[np.float64]:
    """Return spans of vectors of one magnitude each, centred exactly at 0."""
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
        with computed(way) as graphs:
            found = edges_of(quiet(graphs.knn_graph, case.given, 3, metric))
            assert set(found) == ranked(weight, 3, "union"), way
            eps = float(np.sort(np.abs(weight), axis=None)[len(values)])
            near = edges_of(quiet(graphs.eps_graph, case.given, eps, metric))
            sign = -1.0 if metric == "inner_product" else 1.0
            assert set(near) == {(i, j) for i, j in np.argwhere(weight <= sign * eps).tolist() if i < j}, way


@pytest.mark.parametrize("metric", DISTANCES)
@pytest.mark.parametrize("scale", [1e8, 1e11, 1e14])
@pytest.mark.parametrize("double", [False, True])
def test_far_vectors_see_ties_that_rounding_makes(metric: str, scale: float, double: bool) -> None:
    """From far away many vectors are equally far in float64: the smallest ids are nearest, however they are found."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.standard_normal((400, 3)), scale * np.array([[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]])])
    values[:400] *= 1e-3
    case = Case("far", values, values, metric, 4, "union")
    expected = ranked(own_weights(case), 4, "union")
    for way in (TREE, Way(most_rows=140)):
        with computed(replace(way, double=double)) as graphs:
            assert set(edges_of(quiet(graphs.knn_graph, values, 4, metric))) == expected, way


def test_tiny_differences_beside_copies() -> None:
    """Numbers whose squared difference underflows are not copies where differences are not squared."""
    values = np.column_stack([np.tile([1e-170, 0.0], 30), np.ones(60)])
    case = Case("nearly copies", values, values, "manhattan", 3, "union")
    expected = ranked(own_weights(case), 3, "union")
    for way in (TREE, PRODUCTS):
        with computed(way) as graphs:
            assert set(edges_of(quiet(graphs.knn_graph, values, 3, "manhattan"))) == expected, way


# Components, isolated vectors, negative similarities


def pieces(frame: pd.DataFrame, n: int) -> tuple[int, int]:
    """Return the number of components, and the size of the largest, by scipy."""
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
    with computed(way) as graphs:
        for function, options in (
            (graphs.knn_graph, {"k": min(2, n - 1), "mode": case.mode}),
            (graphs.eps_graph, {"eps": float(np.quantile(far, 0.05))}),
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
    with computed(way) as graphs:
        for function, options, wanted in (
            (graphs.knn_graph, {"k": case.k, "mode": case.mode}, ranked(weight, case.k, case.mode)),
            (graphs.complete_graph, {}, pairs),
            (graphs.eps_graph, {"eps": eps}, {pair for pair in pairs if weight[pair] <= -eps}),
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
            dropping = [text for text in texts if "negative inner product" in text]
            assert [text.partition(" ")[0] for text in dropping] == ([f"{dropped:,}"] if dropped else [])


# Attributes


def test_attributes_say_how() -> None:
    values = drawn("normal", 60, 3, 0)
    with computed(TREE) as graphs:
        assert graphs.knn_graph(values, 6).attrs["graph"]["method"] == "tree"
    with computed(PRODUCTS) as graphs:
        frame = graphs.knn_graph(values, 6)
        assert frame.attrs["graph"]["method"] == "products"
    facts = frame.attrs["graph"]
    assert (facts["kind"], facts["metric"], facts["nodes"], facts["edges"]) == ("knn", "euclidean", 60, len(frame))
    assert (facts["recall"], facts["dropped"]) == (None, 0)
    assert facts["seconds"] > 0


def test_nothing_is_left_in_the_temporary_folder() -> None:
    with tempfile.TemporaryDirectory() as place, dask.config.set(temporary_directory=place):
        dask_rac.knn_graph(drawn("normal", 30, 3, 0), 6)
        assert os.listdir(place) == []
