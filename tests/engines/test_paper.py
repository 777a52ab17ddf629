"""The paper's theorems, counted in rounds without the finisher."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import dask_rac


def complete_graph(points: NDArray[np.float64]) -> sp.coo_array:
    """All pairs of points on a line, weighted by distance."""
    u, v = np.triu_indices(len(points), 1)
    return sp.coo_array((np.abs(points[u] - points[v]), (u, v)), shape=(len(points), len(points)))


def path_graph(gaps: NDArray[np.float64]) -> sp.coo_array:
    """Connect consecutive nodes."""
    n = len(gaps) + 1
    return sp.coo_array((gaps, (np.arange(n - 1), np.arange(1, n))), shape=(n, n))


def tree_height(clustering: dask_rac.Clustering) -> int:
    """Return the number of merges on the longest path from a node to the root."""
    depth = np.zeros(clustering.n_nodes, int)
    for left, right in clustering.merges[["left", "right"]].to_numpy():
        depth[left] = 1 + max(depth[left], depth[right])
    return int(depth.max())


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7])
def test_theorem_4_a_low_tree_may_take_exponentially_many_rounds(n: int) -> None:
    k = np.arange(1, 2**n + 1)
    found = dask_rac.cluster(complete_graph(k + k**2 * 2.0 ** (-4 * n)), finisher=False)
    assert tree_height(found) == n
    assert len(found.rounds) >= 2**n / 2


@pytest.mark.parametrize("linkage", ["average", "complete"])
@pytest.mark.parametrize("levels", [1, 3, 6, 9])
def test_a_stable_tree_takes_as_many_rounds_as_it_is_high(linkage: str, levels: int) -> None:
    # An ultrametric with noise far below the gap between its levels: every subtree is tighter than what is outside.
    rng = np.random.default_rng(levels)
    u, v = np.triu_indices(2**levels, 1)
    level = np.floor(np.log2(u ^ v)) + 1
    weight = 10.0**level + rng.random(len(u))
    ids = rng.permutation(2**levels)
    found = dask_rac.cluster((ids[u], ids[v], weight), linkage=linkage, finisher=False)
    assert tree_height(found) == levels
    assert len(found.rounds) == levels


@pytest.mark.parametrize("linkage", ["average", "complete"])
def test_a_third_of_the_clusters_merge_first_on_a_line_with_random_gaps_and_a_fifth_or_more_later(linkage: str) -> None:
    gaps = np.random.default_rng(1).permutation(200_000).astype(float)
    rounds = dask_rac.cluster(path_graph(gaps), linkage=linkage, finisher=False).rounds
    crowded = rounds[rounds["clusters"] > 1000]
    fraction = (crowded["merges"] / crowded["clusters"]).to_numpy()
    assert len(crowded) > 10
    assert abs(fraction[0] - 1 / 3) < 0.005  # a gap is the smallest of three; later, gaps are not in random order
    assert (fraction > 0.2).all()


def test_a_line_of_equal_gaps_takes_logarithmically_many_rounds() -> None:
    rounds = dask_rac.cluster(path_graph(np.ones(100_000)), finisher=False).rounds
    assert len(rounds) <= 3 * np.log2(100_000)


@pytest.mark.parametrize("reach", [1, 2, 4])
def test_random_weights_on_a_bounded_degree_finish_in_logarithmically_many_rounds(reach: int) -> None:
    # Each node is connected to the next few on a line, so that clusters, too, have a bounded number of neighbours.
    rng = np.random.default_rng(reach)
    for n in (1000, 8000, 64_000):
        u = np.concatenate([np.arange(n - step) for step in range(1, reach + 1)])
        v = np.concatenate([np.arange(step, n) for step in range(1, reach + 1)])
        edges = u, v, rng.permutation(len(u)).astype(float)
        similar = dask_rac.cluster(edges, weights="similarity", finisher=False)
        assert len(similar.rounds) <= 3 * np.log2(n)
        assert len(dask_rac.cluster(edges, linkage="single").rounds) <= np.log2(n)
