"""The oracle itself: against scipy on complete graphs, and its rounds against its own sequence."""

from fractions import Fraction
from itertools import combinations
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cophenet, fcluster, linkage
from scipy.spatial.distance import pdist

from tests import reference
from tests.reference import LINKAGES as ALL_LINKAGES
from tests.reference import Merge, hac, hash64, labels, reciprocal_rounds
from tests.support.effort import examples
from tests.support.strategies import LINKAGES, Graph, colliding_graphs, graphs, linkages, missing_value, tied_graphs

Method = Literal["average", "complete", "single", "weighted", "ward"]

WEIGHTS = st.sampled_from(["distance", "similarity"])
checked = examples(300)


def complete_graph(n_nodes: int, seed: int) -> tuple[np.ndarray, list[tuple[int, int, float]]]:
    """Return random distances, condensed as scipy needs them, and as edges."""
    distances = np.random.default_rng(seed).random(n_nodes * (n_nodes - 1) // 2)
    pairs = combinations(range(n_nodes), 2)
    return distances, [(u, v, float(w)) for (u, v), w in zip(pairs, distances, strict=True)]


def shown_height(merge: Merge, method: str) -> float:
    """Return the height as users see it."""
    return float(merge.height) ** 0.5 if method == "ward" else float(merge.height)


def variance(points: np.ndarray) -> float:
    """Return the sum of the squared distances of points to their mean."""
    return float(((points - points.mean(axis=0)) ** 2).sum())


def merge_heights(n_nodes: int, merges: list[Merge], method: str) -> list[float]:
    """Return the height at which each pair of nodes is joined, condensed."""
    cluster = list(range(n_nodes))
    met: dict[tuple[int, int], float] = {}
    for merge in merges:
        sides = [[node for node in range(n_nodes) if cluster[node] == side] for side in (merge.left, merge.right)]
        met |= {(min(u, v), max(u, v)): shown_height(merge, method) for u in sides[0] for v in sides[1]}
        cluster = [merge.left if side == merge.right else side for side in cluster]
    return [met[pair] for pair in combinations(range(n_nodes), 2)]


def same_partition(a: list[int], b: list[int]) -> bool:
    """Whether two labellings are equal up to names."""
    return len(set(zip(a, b, strict=True))) == len(set(a)) == len(set(b))


def assert_rounds_equal_sequence(graph: Graph, method: str, missing: str | float, weights: str) -> None:
    """All reciprocal pairs at once give the merges of one pair after another."""
    sequence = hac(graph.n_nodes, graph.edges, method, missing, weights)
    rounds = reciprocal_rounds(graph.n_nodes, graph.edges, method, missing, weights)
    assert all(rounds)
    assert sorted(merge for merges in rounds for merge in merges) == sorted(sequence)


@checked
@given(st.integers(2, 14), st.integers(0, 2**32), st.sampled_from(ALL_LINKAGES))
def test_complete_graphs_equal_scipy(n_nodes: int, seed: int, method: Method) -> None:
    distances, edges = complete_graph(n_nodes, seed)
    merges = hac(n_nodes, edges, method)
    tree = linkage(distances, method)
    assert [shown_height(merge, method) for merge in merges] == pytest.approx(tree[:, 2].tolist())
    assert merge_heights(n_nodes, merges, method) == pytest.approx(cophenet(tree).tolist())


@checked
@given(st.integers(2, 14), st.integers(1, 3), st.integers(0, 2**32))
def test_ward_of_points_equals_scipy_and_the_growth_of_their_variance(n_nodes: int, width: int, seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(n_nodes, width))
    pairs = combinations(range(n_nodes), 2)
    merges = hac(n_nodes, [(u, v, float(w)) for (u, v), w in zip(pairs, pdist(points), strict=True)], "ward")
    assert [shown_height(merge, "ward") for merge in merges] == pytest.approx(linkage(points, "ward")[:, 2].tolist())
    parts = {node: points[[node]] for node in range(n_nodes)}
    for merge in merges:
        left, right = parts[merge.left], parts.pop(merge.right)
        parts[merge.left] = np.concatenate([left, right])
        grown = variance(parts[merge.left]) - variance(left) - variance(right)
        assert float(merge.height) == pytest.approx(2 * grown)


@checked
@given(st.integers(2, 14), st.integers(0, 2**32), st.sampled_from(ALL_LINKAGES), st.data())
def test_labels_equal_scipy(n_nodes: int, seed: int, method: Method, data: st.DataObject) -> None:
    distances, edges = complete_graph(n_nodes, seed)
    merges, tree = hac(n_nodes, edges, method), linkage(distances, method)
    n_clusters, height = data.draw(st.integers(1, n_nodes)), data.draw(st.integers(0, 64)) / 64
    assert same_partition(labels(n_nodes, merges, n_clusters), fcluster(tree, n_clusters, "maxclust").tolist())
    assert same_partition(
        labels(n_nodes, merges, height=height, linkage=method), fcluster(tree, height, "distance").tolist()
    )


@checked
@given(graphs(), linkages(), WEIGHTS)
def test_rounds_equal_sequence(graph: Graph, how: tuple[str, str], weights: str) -> None:
    assert_rounds_equal_sequence(graph, how[0], missing_value(how[1], graph, weights), weights)


@checked
@given(colliding_graphs(), linkages(), WEIGHTS)
def test_rounds_equal_sequence_where_ties_collide(graph: Graph, how: tuple[str, str], weights: str) -> None:
    assert_rounds_equal_sequence(graph, how[0], missing_value(how[1], graph, weights), weights)


@checked
@given(tied_graphs(), linkages(), st.sampled_from([0, 1, 2]))
def test_rounds_equal_sequence_for_any_bits(graph: Graph, how: tuple[str, str], bits: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "TIE_BITS", bits)
        assert_rounds_equal_sequence(graph, how[0], missing_value(how[1], graph), "distance")


@checked
@given(graphs(), linkages().filter(lambda how: how[1] != "far"))  # which for similarities is 0
def test_similarities_are_negated_distances(graph: Graph, how: tuple[str, str]) -> None:
    missing = missing_value(how[1], graph)
    negated = -missing if isinstance(missing, float) else missing
    similar = hac(graph.n_nodes, [(u, v, -w) for u, v, w in graph.edges], how[0], negated, "similarity")
    assert [m._replace(height=-m.height) for m in similar] == hac(graph.n_nodes, graph.edges, how[0], missing)


@checked
@given(graphs(), linkages(), WEIGHTS, st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0, 1.5]))
def test_max_height_keeps_the_near_merges(graph: Graph, how: tuple[str, str], weights: str, limit: float) -> None:
    missing, sign = missing_value(how[1], graph, weights), reference.SIGN[weights]
    merges = hac(graph.n_nodes, graph.edges, how[0], missing, weights)
    near = [merge for merge in merges if sign * merge.height <= sign * limit]
    assert near == merges[: len(near)]
    assert near == hac(graph.n_nodes, graph.edges, how[0], missing, weights, max_height=limit)


