"""RAC meets scikit-learn's rules for estimators, and agrees with AgglomerativeClustering wherever the two can agree."""

from __future__ import annotations

import doctest
import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering
from sklearn.datasets import make_blobs
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.model_selection import ParameterGrid
from sklearn.neighbors import kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_memory

import dask_rac
from dask_rac import RAC
from dask_rac.estimator import tree
from tests.support.effort import examples
from tests.support.estimators import Samples, same_partition, same_tree, samples, scikit
from tests.support.root import ROOT
from tests.support.strategies import LINKAGES

DOCS = ROOT / "docs"

pytestmark = pytest.mark.filterwarnings("ignore:one cluster holds")  # most samples here are noise, without clusters


# What scikit-learn requires of every estimator


SETS_CLUSTERS = (
    "check_clustering",
    "check_dont_overwrite_parameters",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
)


def beyond_check(wanted: RAC) -> dict[str, str]:
    """Return the checks that cannot pass, which AgglomerativeClustering fails, too."""
    if wanted.distance_threshold is not None:
        return dict.fromkeys(SETS_CLUSTERS, "the check sets n_clusters, and distance_threshold is given")
    if wanted.metric == "precomputed":
        return {"check_clustering": "the check gives samples, not distances"}
    return {}


@pytest.mark.filterwarnings("ignore:the graph has", "ignore:the sparse matrix holds all but")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        RAC(),
        RAC(linkage="single"),
        RAC(linkage="complete", metric="manhattan"),
        RAC(linkage="average"),
        RAC(linkage="weighted"),
        RAC(metric="chebyshev", linkage="average"),
        RAC(metric="precomputed", linkage="average"),
        RAC(n_neighbors=9, linkage="average"),
        RAC(n_clusters=None, distance_threshold=1.0, eps=2.0, linkage="complete", missing="infinite"),
    ],
    expected_failed_checks=beyond_check,
)
def test_scikit_learn_finds_nothing_wrong(estimator: RAC, check: Callable[[RAC], None]) -> None:
    check(estimator)


def test_every_parameter_of_agglomerative_clustering_is_there_with_its_default() -> None:
    ours, theirs = RAC().get_params(), AgglomerativeClustering().get_params()
    assert {name for name, value in theirs.items() if ours[name] != value} == set()
    kinds = {name: parameter.kind for name, parameter in inspect.signature(RAC).parameters.items()}
    assert kinds.pop("n_clusters") == inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert set(kinds.values()) == {inspect.Parameter.KEYWORD_ONLY}


def test_clones_and_pickles_and_is_told_by_its_parameters() -> None:
    wanted = RAC(5, n_neighbors=4, missing=3.5, linkage="complete")
    assert clone(wanted).get_params() == wanted.get_params()
    assert repr(wanted) == "RAC(linkage='complete', missing=3.5, n_clusters=5, n_neighbors=4)"
    fitted = RAC(3).fit(samples(30))
    back = pickle.loads(pickle.dumps(fitted))
    assert same_tree(fitted, back)
    assert np.array_equal(back.clustering_.cut(n_clusters=7), fitted.clustering_.cut(n_clusters=7))


def test_works_at_the_end_of_a_pipeline() -> None:
    points, truth = make_blobs(90, centers=3, cluster_std=0.3, random_state=0)
    found = make_pipeline(StandardScaler(), RAC(3)).fit_predict(points)
    assert same_partition(found, truth)


def test_knows_the_names_of_features() -> None:
    frame = pd.DataFrame(samples(10, 2), columns=["x", "y"])
    fitted = RAC().fit(frame)
    assert fitted.feature_names_in_.tolist() == ["x", "y"]
    assert fitted.n_features_in_ == 2


def test_the_example_of_the_docstring_is_true() -> None:
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder().find(RAC, "RAC", module=False):
        runner.run(example)
    assert (runner.failures, runner.tries) == (0, 5)


