"""The oracle itself: against scipy on complete graphs, and its rounds against its own sequence."""

from fractions import Fraction
from itertools import combinations
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cophenet, fcluster, linkage

from tests import reference
from tests.reference import Merge, hac, hash64, labels, reciprocal_rounds
from tests.support.effort import examples
from tests.support.strategies import LINKAGES, Graph, colliding_graphs, graphs, linkages, missing_value, tied_graphs

Method = Literal["average", "complete", "single"]

WEIGHTS = st.sampled_from(["distance", "similarity"])
checked = examples(300)


def complete_graph(n_nodes: int, seed: int) -> tuple[np.ndarray, list[tuple[int, int, float]]]:
    """Return random distances, condensed as scipy needs them, and as edges."""
    distances = np.random.default_rng(seed).random(n_nodes * (n_nodes - 1) // 2)
    pairs = combinations(range(n_nodes), 2)
    return distances, [(u, v, float(w)) for (u, v), w in zip(pairs, distances, strict=True)]


def merge_heights(n_nodes: int, merges: list[Merge]) -> list[float]:
    """Return the height at which each pair of nodes is joined, condensed."""
    cluster = list(range(n_nodes))
    met: dict[tuple[int, int], float] = {}
    for merge in merges:
        sides = [[node for node in range(n_nodes) if cluster[node] == side] for side in (merge.left, merge.right)]
        met |= {(min(u, v), max(u, v)): float(merge.height) for u in sides[0] for v in sides[1]}
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
@given(st.integers(2, 14), st.integers(0, 2**32), st.sampled_from(LINKAGES))
def test_complete_graphs_equal_scipy(n_nodes: int, seed: int, method: Method) -> None:
    distances, edges = complete_graph(n_nodes, seed)
    merges = hac(n_nodes, edges, method)
    tree = linkage(distances, method)
    assert [float(merge.height) for merge in merges] == pytest.approx(tree[:, 2].tolist())
    assert merge_heights(n_nodes, merges) == pytest.approx(cophenet(tree).tolist())


@checked
@given(st.integers(2, 14), st.integers(0, 2**32), st.sampled_from(LINKAGES), st.data())
def test_labels_equal_scipy(n_nodes: int, seed: int, method: Method, data: st.DataObject) -> None:
    distances, edges = complete_graph(n_nodes, seed)
    merges, tree = hac(n_nodes, edges, method), linkage(distances, method)
    n_clusters, height = data.draw(st.integers(1, n_nodes)), data.draw(st.integers(0, 64)) / 64
    assert same_partition(labels(n_nodes, merges, n_clusters), fcluster(tree, n_clusters, "maxclust").tolist())
    assert same_partition(labels(n_nodes, merges, height=height), fcluster(tree, height, "distance").tolist())


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
@given(graphs(), linkages())
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


@pytest.mark.parametrize(("method", "missing"), [("ward", "ignore"), ("average", "skip"), ("average", "inf")])
def test_unknown_words_are_refused(method: str, missing: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        hac(2, [(0, 1, 1.0)], method, missing)