@checked
@given(graphs(), st.sampled_from(LINKAGES))
def test_ignore_ends_in_components(graph: Graph, method: str) -> None:
    component = list(range(graph.n_nodes))
    for u, v, _ in graph.edges:
        component = [component[u] if c == component[v] else c for c in component]
    assert same_partition(labels(graph.n_nodes, hac(graph.n_nodes, graph.edges, method)), component)


@pytest.mark.parametrize(
    ("method", "missing", "heights"),
    [
        ("single", "infinite", [1, 2]),
        ("average", "ignore", [1, 2]),
        ("average", "infinite", [1]),
        ("average", 4.0, [1, 3]),
        ("complete", "ignore", [1, 2]),
        ("complete", "infinite", [1]),
        ("complete", 4.0, [1, 4]),
        ("weighted", 4.0, [1, 3]),
    ],
)
def test_missing_edge_of_a_path(method: str, missing: str | float, heights: list[int]) -> None:
    merges = hac(4, [(0, 1, 1.0), (1, 2, 2.0)], method, missing)
    assert merges == [Merge(0, 1, Fraction(1), 2), Merge(0, 2, Fraction(heights[-1]), 3)][: len(heights)]


def test_labels_are_numbered_by_smallest_node() -> None:
    merges = hac(5, [(4, 0, 0.5), (3, 1, 0.25)], weights="similarity")
    assert labels(5, merges, weights="similarity") == [0, 1, 2, 1, 0]
    assert labels(5, merges, n_clusters=4, weights="similarity") == [0, 1, 2, 3, 0]
    assert labels(5, merges, height=0.25, weights="similarity") == [0, 1, 2, 1, 0]
    assert labels(5, merges, height=0.3, weights="similarity") == [0, 1, 2, 3, 0]