def test_without_scikit_learn_the_error_says_what_to_install() -> None:
    program = """
import sys
import numpy as np
import dask_rac
dask_rac.cluster((np.array([0]), np.array([1]), np.array([1.0])), progress=False)
dask_rac.knn_graph(np.eye(3), k=1)
assert "sklearn" not in sys.modules
sys.modules["sklearn"] = None
try:
    dask_rac.RAC
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "dask_rac.RAC needs scikit-learn" in done.stdout
    assert "pip install 'dask-rac[sklearn]'" in done.stdout


# All pairs: scikit-learn's tree


@st.composite
def repeated(draw: st.DrawFn) -> Samples:
    """Return points without ties, some repeated: ties only at height 0."""
    points = samples(draw(st.integers(2, 9)), draw(st.integers(1, 4)), draw(st.integers(0, 10**6)))
    times = draw(st.lists(st.integers(1, 3), min_size=len(points), max_size=len(points)))
    order = draw(st.permutations(range(sum(times))))
    return np.repeat(points, times, axis=0)[list(order)]


METRICS = ("euclidean", "l1", "sqeuclidean", "chebyshev")
KINDS = [("ward", "euclidean"), ("ward", "l2"), *product(LINKAGES, METRICS)]


@given(repeated(), st.sampled_from(KINDS))
@examples(60)
def test_the_tree_of_all_pairs_is_scikit_learns(points: Samples, kind: tuple[str, str]) -> None:
    linkage, metric = kind
    ours, theirs = RAC(1, linkage=linkage, metric=metric).fit(points), scikit(linkage, metric=metric).fit(points)
    assert ours.n_leaves_ == theirs.n_leaves_ == len(points)
    assert ours.n_connected_components_ == theirs.n_connected_components_ == 1
    assert ours.children_.shape == theirs.children_.shape
    np.testing.assert_allclose(ours.distances_, theirs.distances_, atol=1e-12)
    heights = np.append(ours.distances_, ours.distances_[-1] + 1)
    for low, high in pairwise(heights.tolist()):
        if high - low > 1e-6:
            cut = {"n_clusters": None, "distance_threshold": (low + high) / 2}
            ours.set_params(**cut).fit(points)
            theirs.set_params(**cut).fit(points)
            assert ours.n_clusters_ == theirs.n_clusters_
            assert same_partition(ours.labels_, theirs.labels_)


@given(st.integers(0, 10**6), st.sampled_from(["ward", *LINKAGES]))
@examples(20)
def test_children_are_those_of_scikit_learn(seed: int, linkage: str) -> None:
    points = samples(12, 2, seed)
    ours, theirs = RAC(3, linkage=linkage).fit(points), scikit(linkage, n_clusters=3).fit(points)
    assert np.array_equal(np.sort(ours.children_), np.sort(theirs.children_))
    assert same_partition(ours.labels_, theirs.labels_)


@pytest.mark.parametrize("metric", ["cosine", "correlation", manhattan_distances])
def test_other_metrics_give_scikit_learns_tree_of_all_pairs(metric: Any) -> None:
    points = samples(40, 5)
    ours, theirs = RAC(4, metric=metric, linkage="average").fit(points), scikit(metric=metric, n_clusters=4).fit(points)
    np.testing.assert_allclose(ours.distances_, theirs.distances_)
    assert same_partition(ours.labels_, theirs.labels_)


def test_labels_are_numbered_by_smallest_sample() -> None:
    points = np.array([[9.0], [0.0], [9.1], [0.1], [5.0]])
    assert RAC(3).fit_predict(points).tolist() == [0, 1, 0, 1, 2]


@pytest.mark.parametrize("threshold", [0.0, 1.0, 2.0, 4.0, 9.0])
@pytest.mark.parametrize("linkage", LINKAGES)
def test_a_merge_at_the_threshold_is_not_done_as_in_scikit_learn(linkage: str, threshold: float) -> None:
    points = np.array([[0.0], [1.0], [10.0], [12.0], [16.0], [20.0]])  # heights of 1, 2, 4 and ties among them
    for exact in (threshold, np.nextafter(threshold, np.inf), max(0.0, np.nextafter(threshold, -np.inf))):
        cut: dict[str, Any] = {"n_clusters": None, "distance_threshold": float(exact)}
        ours, theirs = RAC(linkage=linkage, **cut).fit(points), scikit(linkage, **cut).fit(points)
        assert ours.n_clusters_ == theirs.n_clusters_
        assert ours.labels_.max() == ours.n_clusters_ - 1
        assert same_partition(ours.labels_, theirs.labels_)


# Which graph


def connected(n: int, seed: int) -> sp.csr_array:
    """Each sample's neighbours, in one direction, and a path."""
    near = kneighbors_graph(samples(n, 3, seed), 3)
    return sp.csr_array(near + sp.diags_array(np.ones(n - 1), offsets=1, shape=(n, n)))


