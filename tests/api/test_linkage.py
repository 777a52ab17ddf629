"""`linkage` beside scipy's: the same heights for every method and metric, the same merges where nothing is tied."""

from __future__ import annotations

import warnings
from typing import Any

import dask
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.cluster import hierarchy
from scipy.cluster.hierarchy import ClusterWarning
from scipy.spatial.distance import pdist, squareform

import dask_rac
from tests.support.effort import examples

METHODS: tuple[Any, ...] = ("single", "complete", "average", "weighted", "ward")


def farthest_step(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """A metric of our own."""
    return float(np.abs(one - other).max() + 0.5 * np.abs(one - other).min())


METRICS: tuple[Any, ...] = (
    "euclidean",
    "sqeuclidean",
    "cosine",
    "cityblock",
    "chebyshev",
    "correlation",
    "hamming",
    "jaccard",
    "braycurtis",
    "canberra",
    "seuclidean",
    "minkowski",
    "mahalanobis",
    "dice",
    farthest_step,
)
OF_BITS = ("hamming", "jaccard", "dice")
"""Metrics of true and false, whose distances are all tied."""


def clusters_of(tree: NDArray[np.float64]) -> set[frozenset[int]]:
    """The set of nodes of every merge."""
    sets = [frozenset([node]) for node in range(len(tree) + 1)]
    for left, right in tree[:, :2].astype(int).tolist():
        sets.append(sets[left] | sets[right])
    return set(sets)


def same_partition(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether labels are the same up to their numbers."""
    pairs = set(zip(one.tolist(), other.tolist(), strict=True))
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def assert_as_scipy(y: NDArray[Any], method: Any, metric: Any = "euclidean") -> None:
    """The same clusters at the same heights, for distances that are all different."""
    found, expected = dask_rac.linkage(y, method, metric), hierarchy.linkage(y, method, metric)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert hierarchy.is_valid_linkage(found)
    np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=1e-9, atol=1e-13)
    assert clusters_of(found) == clusters_of(expected)
    height = (expected[len(expected) // 2, 2] + expected[len(expected) // 2 - 1, 2]) / 2
    cuts: tuple[Any, ...] = ("maxclust", 4), ("distance", height)
    for criterion, value in cuts:
        labels = (hierarchy.fcluster(tree, value, criterion) for tree in (found, expected))
        assert same_partition(*labels)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: getattr(metric, "__name__", metric))
@pytest.mark.parametrize("method", METHODS)
def test_observations_give_the_tree_of_scipy(method: Any, metric: Any) -> None:
    if method == "ward" and metric != "euclidean":
        pytest.skip("ward is euclidean")
    for seed in range(6):
        random = np.random.default_rng(seed)
        values: Any = random.standard_normal((random.integers(8, 70), 6)) + 0.2
        if metric == "canberra":  # where signs differ, all values are at distance 1
            values = np.abs(values)
        if metric in OF_BITS:
            values = random.random(values.shape) < 0.5
            values[:, 0] = True
            _assert_first_heights(values, method, metric)
        else:
            assert_as_scipy(values, method, metric)


def _assert_first_heights(values: NDArray[Any], method: Any, metric: Any) -> None:
    """Where all is tied, only single linkage has one sequence of heights; others begin with the same."""
    found, expected = dask_rac.linkage(values, method, metric), hierarchy.linkage(values, method, metric)
    np.testing.assert_allclose(found[0, 2], expected[0, 2], rtol=1e-9, atol=1e-13)
    if method == "single":
        np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_condensed_distances_give_the_tree_of_scipy(method: Any) -> None:
    @examples(120)
    @given(st.integers(2, 120), st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([1e-150, 1.0, 1e150]))
    def check(nodes: int, seed: int, is_metric: bool, scale: float) -> None:
        random = np.random.default_rng(seed)
        drawn = random.standard_normal((nodes, 3)) if is_metric else random.random(nodes * (nodes - 1) // 2) + 0.1
        distances = (pdist(drawn) if is_metric else drawn) * scale
        found, expected = dask_rac.linkage(distances, method), hierarchy.linkage(distances, method)
        np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=1e-9)
        assert clusters_of(found) == clusters_of(expected)

    check()


@pytest.mark.parametrize("method", METHODS)
def test_thousands_of_points_give_the_tree_of_scipy_in_threads(method: Any) -> None:
    random = np.random.default_rng(1)
    values = random.standard_normal((2500, 3)) + random.integers(0, 5, (2500, 1)) * 3
    with dask.config.set(num_workers=2):
        assert_as_scipy(values, method)


@pytest.mark.parametrize("method", METHODS)
def test_ties_give_the_heights_of_scipy_where_they_are_unique(method: Any) -> None:
    """Copies of points are at distance 0; what is above them does not depend on their order."""
    random = np.random.default_rng(9)
    values = np.repeat(random.standard_normal((40, 3)), random.integers(1, 4, 40), axis=0)
    found, expected = dask_rac.linkage(values, method), hierarchy.linkage(values, method)
    np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=1e-9, atol=1e-12)
    assert same_partition(*(hierarchy.fcluster(tree, 40, "maxclust") for tree in (found, expected)))


@pytest.mark.parametrize("method", METHODS)
def test_leaves_are_ordered_as_in_scipy(method: Any) -> None:
    values = np.random.default_rng(2).standard_normal((60, 3))
    for y in (values, pdist(values)):
        expected = hierarchy.leaves_list(hierarchy.linkage(y, method, optimal_ordering=True)).tolist()
        found = hierarchy.leaves_list(dask_rac.linkage(y, method, optimal_ordering=True)).tolist()
        assert found in (expected, expected[::-1])


def test_leaves_of_another_metric_are_ordered_by_it() -> None:
    values = np.random.default_rng(2).standard_normal((40, 3))
    expected = hierarchy.leaves_list(hierarchy.linkage(values, "average", "cityblock", True)).tolist()
    found = hierarchy.leaves_list(dask_rac.linkage(values, "average", "cityblock", True)).tolist()
    assert found in (expected, expected[::-1])


@pytest.mark.parametrize("form", [list, np.float32, np.int64, np.uint8, bool], ids=str)
def test_other_forms_and_dtypes_are_taken_as_scipy_takes_them(form: Any) -> None:
    values = np.random.default_rng(4).integers(0, 200, (12, 5)) % (2 if form is bool else 251)
    y = values.tolist() if form is list else values.astype(form)
    for method in ("single",) if form is bool else METHODS:  # bits are tied
        found, expected = dask_rac.linkage(y, method), hierarchy.linkage(y, method)
        np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=1e-6)
    condensed = pdist(values)
    given_form = condensed.tolist() if form is list else condensed.astype(form)
    found, expected = dask_rac.linkage(given_form), hierarchy.linkage(given_form)
    np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=1e-7)


def test_what_is_given_is_not_changed() -> None:
    values = np.random.default_rng(4).random((30, 4))
    condensed = pdist(values)
    kept = values.copy(), condensed.copy()
    for method in METHODS:
        dask_rac.linkage(values, method)
        dask_rac.linkage(condensed, method)
    assert np.array_equal(values, kept[0])
    assert np.array_equal(condensed, kept[1])


@pytest.mark.parametrize(
    ("y", "options", "text"),
    [
        (np.eye(4), {"method": "centroid"}, "centroid linkage is not reducible: a merge can bring clusters closer"),
        (np.eye(4), {"method": "median"}, "median linkage is not reducible: a merge can bring clusters closer"),
        (np.eye(4), {"method": "wards"}, "'wards'.*'ward'"),
        (np.eye(4), {"method": "ward", "metric": "cityblock"}, "defined by euclidean distances: leave out metric="),
        (np.eye(4), {"method": "ward", "metric": farthest_step}, "defined by euclidean distances"),
        (np.eye(4), {"metric": "no such"}, "no such"),
        (np.float64(3), {}, "y has 0 dimensions"),
        (np.zeros((2, 2, 2)), {}, "y has 3 dimensions"),
        (np.zeros((1, 3)), {}, "y has 1 observation: give two or more"),
        (np.zeros((0, 3)), {}, "y has 0 observations"),
        (np.zeros((3, 0)), {}, "dimension"),
        (np.zeros(0), {}, "no pairs"),
        (np.zeros(8), {}, "4 points have 6 and 5 points have 10"),
        (np.array([1.0, np.nan, 2.0]), {}, r"position 1 of the distances, the pair \(0, 2\), is nan"),
        (np.array([1.0, np.inf, 2.0]), {}, r"\(0, 2\), is inf"),
        (np.array([1.0, -1.0, 2.0]), {}, r"\(0, 2\), is -1"),
        (np.array([[0.0, 1.0], [np.nan, 1.0]]), {}, "row 1 has nan in dimension 0"),
        (np.array([[0.0, 1.0], [np.inf, 1.0]]), {"metric": "chebyshev"}, "row 1 of y has inf in dimension 0"),
        (np.array([[0.0, 1.0], [np.nan, 1.0]]), {"metric": "chebyshev"}, "row 1 of y has nan in dimension 0"),
        ([["a", "b"], ["c", "d"]], {}, "numbers"),
        ([[1.0, 2.0], [1.0]], {}, "rows of equal length"),
        (np.zeros((3, 2), complex), {}, "complex"),
    ],
)
def test_what_is_no_clustering_is_refused_as_a_value_error(y: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        dask_rac.linkage(y, **options)


def test_a_function_may_know_what_to_do_with_missing_values() -> None:
    values = np.array([[0.0, np.nan], [1.0, 2.0], [4.0, 2.0]])
    found = dask_rac.linkage(values, "single", lambda one, other: float(np.nanmax(np.abs(one - other))))
    assert found[:, 2].tolist() == [1.0, 3.0]


def test_a_square_matrix_of_distances_is_warned_of_as_in_scipy() -> None:
    square = squareform(pdist(np.random.default_rng(5).random((9, 2))))
    for function in (hierarchy.linkage, dask_rac.linkage):
        with pytest.warns(ClusterWarning) as warned:
            function(square, "average")
        assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dask_rac.linkage(square + np.eye(9), "average")
