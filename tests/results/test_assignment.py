"""New points join the nearest flat cluster, by the distance of the linkage."""

from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

import dask_rac
from dask_rac import InputError
from dask_rac.vectors.assign.contract import AssignLimits
from tests.support.effort import examples

pytestmark = pytest.mark.filterwarnings("ignore:one cluster holds")

LINKAGES = ("single", "complete", "average", "weighted", "ward")
METRICS = ("euclidean", "sqeuclidean", "cosine", "manhattan", "inner_product")
WAYS = [(linkage, metric) for linkage in LINKAGES for metric in METRICS if linkage != "ward" or metric == "euclidean"]


def weights(new: NDArray[Any], old: NDArray[Any], metric: str) -> NDArray[np.float64]:
    """The distances by scipy; similarities are negated."""
    names: dict[str, Any] = {"manhattan": "cityblock"}
    new, old = new.astype(np.float64), old.astype(np.float64)
    by_scipy = cdist(new, old, names.get(metric, metric)) if metric != "inner_product" else -(new @ old.T)
    return np.asarray(by_scipy, np.float64)


def depths(clustering: dask_rac.Clustering, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many merges within its flat cluster each node goes through, counted merge by merge."""
    depth, inside = np.zeros(len(labels), np.int64), {node: [node] for node in range(len(labels))}
    for left, right in pd.DataFrame(clustering._parts().__next__())[["left", "right"]].to_numpy().tolist():
        inside[left] = inside[left] + inside.pop(right)
        if labels[left] == labels[right]:
            depth[inside[left]] += 1
    return depth


def linkage_table(
    clustering: dask_rac.Clustering, labels: NDArray[np.int64], new: Any, old: Any, linkage: str, metric: str
) -> NDArray[np.float64]:
    """W of every new point and every cluster, from the definition of the linkage."""
    apart, columns = weights(new, old, metric), []
    share = 0.5 ** depths(clustering, labels) if linkage == "weighted" else np.empty(0)
    for label in range(labels.max() + 1):
        inside = labels == label
        part, size = apart[:, inside], int(inside.sum())
        if linkage == "ward":
            centre = old[inside].astype(np.float64).mean(axis=0)
            columns.append(np.sqrt(2 * size / (size + 1)) * np.linalg.norm(new - centre, axis=1))
        elif linkage == "weighted":
            columns.append(part @ share[inside])
        else:
            fold: Any = {"single": np.min, "complete": np.max, "average": np.mean}[linkage]
            columns.append(fold(part, axis=1))
    return np.column_stack(columns)


def check(clustering: dask_rac.Clustering, new: Any, old: Any, count: int, linkage: str, metric: str) -> None:
    labels = clustering.cut(n_clusters=count)
    table = linkage_table(clustering, labels, new, old, linkage, metric)
    found, distance = clustering.assign(new, n_clusters=count, return_distance=True)
    sign = -1 if metric == "inner_product" else 1
    scale = max(1.0, np.abs(table).max())
    chosen = table[np.arange(len(found)), found]
    assert found.dtype == np.int64
    np.testing.assert_allclose(sign * distance, table.min(axis=1), rtol=1e-12, atol=1e-7 * (metric == "cosine"))
    np.testing.assert_allclose(chosen, table.min(axis=1), rtol=1e-9, atol=1e-9 * scale)
    if linkage in ("single", "complete") and metric in ("sqeuclidean", "manhattan", "inner_product"):
        assert found.tolist() == table.argmin(axis=1).tolist()  # whole numbers: ties are exact


@pytest.mark.kernels
@pytest.mark.parametrize(("linkage", "metric"), WAYS)
@given(data=st.data())
@examples(12)
def test_the_nearest_cluster_by_the_definition_of_the_linkage(linkage: str, metric: str, data: st.DataObject) -> None:
    nodes, new, dimensions = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 6)), data.draw(st.integers(1, 5))
    values = st.integers(1 if metric == "cosine" else 0, 4)
    rows = st.lists(values, min_size=(nodes + new) * dimensions, max_size=(nodes + new) * dimensions)
    kind = data.draw(st.sampled_from(["float64", "float32", "uint8"]))
    both = np.array(data.draw(rows), kind).reshape(nodes + new, dimensions)
    kinds = "similarity" if metric == "inner_product" else "distance"
    clustering = dask_rac.cluster(both[:nodes], linkage, metric=metric, weights=kinds)
    count = data.draw(st.integers(clustering.n_trees, nodes))
    check(clustering, both[nodes:], both[:nodes], count, linkage, metric)


@pytest.mark.parametrize(("linkage", "metric"), WAYS)
def test_batches_and_threads_do_not_show(linkage: str, metric: str) -> None:
    rng = np.random.default_rng(3)
    old, new = rng.gamma(2.0, size=(120, 6)), rng.gamma(2.0, size=(45, 6))
    kinds = "similarity" if metric == "inner_product" else "distance"
    clustering = dask_rac.cluster(old, linkage, metric=metric, weights=kinds)
    whole = clustering.assign(new, n_clusters=7, return_distance=True)
    check(clustering, new, old, 7, linkage, metric)
    clustering._assign_limits = AssignLimits(table_values=100, block_values=60)
    for threads in (1, 3):
        with dask.config.set(num_workers=threads):
            parts = clustering.assign(new, n_clusters=7, return_distance=True)
        assert [part.tolist() for part in parts] == [part.tolist() for part in whole]


@pytest.mark.kernels
@pytest.mark.parametrize("linkage", LINKAGES)
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine", "inner_product"])
def test_sparse_vectors_give_what_dense_ones_give(linkage: str, metric: str) -> None:
    if linkage == "ward" and metric != "euclidean":
        return
    rng = np.random.default_rng(4)
    both = rng.integers(0, 4, size=(60, 8)) * (rng.random((60, 8)) < 0.5) + np.eye(60, 8)
    kinds = "similarity" if metric == "inner_product" else "distance"
    labels = dask_rac.cluster(both[:45], linkage, metric=metric, weights=kinds).cut(n_clusters=6)
    dense = dask_rac.cluster(both[:45], linkage, metric=metric, weights=kinds)
    sparse = dask_rac.cluster(sp.csr_array(both[:45]), linkage, metric=metric, weights=kinds)
    given_labels = None if linkage in ("weighted", "ward") else labels
    count = 6 if given_labels is None else None
    _, expected = dense.assign(both[45:], n_clusters=count, labels=given_labels, return_distance=True)
    _, distance = sparse.assign(sp.csr_array(both[45:]), n_clusters=count, labels=given_labels, return_distance=True)
    np.testing.assert_allclose(distance, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.kernels
@pytest.mark.parametrize("linkage", LINKAGES)
def test_distances_that_are_given(linkage: str) -> None:
    rng = np.random.default_rng(5)
    old, new = rng.normal(size=(40, 3)), rng.normal(size=(12, 3))
    by_vectors = dask_rac.cluster(old, linkage)
    by_distances = dask_rac.cluster(cdist(old, old), linkage, metric="precomputed")
    expected = by_vectors.assign(new, n_clusters=5, return_distance=True)
    found = by_distances.assign(cdist(new, old), n_clusters=5, return_distance=True)
    assert found[0].tolist() == expected[0].tolist()
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-9)


@pytest.mark.parametrize("linkage", LINKAGES)
def test_in_a_store_as_in_memory(linkage: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    old, new = rng.normal(size=(80, 3)), rng.normal(size=(20, 3))
    np.save(tmp_path / "old.npy", old)
    np.save(tmp_path / "new.npy", new)
    expected = dask_rac.cluster(old, linkage).assign(new, n_clusters=6, return_distance=True)
    dask_rac.cluster(tmp_path / "old.npy", linkage, store=tmp_path / "run")
    stored = dask_rac.open(tmp_path / "run")
    for given_new in (new, tmp_path / "new.npy", pd.DataFrame(new), da.from_array(new, chunks=7)):
        found = stored.assign(given_new, n_clusters=6, return_distance=True)
        assert [part.tolist() for part in found] == [part.tolist() for part in expected]
    np.save(tmp_path / "old.npy", old[:70])
    with pytest.raises(InputError, match="has changed since the run began"):
        stored.assign(new, n_clusters=6)
    found = stored.assign(new, n_clusters=6, points=old, return_distance=True)
    assert [part.tolist() for part in found] == [part.tolist() for part in expected]


def test_vectors_in_memory_are_not_kept_by_a_store(tmp_path: Path) -> None:
    old = np.random.default_rng(7).normal(size=(30, 3))
    stored = dask_rac.cluster(old, store=tmp_path / "run")
    with pytest.raises(InputError, match="not known: give them with points="):
        stored.assign(old, n_clusters=3)
    assert len(stored.assign(old, n_clusters=3, points=old)) == 30


def test_a_graph_of_vectors_knows_them_in_this_process(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    old, new = rng.normal(size=(80, 3)), rng.normal(size=(20, 3))
    found = dask_rac.cluster(old, graph={"k": 5, "metric": "cosine"})
    edges = dask_rac.cluster(dask_rac.knn_graph(old, 5, "cosine"))
    count = found.n_trees + 4
    labels = found.assign(new, n_clusters=count)
    assert labels.tolist() == edges.assign(new, n_clusters=count, points=old, metric="cosine").tolist()
    assert labels.tolist() == weighed(found.cut(n_clusters=count), weights(new, old, "cosine")).tolist()
    stored = dask_rac.cluster(old, graph={"k": 5, "metric": "cosine"}, store=tmp_path / "run")
    assert labels.tolist() == stored.assign(new, n_clusters=count).tolist()
    with pytest.raises(InputError, match="made of edges and has no metric: give metric="):
        dask_rac.open(tmp_path / "run").assign(new, n_clusters=count)
    with pytest.raises(InputError, match="metric='manhattan', but the clustering was made with 'cosine'"):
        found.assign(new, n_clusters=count, metric="manhattan")


def weighed(labels: NDArray[np.int64], apart: NDArray[np.float64]) -> NDArray[np.int64]:
    """The cluster whose members are nearest on average."""
    means = np.column_stack([apart[:, labels == label].mean(axis=1) for label in range(labels.max() + 1)])
    found: NDArray[np.int64] = means.argmin(axis=1)
    return found


def test_by_height_by_labels_and_too_far() -> None:
    old, new = np.array([[0.0], [1.0], [10.0], [11.0]]), np.array([[0.4], [10.4], [100.0]])
    found = dask_rac.cluster(old, "average")
    assert found.assign(new, height=2.0).tolist() == [0, 1, 1]
    assert found.assign(new, height=2.0, max_height=5.0).tolist() == [0, 1, -1]
    assert found.assign(new, labels=[7, 7, -1, 3]).tolist() == [7, 3, 3]
    assert found.assign(np.array([[5.5]]), height=2.0).tolist() == [0]  # a tie: the smallest label
    likeness = dask_rac.cluster(old, "single", metric="inner_product", weights="similarity")
    labels, similarity = likeness.assign(new, n_clusters=2, max_height=5.0, return_distance=True)
    assert labels.tolist() == [-1, labels[1], labels[2]]
    np.testing.assert_allclose(similarity, [4.4, 114.4, 1100.0])


def test_each_point_of_a_clustering_by_single_linkage_is_in_its_own_cluster() -> None:
    rng = np.random.default_rng(9)
    old = rng.normal(size=(200, 2))
    found = dask_rac.cluster(old, "single")
    for count in (2, 20, 150):
        assert found.assign(old, n_clusters=count).tolist() == found.cut(n_clusters=count).tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of height=, n_clusters= and labels="),
        ({"height": 1.0, "n_clusters": 2}, "exactly one of height=, n_clusters= and labels="),
        ({"height": [1.0, 2.0]}, r"height=\[1.0, 2.0\] is not a number"),
        ({"n_clusters": 2.5}, "n_clusters=2.5 is not a whole number"),
        ({"n_clusters": 99}, "n_clusters=99 is not possible"),
        ({"labels": [0, 1]}, r"labels= has shape \(2,\)"),
        ({"labels": [-1] * 9}, "labels= has no cluster"),
        ({"labels": [0, 1] * 4 + [0]}, "labels= are not clusters of this tree, and ward linkage"),
        ({"n_clusters": 2, "max_height": "far"}, "max_height='far' is not a number"),
        ({"n_clusters": 2, "metric": "cosine"}, "metric='cosine', but the clustering was made with 'euclidean'"),
        ({"n_clusters": 2, "points": np.ones((3, 2))}, "points= has 3 vectors, and the clustering has 9 nodes"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    found = dask_rac.cluster(np.random.default_rng(1).normal(size=(9, 2)), "ward")
    with pytest.raises(InputError, match=message):
        found.assign(np.ones((2, 2)), **options)


def test_vectors_that_cannot_be_compared() -> None:
    old = np.random.default_rng(1).normal(size=(9, 2))
    found = dask_rac.cluster(old, metric="cosine")
    for new, message in (
        (np.ones((2, 3)), "3 dimensions, and the vectors that were clustered have 2"),
        (sp.csr_array(np.ones((2, 2))), "are sparse, and the vectors that were clustered are dense: use toarray"),
        (np.array([[1.0, np.nan]]), "row 0 has nan in dimension 1"),
        (np.zeros((1, 2)), "row 0 is all zeros and has no direction"),
        (np.ones(2), "vectors must be the rows of a 2-dimensional array"),
        ("nowhere.npy", "nowhere.npy does not exist"),
    ):
        with pytest.raises(InputError, match=message):
            found.assign(new, n_clusters=2)
    with pytest.raises(InputError, match="the vectors that were clustered: row 0 has nan"):
        found.assign(old, n_clusters=2, points=np.full((9, 2), np.nan))


def test_given_distances_that_are_none() -> None:
    old = np.random.default_rng(1).normal(size=(9, 2))
    found = dask_rac.cluster(cdist(old, old), metric="precomputed")
    for new, message in (
        (np.ones((2, 8)), r"shape of the distances is \(2, 8\): give one row for each new point and one column"),
        (np.ones((0, 9)), "there are no rows in the distances"),
        (np.full((2, 9), -1.0), "row 0, column 0 of the distances is -1, which is not a distance"),
    ):
        with pytest.raises(InputError, match=message):
            found.assign(new, n_clusters=2)
    with pytest.raises(InputError, match="points= is for vectors"):
        found.assign(np.ones((2, 9)), n_clusters=2, points=old)


def test_labels_may_be_in_any_order_if_they_have_names() -> None:
    points = np.random.default_rng(0).normal(size=(60, 3))
    tree = dask_rac.cluster(points, names=[f"n{node}" for node in range(60)])
    labels, new = tree.cut(n_clusters=5), points[:20] + 0.01
    expected = tree.assign(new, n_clusters=5)
    np.testing.assert_array_equal(tree.assign(new, labels=labels.sample(frac=1, random_state=0)), expected)
    with pytest.raises(InputError, match="must hold the name of each node once"):
        tree.assign(new, labels=labels.rename({"n3": "n4"}))
