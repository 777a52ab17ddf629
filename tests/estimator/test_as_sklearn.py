"""What scikit-learn asks of its own hierarchical clustering, asked of RAC: trees, metrics, graphs, thresholds."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cut_tree, fcluster, linkage
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering
from sklearn.datasets import make_circles, make_moons
from sklearn.feature_extraction.image import grid_to_graph
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import PAIRED_DISTANCES, cosine_distances, manhattan_distances
from sklearn.neighbors import kneighbors_graph

import dask_rac
from dask_rac import RAC
from tests.support.effort import examples
from tests.support.estimators import Samples, same_partition, same_tree, samples, scikit

pytestmark = pytest.mark.filterwarnings("ignore:one cluster holds")  # most samples here are noise, without clusters

THEIRS = ("ward", "complete", "average", "single")
OURS = (*THEIRS, "weighted")
ALONG_GRAPHS = ("complete", "average", "single")
GRID = grid_to_graph(10, 10)  # 100 samples, each joined to those beside it

each_linkage = pytest.mark.parametrize("method", OURS)
each_of_theirs = pytest.mark.parametrize("method", THEIRS)
each_along_graphs = pytest.mark.parametrize("method", ALONG_GRAPHS)


def spread(seed: int) -> Samples:
    """Return ten points far apart along a line that is not an axis, with some noise."""
    line: Samples = np.outer(np.arange(10), [4.0, -1.0, 2.0, 0.5, -3.0])
    return line + 0.1 * samples(10, 5, seed)


def check_whole(fitted: RAC, n: int) -> None:
    """Raise unless a tree has every sample and every merge but the last as a child, once, and heights that rise."""
    assert fitted.n_leaves_ == n
    assert fitted.children_.shape == (n - 1, 2)
    assert sorted(fitted.children_.ravel().tolist()) == list(range(2 * n - 2))
    assert np.all(fitted.children_ < n + np.arange(n - 1)[:, None])
    assert np.all(np.diff(fitted.distances_) >= 0)
    assert fitted.children_.dtype == np.intp
    assert fitted.distances_.dtype == np.float64


# Trees


@each_linkage
@pytest.mark.parametrize("features", [1, 50])
def test_a_tree_of_all_pairs_is_whole(method: str, features: int) -> None:
    fitted = RAC(10, linkage=method).fit(samples(100, features))
    check_whole(fitted, 100)
    assert fitted.n_connected_components_ == 1


@each_along_graphs
def test_a_tree_along_a_grid_is_whole(method: str) -> None:
    points = samples(100, 50)
    wanted = RAC(10, linkage=method, connectivity=GRID)
    check_whole(wanted.fit(points), 100)
    assert len(np.unique(wanted.labels_)) == 10
    with pytest.raises(ValueError, match=r"connectivity has shape \(4, 4\)"):
        clone(wanted).set_params(connectivity=np.ones((4, 4))).fit(points)
    with pytest.raises(ValueError, match="connectivity has shape"):
        clone(wanted).set_params(connectivity=sp.lil_array(GRID.toarray()[:10, :10])).fit(points)
    with pytest.raises(ValueError, match="minimum of 2"):
        wanted.fit(points[:0])


@each_linkage
@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_samples_are_refused(method: str, n: int) -> None:
    with pytest.raises(ValueError, match=f"{n} sample"):
        RAC(1, linkage=method).fit(samples(5)[:n])


@given(st.integers(0, 10**6), st.sampled_from(OURS))
@examples(40)
def test_children_heights_and_cuts_are_scipys(seed: int, method: Any) -> None:
    points = spread(seed)
    expected = linkage(points, method)
    fitted = RAC(3, linkage=method).fit(points)
    assert np.array_equal(fitted.children_, expected[:, :2])
    np.testing.assert_allclose(fitted.distances_, expected[:, 2], rtol=1e-9)
    assert same_partition(fitted.labels_, fcluster(expected, 3, "maxclust"))
    for count in range(1, 11):
        cut = RAC(count, linkage=method).fit_predict(points)
        assert same_partition(cut, cut_tree(expected, [count])[:, 0])


@pytest.mark.parametrize("seed", range(5))
@each_along_graphs
def test_all_pairs_as_connectivity_give_the_children_of_no_connectivity(method: str, seed: int) -> None:
    points = spread(seed)
    along = RAC(3, linkage=method, connectivity=np.ones((10, 10))).fit(points)
    without = RAC(3, linkage=method).fit(points)
    assert np.array_equal(along.children_, without.children_)
    np.testing.assert_allclose(along.distances_, without.distances_, rtol=1e-12)


@each_of_theirs
def test_the_defaults_beside_the_linkage_are_those_of_scikit_learn(method: str) -> None:
    points = samples(300, 8)
    ours, theirs = RAC(linkage=method).fit(points), AgglomerativeClustering(linkage=method).fit(points)
    assert ours.n_clusters_ == theirs.n_clusters_ == 2
    assert same_partition(ours.labels_, theirs.labels_)
    assert ours.labels_.dtype.kind == "i"


def test_without_parameters_the_clusters_are_those_of_scikit_learn() -> None:
    for seed, n in product(range(3), (2, 3, 50, 400)):
        points = samples(n, 6, seed)
        ours, theirs = RAC().fit(points), AgglomerativeClustering(compute_distances=True).fit(points)
        assert same_partition(ours.labels_, theirs.labels_)
        assert np.array_equal(ours.children_, np.sort(theirs.children_))
        np.testing.assert_allclose(ours.distances_, theirs.distances_, rtol=1e-9)


def test_more_samples_than_one_thread_takes_alone() -> None:
    points = samples(1500, 4)
    for method in THEIRS:
        ours, theirs = RAC(20, linkage=method).fit(points), scikit(method, n_clusters=20).fit(points)
        np.testing.assert_allclose(ours.distances_, theirs.distances_, rtol=1e-9)
        assert same_partition(ours.labels_, theirs.labels_)


# Metrics


# By these names scikit-learn's single linkage refuses to choose V, or takes absolute values first.
OTHERS = ("seuclidean", "mahalanobis", "braycurtis")
SCIPYS = ("canberra", "chebyshev", "correlation", "minkowski", "sqeuclidean", *OTHERS)


@pytest.mark.parametrize("metric", ["euclidean", "l2", "l1", "manhattan", "cityblock", "cosine", *SCIPYS])
@pytest.mark.parametrize("method", ALONG_GRAPHS)
def test_every_metric_gives_scikit_learns_clusters(method: str, metric: str) -> None:
    points = samples(60, 5) + 3
    ours = RAC(5, linkage=method, metric=metric).fit(points)
    named = metric not in OTHERS or method != "single"
    compared = metric if named else lambda x: pairwise_distances(x, metric=metric)
    theirs = scikit(method, n_clusters=5, metric=compared).fit(points)
    np.testing.assert_allclose(ours.distances_, theirs.distances_, rtol=1e-9, atol=1e-12)
    assert same_partition(ours.labels_, theirs.labels_)


@pytest.mark.parametrize("metric", ["jaccard", "dice", "hamming", "russellrao"])
def test_distances_of_sets_are_scipys(metric: Any) -> None:
    points = np.random.default_rng(0).random((30, 200)) < 0.3
    expected = linkage(points, "single", metric)[:, 2]  # whatever the order of ties
    for form in (points, points.astype(int), 1.0 * points):
        np.testing.assert_allclose(RAC(linkage="single", metric=metric).fit(form).distances_, expected)


@pytest.mark.parametrize("metric", PAIRED_DISTANCES)
def test_metrics_along_all_pairs_and_without_a_graph_agree(metric: str) -> None:
    points = samples(100, 50)
    along = RAC(10, linkage="complete", metric=metric, connectivity=np.ones((100, 100))).fit(points)
    without = RAC(10, linkage="complete", metric=metric).fit(points)
    assert same_partition(along.labels_, without.labels_)
    assert np.array_equal(along.children_, without.children_)


@pytest.mark.parametrize("method", [*ALONG_GRAPHS, "weighted"])
def test_functions_and_matrices_give_the_tree_of_the_metric_they_compute(method: str) -> None:
    points = samples(40, 5)
    for name, function in (("cosine", cosine_distances), ("manhattan", manhattan_distances)):
        named = RAC(4, linkage=method, metric=name).fit(points)
        for metric, held in ((function, points), ("precomputed", function(points))):
            other = RAC(4, linkage=method, metric=metric).fit(held)
            assert np.array_equal(named.children_, other.children_)
            np.testing.assert_allclose(named.distances_, other.distances_, rtol=1e-9)


def test_a_function_is_called_once_with_the_samples() -> None:
    points, calls = samples(10), []

    def metric(x: Samples) -> Samples:
        calls.append(x)
        return pairwise_distances(x)  # type: ignore[no-any-return]

    RAC(linkage="complete", metric=metric).fit(points)
    assert [np.array_equal(x, points) for x in calls] == [True]


@each_along_graphs
def test_cosines_do_not_see_how_long_samples_are(method: str) -> None:
    points = samples(50, 4)
    longer = points * np.random.default_rng(1).uniform(1e-3, 1e3, (50, 1))
    plain, scaled = (RAC(5, linkage=method, metric="cosine").fit(x) for x in (points, longer))
    assert np.array_equal(plain.children_, scaled.children_)
    np.testing.assert_allclose(plain.distances_, scaled.distances_, rtol=1e-9)


@each_of_theirs
@pytest.mark.parametrize("factor", [1e-150, 1e-8, 1e8])
def test_small_and_large_distances_give_the_same_tree(method: str, factor: float) -> None:
    points = samples(50, 4)
    plain, scaled = (RAC(5, linkage=method).fit(x) for x in (points, factor * points))
    assert np.array_equal(plain.children_, scaled.children_)
    np.testing.assert_allclose(factor * plain.distances_, scaled.distances_, rtol=1e-9)


@each_of_theirs
def test_far_from_the_origin_distances_lose_nothing_to_cancellation(method: str) -> None:
    points = np.round(samples(50, 4), 6)
    moved = points + 2.0**20
    expected = scikit(method, n_clusters=5).fit(moved - 2.0**20)
    fitted = RAC(5, linkage=method).fit(moved)
    np.testing.assert_allclose(fitted.distances_, expected.distances_, rtol=1e-9)
    assert same_partition(fitted.labels_, expected.labels_)


def test_ward_refuses_every_metric_that_is_not_euclidean() -> None:
    points = samples(100, 50)
    for metric in ("manhattan", "cosine", "sqeuclidean", "precomputed", manhattan_distances):
        held = pairwise_distances(points) if metric == "precomputed" else points
        with pytest.raises(ValueError, match="linkage='ward', the default"):
            RAC(metric=metric).fit(held)
        with pytest.raises(ValueError, match="Ward can only"):
            AgglomerativeClustering(metric=metric).fit(held)
    assert same_tree(RAC(metric="l2").fit(points), RAC().fit(points))


# Forms of samples


@each_linkage
def test_samples_may_be_mapped_from_a_file_or_not_writable(method: str, tmp_path: Path) -> None:
    points = samples(50, 10)
    np.save(tmp_path / "points.npy", points)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    fixed = points.copy()
    fixed.flags.writeable = False
    plain = RAC(3, linkage=method).fit(points)
    for form in (mapped, fixed, np.asfortranarray(points), points[::-1][::-1], points.tolist()):
        assert same_tree(plain, RAC(3, linkage=method).fit(form))


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32, bool])
def test_samples_may_be_of_any_kind_of_number(dtype: Any) -> None:
    points = np.random.default_rng(0).integers(0, 2 if dtype is bool else 200, (40, 30)).astype(dtype)
    assert same_tree(RAC().fit(points), RAC().fit(points.astype(np.float64)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_not_finite_are_refused(value: float) -> None:
    points = samples(20)
    points[7, 1] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        RAC().fit(points)


def test_distances_may_be_single_precision() -> None:
    distances = pairwise_distances(samples(40)).astype(np.float32)
    ours, theirs = (kind(3, linkage="complete", metric="precomputed") for kind in (RAC, AgglomerativeClustering))
    assert same_partition(ours.fit_predict(distances), theirs.fit_predict(distances))


# Shapes that linkages are known for, and points that are the same


@pytest.mark.parametrize(
    "made", [make_moons(noise=0.05, random_state=42), make_circles(factor=0.5, noise=0.025, random_state=42)]
)
def test_single_linkage_follows_moons_and_circles(made: tuple[Samples, Any]) -> None:
    points, truth = made
    assert same_partition(RAC(linkage="single").fit_predict(points), truth)


@each_linkage
def test_identical_points_are_one_cluster_at_height_zero(method: str) -> None:
    points = np.repeat(np.arange(3.0), 2)[:, None] * np.ones(3)
    fitted = RAC(3, linkage=method).fit(points)
    assert fitted.labels_.tolist() == [0, 0, 1, 1, 2, 2]
    assert fitted.distances_[:3].tolist() == [0.0, 0.0, 0.0]


@each_along_graphs
def test_identical_points_are_one_cluster_along_a_graph(method: str) -> None:
    points = np.repeat(np.arange(3.0), 2)[:, None] * np.ones(3)
    graph = sp.csr_array(kneighbors_graph(points, 3)) + sp.diags_array(np.ones(5), offsets=1, shape=(6, 6))
    assert RAC(3, linkage=method, connectivity=graph).fit_predict(points).tolist() == [0, 0, 1, 1, 2, 2]


@each_linkage
def test_points_that_are_all_the_same_make_a_tree(method: str) -> None:
    fitted = RAC(4, linkage=method).fit(np.full((20, 3), 0.1))
    check_whole(fitted, 20)
    assert not fitted.distances_.any()
    assert np.unique(fitted.labels_).tolist() == [0, 1, 2, 3]


@each_linkage
def test_many_nearly_identical_points_are_no_trouble(method: Any) -> None:
    points = np.repeat([[0.014, 0.12], [0.014, 0.097], [0.017, 0.153], [0.018, 0.153], [0.018, 0.149]], 6, axis=0)
    fitted = RAC(4, linkage=method).fit(points)
    check_whole(fitted, 30)
    expected = linkage(points, method)
    np.testing.assert_allclose(fitted.distances_, expected[:, 2], atol=1e-15)
    assert same_partition(fitted.labels_, fcluster(expected, 4, "maxclust"))


# Graphs


@each_along_graphs
def test_a_connectivity_may_be_a_function_and_hold_a_diagonal(method: str) -> None:
    points = samples(40, 5)
    plain = RAC(linkage=method, connectivity=kneighbors_graph(points, 8)).fit(points)
    with_self = kneighbors_graph(points, 9, include_self=True)
    for connectivity in (with_self, lambda x: kneighbors_graph(x, 8)):
        assert same_tree(plain, RAC(linkage=method, connectivity=connectivity).fit(points))


@each_along_graphs
def test_distances_along_a_grid_give_the_labels_of_samples(method: str) -> None:
    points = samples(100, 50)
    of_samples = RAC(10, linkage=method, connectivity=GRID).fit(points)
    distances = pairwise_distances(points)
    of_distances = RAC(10, linkage=method, connectivity=GRID, metric="precomputed").fit(distances)
    assert np.array_equal(of_samples.labels_, of_distances.labels_)
    assert np.array_equal(of_samples.children_, of_distances.children_)


@each_along_graphs
def test_components_are_counted_and_never_joined(method: str) -> None:
    points = samples(5, 10)
    alone = RAC(5, linkage=method, connectivity=np.eye(5))
    with pytest.warns(UserWarning, match="5 connected components"):
        alone.fit(points)
    assert (alone.n_connected_components_, alone.children_.shape) == (5, (0, 2))
    two = np.zeros((5, 5))
    two[[0, 0, 1, 3], [1, 2, 2, 4]] = 1
    for metric, held in (("euclidean", points), ("precomputed", pairwise_distances(points))):
        wanted = RAC(linkage=method, connectivity=two, metric=metric)
        with pytest.warns(UserWarning, match="2 connected components"):
            assert wanted.fit_predict(held).tolist() == [0, 0, 0, 1, 1]


@each_along_graphs
def test_the_full_tree_is_there_whatever_is_asked_for(method: str) -> None:
    points = samples(200, 2)
    graph = kneighbors_graph(points, 20)
    wanted = RAC(101, linkage=method, connectivity=graph)
    whole = wanted.fit(points)
    check_whole(whole, 200)
    for full, distances in product(("auto", True, False), (True, False)):
        other = clone(wanted).set_params(compute_full_tree=full, compute_distances=distances).fit(points)
        assert same_tree(whole, other)
        assert np.array_equal(whole.labels_, other.labels_)


@each_along_graphs
def test_a_cache_gives_the_same_clusters(method: str, tmp_path: Path) -> None:
    points = samples(100, 50)
    for connectivity in (GRID, None):
        wanted = RAC(10, linkage=method, connectivity=connectivity)
        expected = wanted.fit_predict(points)
        for _ in range(2):
            assert np.array_equal(clone(wanted).set_params(memory=str(tmp_path)).fit_predict(points), expected)


# Thresholds


@pytest.mark.parametrize(
    ("method", "connectivity"),
    [*product(OURS, [None]), *product(ALONG_GRAPHS, [GRID])],
    ids=lambda value: str(value)[:8],
)
def test_a_threshold_leaves_the_merges_below_it(method: str, connectivity: Any) -> None:
    points = samples(100, 50)
    more: dict[str, Any] = {"linkage": method, "connectivity": connectivity, "missing": "ignore"}  # "far" gives ties
    whole = RAC(1, **more).fit(points)
    for low, high in list(pairwise(whole.distances_))[::9]:
        threshold = (low + high) / 2
        cut = RAC(None, distance_threshold=threshold, **more).fit(points)
        assert cut.n_clusters_ == np.count_nonzero(whole.distances_ >= threshold) + 1 == len(np.unique(cut.labels_))
        assert same_tree(whole, cut)
        assert same_partition(cut.labels_, fcluster(whole.clustering_.to_scipy(), threshold, "distance"))


@pytest.mark.parametrize(("threshold", "clusters"), [(0.0, 2), (0.5, 2), (1.0, 2), (1.5, 1)])
@each_linkage
def test_two_samples_at_distance_one(method: str, threshold: float, clusters: int) -> None:
    fitted = RAC(n_clusters=None, distance_threshold=threshold, linkage=method).fit([[0], [1]])
    assert fitted.n_clusters_ == clusters
    assert fitted.distances_.tolist() == [1.0]


@pytest.mark.parametrize("seed", range(3))
def test_single_linkage_separates_by_the_threshold(seed: int) -> None:
    points = np.random.default_rng(seed).integers(-10, 10, (100, 3))
    labels = RAC(n_clusters=None, distance_threshold=4, linkage="single").fit_predict(points)
    distances = pairwise_distances(points)
    np.fill_diagonal(distances, np.inf)
    together = labels[:, None] == labels
    assert np.where(together, np.inf, distances).min() >= 4
    company = together.sum(axis=1) > 1
    assert np.where(together, distances, np.inf).min(axis=1)[company].max() < 4


def test_a_small_threshold_leaves_every_sample_alone() -> None:
    points = np.arange(30).reshape(10, 3) * 7
    for method in OURS:
        fitted = RAC(n_clusters=None, distance_threshold=1.0, linkage=method).fit(points)
        assert fitted.labels_.tolist() == list(range(10))


# What is refused


@pytest.mark.parametrize(
    "more",
    [
        {"n_clusters": None},
        {"n_clusters": 2, "distance_threshold": 1.0},
        {"n_clusters": None, "distance_threshold": 1.0, "compute_full_tree": False},
        {"n_clusters": 0},
        {"n_clusters": 11},
        {"n_clusters": None, "distance_threshold": -1.0},
        {"linkage": "foo"},
        {"metric": "foo", "linkage": "average"},
        {"metric": "precomputed", "linkage": "complete"},
    ],
)
def test_what_scikit_learn_refuses_is_refused(more: dict[str, Any]) -> None:
    points = samples(10, 3)
    with pytest.raises(ValueError):  # noqa: PT011 - in other words
        AgglomerativeClustering(**more).fit(points)
    with pytest.raises(dask_rac.InputError if more.get("metric") != "foo" else ValueError):
        RAC(**more).fit(points)