@given(st.integers(5, 30), st.integers(0, 10**6), st.sampled_from(["complete", "single"]))
@examples(50)
def test_the_tree_along_a_connected_graph_is_scikit_learns(n: int, seed: int, linkage: str) -> None:
    points, graph = samples(n, 3, seed), connected(n, seed)
    ours = RAC(2, linkage=linkage, connectivity=graph, missing="ignore").fit(points)
    theirs = scikit(linkage, n_clusters=2, connectivity=graph).fit(points)
    np.testing.assert_allclose(ours.distances_, theirs.distances_)
    assert same_partition(ours.labels_, theirs.labels_)


@pytest.mark.parametrize("linkage", LINKAGES)
def test_a_connectivity_of_all_pairs_gives_the_tree_of_all_pairs(linkage: str) -> None:
    points = samples(40)
    everything = RAC(3, linkage=linkage, connectivity=np.ones((40, 40))).fit(points)
    complete = RAC(3, linkage=linkage).fit(points)
    assert np.array_equal(everything.children_, complete.children_)
    np.testing.assert_allclose(everything.distances_, complete.distances_, rtol=1e-14)
    theirs = scikit(linkage, n_clusters=3, connectivity=np.ones((40, 40))).fit(points)
    np.testing.assert_allclose(everything.distances_, theirs.distances_)
    assert same_partition(everything.labels_, theirs.labels_)


