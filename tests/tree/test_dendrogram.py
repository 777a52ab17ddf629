"""Trees and cuts against scipy and the naive labels."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.cluster import hierarchy

import dask_rac
from tests.reference import hac, labels
from tests.support.graphs import run
from tests.support.strategies import Graph, graphs

HEIGHTS = [0.0, 0.125, 0.3125, 0.5, 1.0, 2.0]  # exact, as the oracle is


def same_partition(ours: NDArray[np.integer], theirs: NDArray[np.integer]) -> bool:
    """Whether two labellings name the same clusters."""
    pairs = set(zip(ours.tolist(), theirs.tolist(), strict=True))
    return len(pairs) == len(set(ours.tolist())) == len(set(theirs.tolist()))


@pytest.mark.kernels
@given(graphs(), st.sampled_from(["distance", "similarity"]))
def test_cuts_are_those_of_the_naive_labels(graph: Graph, weights: str) -> None:
    found = run(graph, weights=weights)
    oracle = hac(graph.n_nodes, graph.edges, "average", "far", weights)
    by_height = [labels(graph.n_nodes, oracle, height=height, weights=weights) for height in HEIGHTS]
    assert found.cut(height=HEIGHTS).tolist() == by_height
    assert [found.cut(height=height).tolist() for height in HEIGHTS] == by_height
    counts = list(range(found.n_trees, graph.n_nodes + 1))
    by_count = [labels(graph.n_nodes, oracle, n_clusters=k, weights=weights) for k in counts]
    assert found.cut(n_clusters=counts).tolist() == by_count
    assert found.labels.tolist() == labels(graph.n_nodes, oracle, weights=weights)
    assert found.labels.dtype == found.cut(height=1.0).dtype == np.int64


@given(graphs())
def test_scipy_takes_the_tree(graph: Graph) -> None:
    found = run(graph)
    if graph.n_nodes < 2:
        return
    Z = found.to_scipy(join=True)
    assert hierarchy.is_valid_linkage(Z)
    assert hierarchy.is_monotonic(Z)
    assert np.isinf(Z[:, 2]).sum() == found.n_trees - 1
    for height in HEIGHTS:
        assert same_partition(found.cut(height=height), hierarchy.fcluster(Z, height, "distance"))


@pytest.mark.parametrize("weights", ["distance", "similarity"])
def test_a_connected_graph_is_one_tree_for_scipy(weights: str) -> None:
    rng = np.random.default_rng(0)
    n = 300
    edges = np.arange(n - 1), np.arange(1, n), rng.random(n - 1)
    found = dask_rac.cluster(edges, weights=weights)
    Z = found.to_scipy()
    assert found.n_trees == 1
    assert Z.shape == (n - 1, 4)
    assert Z[-1, 3] == n
    assert hierarchy.is_valid_linkage(Z, throw=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawing = hierarchy.dendrogram(Z, no_plot=True)
    assert sorted(drawing["leaves"] or []) == list(range(n))
    for k in (1, 2, 17, n):
        assert same_partition(found.cut(n_clusters=k), hierarchy.fcluster(Z, k, "maxclust"))
    for t in np.quantile(found.merges["height"], [0.1, 0.5, 0.9]):
        distance = t if weights == "distance" else found.merges["height"].max() - t
        assert same_partition(found.cut(height=t), hierarchy.fcluster(Z, distance + 1e-12, "distance"))


def test_similarities_become_distances_from_a_zero() -> None:
    found = dask_rac.cluster(([0, 1], [1, 2], [0.9, 0.5]), weights="similarity")
    assert found.to_scipy()[0, 2] == 0
    np.testing.assert_allclose(found.to_scipy(zero=1.0)[:, 2], [0.1, 0.75])
    with pytest.raises(dask_rac.InputError, match=r"zero=0\.5 is below the largest similarity, 0\.9"):
        found.to_scipy(zero=0.5)
    with pytest.raises(dask_rac.InputError, match="zero=inf is not finite"):
        found.to_scipy(zero=np.inf)
    with pytest.raises(dask_rac.InputError, match=r"zero=1.0 is only for similarities"):
        dask_rac.cluster(([0], [1], [1.0])).to_scipy(zero=1.0)


@pytest.mark.parametrize("k", [0, 2, 6])
def test_a_number_of_clusters_that_is_not_possible(k: int) -> None:
    found = dask_rac.cluster(([0, 2], [1, 3], [1.0, 2.0]), n_nodes=5)
    with pytest.raises(dask_rac.InputError, match=f"n_clusters={k} .* 5 nodes form 3 trees; choose 3 to 5"):
        found.cut(n_clusters=k)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either height= or n_clusters="),
        ({"height": 1.0, "n_clusters": 2}, "either height= or n_clusters="),
        ({"height": float("nan")}, "height=nan is neither a number nor a list of them"),
        ({"height": "1"}, "height='1' is neither a number"),
        ({"height": True}, "height=True is neither a number"),
        ({"height": [[1.0, 2.0]]}, "is neither a number nor a list of them"),
        ({"height": [1.0, [2.0]]}, "is neither a number nor a list of them"),
        ({"n_clusters": [[1, 2]]}, "is neither a whole number nor a list of them"),
        ({"n_clusters": 10**30}, "is neither a whole number nor a list of them"),
        ({"n_clusters": 2.5}, "n_clusters=2.5 is neither a whole number nor a list"),
    ],
)
def test_bad_cuts(arguments: dict[str, Any], message: str) -> None:
    found = dask_rac.cluster(([0], [1], [1.0]))
    with pytest.raises(dask_rac.InputError, match=message):
        found.cut(**arguments)


@pytest.mark.parametrize("value", [50, [2, 3]])
def test_a_cut_without_a_name_is_told_what_to_write(value: Any) -> None:
    found: Any = dask_rac.cluster(([0, 1], [1, 2], [1.0, 2.0]))
    with pytest.raises(dask_rac.InputError) as refused:
        found.cut(value)
    assert str(refused.value).endswith(f"write cut(height={value}) or cut(n_clusters={value})")


def test_infinite_heights_cut_nothing_and_everything() -> None:
    found = dask_rac.cluster(([0, 1], [1, 2], [1.0, 2.0]))
    assert found.cut(height=[-np.inf, np.inf]).tolist() == [[0, 1, 2], [0, 0, 0]]
    assert found.cut(height=[]).shape == found.cut(n_clusters=[]).shape == (0, 3)