def test_ties_follow_the_hash_of_the_edge() -> None:
    edges = [(u, v, 1.0) for u, v in [(0, 1), (2, 3), (4, 5), (6, 7)]]
    assert hash64(1, 0) == hash64(0, 1)
    order = [(merge.left, merge.right) for merge in hac(8, edges)]
    assert order == sorted(order, key=lambda pair: hash64(*pair))


@pytest.mark.parametrize(("method", "missing"), [("median", "ignore"), ("average", "skip"), ("average", "inf")])
def test_unknown_words_are_refused(method: str, missing: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        hac(2, [(0, 1, 1.0)], method, missing)


@pytest.mark.parametrize(
    ("method", "missing", "weights"),
    [
        ("weighted", "ignore", "distance"),
        ("weighted", "infinite", "distance"),
        ("ward", "ignore", "distance"),
        ("ward", 4.0, "distance"),
    ],
)
def test_what_is_not_defined_on_a_sparse_graph_is_refused(method: str, missing: str | float, weights: str) -> None:
    with pytest.raises(ValueError, match="is not defined for these edges"):
        hac(3, [(0, 1, 1.0), (1, 2, 2.0)], method, missing, weights)


def test_ward_of_similarities_is_refused() -> None:
    with pytest.raises(ValueError, match="is not defined for these edges"):
        hac(2, [(0, 1, 1.0)], "ward", weights="similarity")


@checked
@given(st.integers(2, 10), st.data(), st.sampled_from(["weighted", "ward"]))
def test_rounds_equal_sequence_for_all_pairs_with_ties(n_nodes: int, data: st.DataObject, method: str) -> None:
    values = st.sampled_from(data.draw(st.sampled_from([(1.0,), (1.0, 2.0), (0.0, 0.5, 1.0, 3.0)])))
    edges = [(u, v, data.draw(values)) for u, v in combinations(range(n_nodes), 2)]
    assert_rounds_equal_sequence(Graph(n_nodes, edges), method, "ignore", "distance")


def test_by_weighted_linkage_a_node_counts_less_the_earlier_it_merged() -> None:
    edges = [(0, 1, 1.0), (0, 2, 2.0), (1, 2, 2.0), (0, 3, 8.0), (1, 3, 12.0), (2, 3, 20.0)]
    assert [merge.height for merge in hac(4, edges, "weighted")] == [1, 2, Fraction(8 + 12, 4) + Fraction(20, 2)]


def test_ward_on_a_line() -> None:
    edges = [(0, 1, 2.0), (0, 2, 6.0), (1, 2, 4.0)]  # at 0, 2 and 6: the first two have their mean at 1
    merges = hac(3, edges, "ward")
    assert [merge.height for merge in merges] == [4, Fraction(2 * 2 * 1, 2 + 1) * 5**2]
    assert hac(3, edges, "ward", max_height=5.0) == merges[:1]
    assert labels(3, merges, height=2.0, linkage="ward") == [0, 0, 1]