@pytest.mark.parametrize("linkage", LINKAGES)
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine", "manhattan"])
def test_edges_of_a_connectivity_weigh_what_plain_arithmetic_says(metric: str, linkage: str) -> None:
    points, graph = samples(50, 6), connected(50, 1)
    fitted = RAC(2, metric=metric, linkage=linkage, connectivity=graph).fit(points)
    distances = pairwise_distances(points, metric=metric)
    joined = sp.triu(graph + graph.T, 1).tocoo()
    tree = dask_rac.cluster((joined.row, joined.col, distances[joined.row, joined.col]), linkage, n_nodes=50)
    expected = tree.to_scipy()
    assert np.array_equal(fitted.children_, expected[:, :2])
    np.testing.assert_allclose(fitted.distances_, expected[:, 2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
@pytest.mark.parametrize("dimensions", [3, 20])
def test_n_neighbors_is_the_connectivity_of_nearest_neighbours(metric: str, dimensions: int, dtype: Any) -> None:
    points = samples(120, dimensions).astype(dtype)
    graph = kneighbors_graph(points, 12, metric=metric)
    near = RAC(2, metric=metric, linkage="average", n_neighbors=12).fit(points)
    for connectivity in (graph, lambda x: kneighbors_graph(x, 12, metric=metric)):
        assert same_tree(near, clone(near).set_params(n_neighbors=None, connectivity=connectivity).fit(points))


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_sparse_samples_give_the_tree_of_dense_ones(metric: str) -> None:
    dense = np.maximum(samples(60, 8), 0) + np.eye(60, 8)
    for more in ({}, {"n_neighbors": 10}, {"eps": 10.0}, {"connectivity": connected(60, 0)}):
        thin, thick = (RAC(2, metric=metric, linkage="average", **more).fit(x) for x in (sp.csr_array(dense), dense))
        assert same_partition(thin.labels_, thick.labels_)
        np.testing.assert_allclose(thin.distances_, thick.distances_, atol=1e-9)


def test_connectivity_only_says_who_is_a_neighbour() -> None:
    points = samples(40)
    graph = connected(40, 0)
    plain = RAC(2, linkage="average", connectivity=graph).fit(points)
    other = sp.coo_array(graph)
    values = np.random.default_rng(0).random(other.nnz) + 1
    looped = sp.csr_array((values, (other.col, other.row)), shape=(40, 40)) + sp.eye_array(40)
    stored = sp.csr_array((np.append(values, 0.0), (np.append(other.row, 0), np.append(other.col, 39))), shape=(40, 40))
    forms = (looped, graph.tolil(), graph.tocsc(), graph.toarray(), graph.toarray().astype(bool), stored)
    for form in forms:
        assert same_tree(plain, RAC(2, linkage="average", connectivity=form).fit(points))
    assert same_tree(plain, RAC(2, linkage="average", connectivity=graph.toarray().tolist()).fit(points))


def test_all_within_eps_and_complete_linkage_are_scikit_learns_clusters_below_eps() -> None:
    points = samples(80)
    cut: dict[str, Any] = {"n_clusters": None, "distance_threshold": 1.4, "linkage": "complete"}
    ours = RAC(eps=1.4, missing="infinite", **cut).fit(points)
    theirs = AgglomerativeClustering(**cut).fit(points)
    assert ours.n_clusters_ == theirs.n_clusters_ > 5
    assert same_partition(ours.labels_, theirs.labels_)


def test_missing_goes_to_the_clustering() -> None:
    points = samples(60)
    for missing in ("far", "ignore", 9.0):
        fitted = RAC(2, linkage="average", n_neighbors=15, missing=missing).fit(points)
        expected = dask_rac.cluster(points, missing=missing, graph={"k": 15})
        assert np.array_equal(fitted.distances_, expected.to_scipy()[:, 2])


@pytest.mark.parametrize("more", [{}, {"n_neighbors": 8}, {"eps": 9.0}, {"connectivity": connected(60, 0)}])
def test_dask_and_zarr_arrays_give_the_same_tree(more: dict[str, Any]) -> None:
    points = samples(60, 5)
    more = {"linkage": "average"} | more
    plain = RAC(2, **more).fit(points)
    lazy = RAC(2, **more).fit(da.from_array(points, chunks=(25, 3)))
    assert same_tree(plain, lazy)
    assert lazy.n_features_in_ == 5
    assert same_tree(plain, RAC(2, **more).fit(zarr.array(points)))


# Distances instead of samples


@pytest.mark.parametrize("linkage", LINKAGES)
def test_a_matrix_of_distances_gives_the_tree_of_its_samples(linkage: str) -> None:
    points = samples(50)
    ours = RAC(3, linkage=linkage, metric="precomputed").fit(cdist(points, points))
    theirs = scikit(linkage, n_clusters=3, metric="precomputed").fit(cdist(points, points))
    np.testing.assert_allclose(ours.distances_, theirs.distances_)
    assert same_partition(ours.labels_, theirs.labels_)
    assert same_partition(ours.labels_, RAC(3, linkage=linkage).fit_predict(points))


def test_a_sparse_matrix_of_distances_is_the_graph() -> None:
    points = samples(100)
    near = kneighbors_graph(points, 15, mode="distance", include_self=True)  # zeros on its diagonal
    stored = RAC(2, linkage="average", metric="precomputed").fit(near)
    expected = RAC(2, linkage="average", n_neighbors=14).fit(points)
    assert np.array_equal(stored.children_, expected.children_)
    np.testing.assert_allclose(stored.distances_, expected.distances_)


def test_a_stored_zero_is_a_distance() -> None:
    graph = sp.csr_array((np.array([0.0, 1.0]), ([0, 1], [1, 2])), shape=(3, 3))
    fitted = RAC(1, linkage="average", metric="precomputed").fit(graph)
    assert fitted.distances_.tolist() == [0.0, 1.5]
    assert fitted.children_.tolist() == [[0, 1], [2, 3]]


def test_distances_along_a_connectivity() -> None:
    points, graph = samples(50), connected(50, 0)
    along = RAC(2, linkage="average", metric="precomputed", connectivity=graph).fit(cdist(points, points))
    expected = RAC(2, linkage="average", connectivity=graph).fit(points)
    assert np.array_equal(along.children_, expected.children_)
    np.testing.assert_allclose(along.distances_, expected.distances_)


def test_distances_may_be_below_zero_and_on_the_diagonal_by_rounding_and_no_more() -> None:
    directions = np.repeat(samples(20, 3), 2, axis=0)
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    rounded = 1 - directions @ directions.T
    assert rounded.min() < 0
    assert rounded.diagonal().any()
    before = rounded.copy()
    expected = scikit(n_clusters=5, metric="cosine").fit(directions)
    for metric, held in (("precomputed", rounded), (lambda x: 1 - x @ x.T, directions)):
        fitted = RAC(5, linkage="average", metric=metric).fit(held)
        np.testing.assert_allclose(fitted.distances_, expected.distances_, atol=1e-14)
        assert same_partition(fitted.labels_, expected.labels_)
    assert np.array_equal(rounded, before)
    with pytest.raises(dask_rac.InputError, match="a point is at distance 0 from itself; if these are similarities"):
        RAC(linkage="average", metric="precomputed").fit(np.abs(rounded) + np.diag([0, 0, 0, 0.5, *[0] * 36]))
    with pytest.raises(ValueError, match="Negative values in data passed to RAC"):
        RAC(linkage="average", metric="precomputed").fit(rounded - 0.5)


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_ward_takes_no_distances(form: Any) -> None:
    distances = form(cdist(samples(20), samples(20)))
    why = "X may hold any: set linkage=" if form is np.array else "a sparse matrix of distances is given: .*the samples"
    with pytest.raises(dask_rac.InputError, match=f"linkage='ward', the default, .*{why}"):
        RAC(metric="precomputed").fit(distances)


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_distances_may_differ_both_ways_by_rounding_and_no_more(form: Any) -> None:
    distances = np.round(cdist(samples(2000, 2), samples(2000, 2))[:30, :30] + 1, 3)
    distances = np.minimum(distances, distances.T)
    np.fill_diagonal(distances, 0.0)
    plain = RAC(2, linkage="average", metric="precomputed").fit(form(distances))
    distances[20, 3] *= 1 + 1e-12
    assert same_tree(plain, RAC(2, linkage="average", metric="precomputed").fit(form(distances)))
    distances[20, 3] += 0.5
    with pytest.raises(dask_rac.InputError, match=r"symmetric.* differ by up to 0\.5. use \(. \+ .\.T\) / 2"):
        RAC(2, linkage="average", metric="precomputed").fit(form(distances))


# Forests


TWO = np.array([[0.0], [1.0], [10.0], [11.0], [12.5]])


def test_a_graph_in_two_pieces_gives_two_trees() -> None:
    with pytest.warns(
        UserWarning,
        match="the graph has 2 connected components, and samples of different components .* a larger n_neighbors",
    ):
        fitted = RAC(3, linkage="average", n_neighbors=1).fit(TWO)
    assert fitted.n_connected_components_ == fitted.clustering_.n_trees == 2
    assert fitted.labels_.tolist() == [0, 0, 1, 1, 2]
    assert fitted.n_leaves_ == 5
    assert fitted.children_.tolist() == [[0, 1], [2, 3], [4, 6]]
    assert fitted.distances_.tolist() == [1.0, 1.0, 2.25]


@pytest.mark.parametrize(
    ("more", "points", "remedy"),
    [
        ({"n_neighbors": 1}, TWO, "a larger n_neighbors"),
        ({"eps": 2.0}, TWO, "a larger eps"),
        ({"connectivity": kneighbors_graph(TWO, 1)}, TWO, "a graph with more edges"),
        ({"metric": "precomputed"}, kneighbors_graph(TWO, 1, mode="distance"), "a graph with more edges"),
    ],
)
def test_fewer_clusters_than_components_are_refused(more: dict[str, Any], points: Any, remedy: str) -> None:
    wanted = RAC(1, linkage="average", **more)
    with pytest.raises(
        dask_rac.InputError, match=f"2 connected components, .*use {remedy}, or n_clusters=2 or more, or "
    ):
        wanted.fit(points)
    assert not [name for name in vars(wanted) if name.endswith("_") and "feature" not in name]


def test_a_threshold_cuts_a_forest_without_a_warning() -> None:
    fitted = RAC(n_clusters=None, distance_threshold=100.0, linkage="average", eps=2.0).fit(TWO)
    assert fitted.labels_.tolist() == [0, 0, 1, 1, 1]


def test_trees_that_missing_leaves_are_no_components() -> None:
    line = np.array([[0.0], [1.0], [3.0]])
    more: dict[str, Any] = {"linkage": "average", "n_neighbors": 1, "missing": "infinite"}
    fitted = RAC(2, **more).fit(line)
    assert (fitted.n_connected_components_, fitted.clustering_.n_trees) == (1, 2)
    with pytest.raises(dask_rac.InputError, match="leaves 2 trees; use a larger n_neighbors or missing='far'"):
        RAC(1, **more).fit(line)


# What is kept


def test_memory_keeps_the_tree_for_other_cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = samples(40)
    for place in (str(tmp_path / "path"), check_memory(str(tmp_path / "object"))):
        first = RAC(2, memory=place).fit(points)
        with monkeypatch.context() as patch:
            patch.setattr(tree, "cluster_pairs", None)
            again = RAC(5, memory=place, progress=lambda _event: None).fit(points)
            with pytest.raises(TypeError):
                RAC(5, memory=place, linkage="single").fit(points)
        assert same_tree(first, again)
        assert again.n_clusters_ == 5


@pytest.mark.parametrize("metric", ["euclidean", "chebyshev", manhattan_distances])
def test_what_memory_keeps_is_smaller_than_the_samples(tmp_path: Path, metric: Any) -> None:
    points = samples(200, 2000)
    fitted = RAC(2, linkage="average", metric=metric, memory=str(tmp_path)).fit(points)
    kept = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert kept < 0.05 * points.nbytes
    assert len(pickle.dumps(fitted)) < 1.05 * points.nbytes  # predict() needs the samples


def test_what_is_kept_can_be_verified_with_the_samples() -> None:
    points = samples(50)
    tree = RAC().fit(points).clustering_
    assert tree.verify(points).edges == 50 * 49 // 2
    with pytest.raises(dask_rac.InputError, match=r"verify\(\) needs the vectors or distances again"):
        tree.verify()


def test_progress_is_reported_on_request() -> None:
    stages: list[str] = []
    RAC(progress=lambda event: stages.append(event.stage)).fit(samples(20))
    assert stages[-1] == "done"
    assert "pairs" in stages


# What is refused


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"n_neighbors": 3},
            "linkage='ward', the default, .* n_neighbors is given: .*set linkage='average', or leave out",
        ),
        ({"eps": 3.0}, "not reducible along a graph, and eps is given: .*or leave out eps, for all pairs"),
        ({"connectivity": np.ones((20, 20))}, "not reducible along a graph, and connectivity is given"),
        ({"metric": "manhattan"}, "linkage='ward', the default, .*metric='manhattan' gives others: set linkage="),
        ({"metric": "sqeuclidean"}, "metric='sqeuclidean' gives others: .*or use metric='euclidean'"),
        ({"metric": manhattan_distances}, "metric=<function .* gives others: set linkage='average'"),
        ({"linkage": "centroid"}, "not reducible"),
        ({"linkage": "mean"}, "linkage='mean' is unknown"),
        ({"n_clusters": 0}, "n_clusters=0 is out of range: use 1 or more"),
        ({"n_clusters": 2.0}, "n_clusters=2.0 is not a whole number"),
        ({"n_clusters": 21}, "n_clusters=21 is more than the number of samples, 20"),
        ({"n_clusters": None}, "exactly one of n_clusters and distance_threshold"),
        ({"distance_threshold": 1.0}, "exactly one of n_clusters and distance_threshold"),
        ({"n_clusters": None, "distance_threshold": -1.0}, "distance_threshold=-1.0 is below 0"),
        ({"n_clusters": None, "distance_threshold": "far"}, "distance_threshold='far' is not a number"),
        ({"n_clusters": None, "distance_threshold": 1.0, "compute_full_tree": False}, "compute_full_tree=False cannot"),
        ({"compute_full_tree": "yes"}, "compute_full_tree='yes' is unknown"),
        ({"n_neighbors": 3, "eps": 1.0}, "n_neighbors and eps are given, .*keep one"),
        ({"n_neighbors": 3, "connectivity": np.eye(20)}, "n_neighbors and connectivity are given"),
        ({"eps": 3, "n_neighbors": 3, "connectivity": np.eye(20)}, "n_neighbors and eps and connectivity are given"),
        ({"n_neighbors": 0}, "n_neighbors=0 is out of range: use 1 or more"),
        (
            {"n_neighbors": 20, "linkage": "average"},
            "n_neighbors=20 is too large: each of the 20 samples has 19 others; use 19 or less",
        ),
        ({"eps": -1.0, "linkage": "average"}, "eps=-1.0 is not a finite number, 0 or more"),
        ({"missing": 10.0}, "missing=10.0 says .*among all pairs none is missing: leave it out"),
        ({"missing": "infinite", "linkage": "average"}, "missing='infinite' says .*none is missing: leave it out"),
        ({"missing": "zero", "linkage": "average", "n_neighbors": 9}, "missing='zero' is unknown"),
        ({"missing": "ignore", "linkage": "weighted", "n_neighbors": 9}, "missing='ignore': .*leave missing= out"),
        ({"missing": 0.1, "linkage": "average", "n_neighbors": 9}, "missing=0.1 is nearer than the largest weight"),
        ({"metric": "precomputed"}, r"distances have shape \(20, 3\): .*each of the 20 samples"),
        ({"metric": "precomputed", "n_neighbors": 3}, "n_neighbors is for samples, .*as a sparse matrix"),
        ({"metric": "precomputed", "eps": 3}, "eps is for samples, .*as a sparse matrix"),
        (
            {"metric": "chebyshev", "n_neighbors": 3},
            "metric='chebyshev' is not supported with n_neighbors: use one of 'euclidean'",
        ),
        ({"metric": "chebyshev", "connectivity": np.eye(20)}, "metric='chebyshev' is not supported with connectivity"),
        ({"metric": manhattan_distances, "eps": 3}, "is not supported with eps"),
        ({"metric": "inner_product", "linkage": "average"}, "inner_product"),
        ({"metric": "furlong", "linkage": "average"}, "furlong"),
        ({"metric": 3, "linkage": "average"}, "metric"),
        ({"metric": lambda _x: np.eye(19, 20), "linkage": "average"}, r"distances have shape \(19, 20\)"),
        ({"metric": lambda _x: np.eye(19), "linkage": "average"}, r"distances have shape \(19, 19\)"),
        (
            {"connectivity": np.eye(19), "linkage": "average"},
            r"connectivity has shape \(19, 19\): .*each of the 20 samples",
        ),
        ({"connectivity": np.full((20, 20), np.nan), "linkage": "average"}, "NaN"),
        ({"memory": 3}, "memory"),
        ({"progress": "loud"}, "progress"),
    ],
)
def test_what_cannot_be_is_refused_by_name(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RAC(**more).fit(samples(20))


@pytest.mark.parametrize("more", [{}, {"n_neighbors": 2}, {"connectivity": np.ones((4, 4))}])
def test_a_sample_without_direction_has_no_cosine(more: dict[str, Any]) -> None:
    with pytest.raises(dask_rac.InputError, match="row 2 is all zeros and has no direction"):
        RAC(metric="cosine", linkage="average", **more).fit(np.diag([1.0, 2.0, 0.0, 3.0]))


def test_sparse_samples_are_refused_where_a_metric_cannot_take_them() -> None:
    for more in ParameterGrid({"metric": ["manhattan", "chebyshev"]}):
        with pytest.raises(TypeError, match=r"[Ss]parse"):
            RAC(linkage="average", **more).fit(sp.eye_array(5, format="csr"))


def test_a_sparse_matrix_of_distances_needs_no_connectivity() -> None:
    with pytest.raises(dask_rac.InputError, match="leave connectivity out"):
        RAC(metric="precomputed", linkage="average", connectivity=np.ones((5, 5))).fit(sp.eye_array(5, format="csr"))


# The page


def test_what_the_page_shows_is_true() -> None:
    blocks = re.findall(r"```pycon\n(.*?)```", (DOCS / "estimator.md").read_text(), re.DOTALL)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "estimator.md", None, 0)
    runner = doctest.DocTestRunner()
    runner.run(example)
    assert runner.tries > 20
    assert not runner.failures


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_matrices_whose_indices_are_out_of_range(form: str) -> None:
    points = np.arange(12.0).reshape(6, 2)
    whole: Any = sp.csr_array(np.ones((6, 6)))
    damaged = whole.asformat(form)
    (damaged.col if form == "coo" else damaged.indices)[7] = 2**20
    with pytest.raises(dask_rac.InputError, match=r"connectivity is damaged: .* holds 1048576 at position 7"):
        RAC(linkage="average", connectivity=damaged).fit(points)
    with pytest.raises(dask_rac.InputError, match="X is damaged"):
        RAC(metric="precomputed").fit(damaged)
    with pytest.raises(dask_rac.InputError, match="the matrix is damaged"):
        dask_rac.cluster(damaged)
