"""Flat cuts with small clusters left out, large ones split, or clusters chosen by stability, against brute force."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

import dask_rac
from tests.support.effort import examples
from tests.support.graphs import run, tangled_edges
from tests.support.strategies import WEIGHTS, Graph, graphs

Merge = tuple[int, int, float, int]
Node = tuple[frozenset[int], float, Any]
"""A cluster: its nodes, its height, and its two parts, or None for a single node."""


def merges_of(found: dask_rac.Clustering, sign: float) -> list[Merge]:
    """The merges in the order of sequential HAC."""
    rows = found.merges[["left", "right", "height", "size"]].itertuples(index=False)
    return sorted(map(tuple, rows), key=lambda merge: (sign * merge[2], merge[3], merge[0]))


def numbered(n_nodes: int, clusters: list[frozenset[int]]) -> list[int]:
    """Labels of some disjoint clusters, numbered by smallest node; -1 for the rest."""
    labels = [-1] * n_nodes
    for label, cluster in enumerate(sorted(clusters, key=min)):
        for node in cluster:
            labels[node] = label
    return labels


def applied(n_nodes: int, merges: list[Merge]) -> list[frozenset[int]]:
    """The clusters after some merges."""
    clusters = {node: frozenset([node]) for node in range(n_nodes)}
    for left, right, _, _ in merges:
        clusters[left] |= clusters.pop(right)
    return list(clusters.values())


def split(cluster: frozenset[int], merges: list[Merge], most: int) -> list[frozenset[int]]:
    """Undo the last merges of a cluster until no part is larger."""
    if len(cluster) <= most:
        return [cluster]
    inside = [merge for merge in merges if merge[1] in cluster and merge[0] in cluster]
    last = max(range(len(inside)), key=lambda k: inside[k][3])
    parts = [part for part in applied(max(cluster) + 1, inside[:last] + inside[last + 1 :]) if part <= cluster]
    return [small for part in parts for small in split(part, merges, most)]


@given(graphs(), WEIGHTS, st.integers(1, 5), st.integers(5, 8))
def test_small_clusters_are_left_out_and_large_ones_split(graph: Graph, weights: str, least: int, most: int) -> None:
    sign = 1.0 if weights == "distance" else -1.0
    found = run(graph, weights=weights)
    merges = merges_of(found, sign)
    for height in {merge[2] for merge in merges} | {0.0, 100.0}:
        below = [merge for merge in merges if sign * merge[2] <= sign * height]
        clusters = applied(graph.n_nodes, below)
        large = [cluster for cluster in clusters if len(cluster) >= least]
        assert found.cut(height=height, min_size=least).tolist() == numbered(graph.n_nodes, large)
        parts = [part for cluster in clusters for part in split(cluster, below, most)]
        assert found.cut(height=height, max_size=most).tolist() == numbered(graph.n_nodes, parts)
        both = [part for part in parts if len(part) >= least]
        labels = found.cut(height=height, min_size=least, max_size=most)
        assert labels.tolist() == numbered(graph.n_nodes, both)
        assert labels.dtype == np.int64


@pytest.mark.kernels
@given(graphs(), WEIGHTS, st.integers(1, 4), st.sampled_from([None, 4, 6]))
def test_n_clusters_counts_the_large_ones(graph: Graph, weights: str, least: int, most: int | None) -> None:
    found = run(graph, weights=weights)
    merges = merges_of(found, 1.0 if weights == "distance" else -1.0)
    merges = [merge for merge in merges if most is None or merge[3] <= most]
    by_count: dict[int, list[int]] = {}
    counts = []
    for done in range(len(merges) + 1):
        large = [cluster for cluster in applied(graph.n_nodes, merges[:done]) if len(cluster) >= least]
        counts.append(len(large))
        by_count[len(large)] = numbered(graph.n_nodes, large)  # the one with the most merges stays
    possible = [count for count in range(counts[-1], max(counts) + 1) if count]
    got = found.cut(n_clusters=possible, min_size=least, max_size=most) if possible else []
    assert [row.tolist() for row in got] == [by_count[count] for count in possible]
    for wrong in (max(counts) + 1, counts[-1] - 1, 0):
        if wrong not in possible and (wrong or counts[-1]):
            with pytest.raises(dask_rac.InputError, match=f"n_clusters={wrong} is not possible"):
                found.cut(n_clusters=wrong, min_size=least, max_size=most)


def trees_of(n_nodes: int, merges: list[Merge]) -> list[Node]:
    """The trees of a forest."""
    trees: dict[int, Node] = {node: (frozenset([node]), np.nan, None) for node in range(n_nodes)}
    for left, right, height, _ in merges:
        parts = trees[left], trees.pop(right)
        trees[left] = parts[0][0] | parts[1][0], height, parts
    return list(trees.values())


class Condensed:
    """A cluster of a condensed tree, made from the top as HDBSCAN does."""

    def __init__(self, top: Node, birth: Fraction, begin: float, rules: dict[str, Any]) -> None:
        self.nodes, self.begin, self.parts = top[0], begin, list[Condensed]()
        self.stability = Fraction(0)
        close, least = rules["close"], rules["least"]
        while top[2] is not None:
            lost = [part for part in top[2] if len(part[0]) < least]
            at = close(top[1])
            if len(lost) == 1:
                self.stability += len(lost[0][0]) * (at - birth)
                (top,) = [part for part in top[2] if part is not lost[0]]
                continue
            self.stability += len(top[0]) * (at - birth)
            if not lost:
                self.parts = [Condensed(part, at, top[1], rules) for part in top[2]]
            break

    def most_stable(self, allowed: Any) -> tuple[Fraction, list[Condensed]]:
        """The chosen clusters, and their stability together."""
        below = [part.most_stable(allowed) for part in self.parts]
        total = sum((stability for stability, _ in below), Fraction(0))
        if allowed(self) and total <= self.stability:
            return self.stability, [self]
        return total, [chosen for _, some in below for chosen in some]

    def leaves(self, allowed: Any) -> list[Condensed]:
        """Clusters that do not split."""
        if self.parts:
            return [leaf for part in self.parts for leaf in part.leaves(allowed)]
        return [self] if allowed(self) else []

    def above(self, other: Condensed) -> list[Condensed]:
        """The clusters from this one down to another."""
        if self is other:
            return [self]
        below = [path for part in self.parts if (path := part.above(other))]
        return [self, *below[0]] if below else []


def closeness(merges: list[Merge], weights: str, linkage: str) -> tuple[Any, Fraction]:
    """How close the parts of a merge at a height are, and what is beyond the top of a tree."""
    heights = [merge[2] for merge in merges if merge[2] > 0]
    least, most = min(heights, default=1.0), max(heights, default=1.0)
    if linkage == "single":
        if weights == "similarity":
            return Fraction, Fraction(0)
        return (lambda height: 1 / Fraction(max(height, least))), Fraction(0)
    beyond = -Fraction(log2(most / least))
    if weights == "similarity":
        return (lambda height: Fraction(log2(max(height, least) / least))), beyond
    return (lambda height: Fraction(log2(most / max(height, least)))), beyond


def chosen_clusters(n_nodes: int, merges: list[Merge], kind: tuple[str, str], options: dict[str, Any]) -> list[int]:
    """Labels of the clusters that are chosen by their stability."""
    weights, linkage = kind
    sign = 1.0 if weights == "distance" else -1.0
    least, single = options["min_cluster_size"], options.get("allow_single_cluster", False)
    close, beyond = closeness(merges, weights, linkage)
    rules = {"close": close, "least": least}
    tops = [tree for tree in trees_of(n_nodes, merges) if len(tree[0]) >= least]
    roots = [Condensed(top, beyond, sign * np.inf, rules) for top in tops]
    shut = roots[0] if len(roots) == 1 and not single else None
    most = options.get("max_cluster_size", n_nodes)

    def fits(cluster: Condensed) -> bool:
        return cluster is not shut and (len(cluster.nodes) <= most or options["method"] == "leaf")

    epsilon = options.get("cluster_selection_epsilon", 0.0)
    found: list[Condensed] = []
    for root in roots:
        chosen = root.most_stable(fits)[1] if options["method"] == "eom" else root.leaves(fits)
        found += [climbed(root.above(cluster), epsilon, sign, shut) for cluster in chosen]
    best = [one.nodes for one in found if not any(one.nodes < other.nodes for other in found)]
    return numbered(n_nodes, list(set(best)))


def climbed(path: list[Condensed], epsilon: float, sign: float, shut: Condensed | None) -> Condensed:
    """Go up from the end of a path while the cluster begins below a height."""
    if not epsilon or not sign * path[-1].begin < sign * epsilon:
        return path[-1]
    for k in range(len(path) - 1, 0, -1):
        if path[k - 1] is shut:
            return path[k]
        if sign * path[k - 1].begin > sign * epsilon:
            return path[k - 1]
    return path[0]


EXACT = st.sampled_from([0.0, 1.0, 2.0, 4.0, 8.0])  # whose ratios and sums are exact


@st.composite
def exact_forests(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, float]]]:
    """Edges of random trees with few different weights."""
    n_nodes = draw(st.integers(1, 24))
    edges = [
        (draw(st.integers(max(0, node - 6), node - 1)), node, draw(EXACT))
        for node in range(1, n_nodes)
        if draw(st.integers(0, 12))
    ]
    return n_nodes, edges


@st.composite
def options_of(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a cut by stability."""
    options: dict[str, Any] = {
        "method": draw(st.sampled_from(["eom", "leaf"])),
        "min_cluster_size": draw(st.integers(2, 5)),
    }
    if draw(st.booleans()):
        options["allow_single_cluster"] = draw(st.booleans())
    if draw(st.booleans()):
        options["cluster_selection_epsilon"] = draw(st.sampled_from([0.0, 1.0, 1.5, 2.0, 5.0]))
    if options["method"] == "eom" and draw(st.booleans()):
        options["max_cluster_size"] = draw(st.integers(2, 12))
    return options


@pytest.mark.kernels
@examples(300)
@given(exact_forests(), WEIGHTS, st.sampled_from(["single", "complete"]), options_of())
def test_stable_clusters_are_those_of_brute_force(
    forest: tuple[int, list[tuple[int, int, float]]], weights: str, linkage: str, options: dict[str, Any]
) -> None:
    n_nodes, edges = forest
    found = run(Graph(n_nodes, edges), linkage=linkage, weights=weights, missing="ignore")
    merges = merges_of(found, 1.0 if weights == "distance" else -1.0)
    labels = found.cut(**options)
    assert labels.tolist() == chosen_clusters(n_nodes, merges, (weights, linkage), options)
    assert labels.dtype == np.int64
    sizes = Counter(labels[labels >= 0].tolist()).values()
    assert all(size >= options["min_cluster_size"] for size in sizes)


def same_partition(ours: NDArray[np.integer], theirs: NDArray[np.integer]) -> bool:
    """Whether two labellings name the same clusters, and the same nodes none."""
    pairs = set(zip(ours.tolist(), theirs.tolist(), strict=True))
    same = len(pairs) == len(set(ours.tolist())) == len(set(theirs.tolist()))
    return same and np.array_equal(ours < 0, theirs < 0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("method", ["eom", "leaf"])
def test_stable_clusters_are_those_of_scikit_learn(method: str, seed: int) -> None:
    points, _ = make_blobs(400, 2 + seed % 3, centers=3 + seed, cluster_std=1.5, random_state=seed)
    points = np.concatenate((points, np.random.default_rng(seed).uniform(-12, 12, (60, points.shape[1]))))
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    found = dask_rac.cluster(distances, "single", metric="precomputed")
    cases: list[dict[str, Any]] = [{}, {"max_cluster_size": 60}] if method == "eom" else [{}]
    for least in (3, 5, 15):
        for case in cases:
            theirs = HDBSCAN(
                metric="precomputed",
                min_samples=1,
                min_cluster_size=least,
                cluster_selection_method=method,
                copy=True,
                **case,
            ).fit(distances)
            ours = found.cut(method=method, min_cluster_size=least, **case)
            assert same_partition(ours, theirs.labels_), (least, case)
            if case == {}:
                assert same_partition(found.cut(method=method, min_cluster_size=[7, least])[1], ours)


def test_far_pairs_do_not_hide_clusters() -> None:
    points, made = make_blobs(600, 2, centers=[[0, 0], [4, 0], [2, 3.5]], cluster_std=0.8, random_state=0)
    edges = dask_rac.knn_graph(points, 15)
    found = dask_rac.cluster(edges, missing=2 * float(edges["weight"].max()))
    labels = found.cut(method="eom", min_cluster_size=20)
    assert labels.max() + 1 == 3
    assert adjusted_rand_score(made, labels) > 0.9


def test_a_single_cluster_only_if_allowed() -> None:
    line = dask_rac.cluster((range(9), range(1, 10), np.linspace(1.0, 1.1, 9)), "single")
    assert line.cut(method="eom").tolist() == [-1] * 10
    assert line.cut(method="leaf").tolist() == [-1] * 10
    assert line.cut(method="eom", min_cluster_size=6, allow_single_cluster=True).tolist() == [0] * 10
    two = dask_rac.cluster(([0, 1, 3, 4], [1, 2, 4, 5], np.ones(4)), "single", n_nodes=7)
    assert two.cut(method="eom", min_cluster_size=3).tolist() == [0, 0, 0, 1, 1, 1, -1]


@pytest.mark.parametrize("n_nodes", [0, 1, 4])
def test_graphs_without_edges_have_no_cluster(n_nodes: int) -> None:
    empty = dask_rac.cluster(([], [], []), n_nodes=n_nodes)
    assert empty.cut(method="eom", min_cluster_size=2).tolist() == [-1] * n_nodes
    assert empty.cut(height=1.0, min_size=2).tolist() == [-1] * n_nodes
    assert empty.cut(height=1.0, max_size=1).tolist() == list(range(n_nodes))
    with pytest.raises(dask_rac.InputError, match="n_clusters=1 is not possible with min_size=2: no cluster is that"):
        empty.cut(n_clusters=1, min_size=2)


@pytest.mark.parametrize("weights", ["distance", "similarity"])
def test_cuts_of_a_store_are_those_in_memory(weights: str, tmp_path: Path) -> None:
    edges = tangled_edges(300, 900, 40, seed=3)
    here = dask_rac.cluster(edges, weights=weights, n_nodes=310)
    stored = dask_rac.cluster(edges, weights=weights, n_nodes=310, shards=3, store=tmp_path / "run")
    for wanted in (
        {"height": [5.0, 20.0], "min_size": 4},
        {"height": 20.0, "max_size": 9},
        {"n_clusters": [200, 250], "max_size": 9},
        {"n_clusters": [5, 2], "min_size": 4},
        {"method": "eom", "min_cluster_size": [3, 5, 8]},
        {"method": "leaf", "min_cluster_size": 4, "cluster_selection_epsilon": 12.0},
    ):
        np.testing.assert_array_equal(stored.cut(**wanted), here.cut(**wanted))
    stored.cut(method="eom", min_cluster_size=[3, 5], store=tmp_path / "labels.csv")
    head, first = (tmp_path / "labels.csv").read_text().splitlines()[:2]
    assert head == "node,min_cluster_size=3,min_cluster_size=5"
    assert first == "0," + ",".join(map(str, here.cut(method="eom", min_cluster_size=[3, 5])[:, 0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"height": 1.0, "min_size": 0}, "min_size=0 is out of range: use 1 or more"),
        ({"height": 1.0, "max_size": 2.5}, "max_size=2.5 is not a whole number"),
        ({"height": 1.0, "min_size": 3, "max_size": 2}, "min_size=3 is more than max_size=2"),
        ({"height": 1.0, "method": "eom"}, "height=1.0 and method='eom' exclude each other"),
        ({"min_size": 3, "method": "leaf"}, "min_size=3 and method='leaf' exclude each other"),
        ({"method": "stable"}, "method='stable' is unknown: use one of 'eom', 'leaf'"),
        ({"method": "eom", "min_cluster_size": 1}, "min_cluster_size=1 is out of range: use 2 or more"),
        ({"method": "eom", "min_cluster_size": [5, 2.5]}, "is neither a whole number nor a list of them"),
        ({"method": "leaf", "max_cluster_size": 5}, "max_cluster_size=5 is for method='eom'"),
        ({"method": "eom", "cluster_selection_epsilon": -1.0}, "cluster_selection_epsilon=-1.0 is below 0"),
        ({"method": "eom", "allow_single_cluster": 1}, "allow_single_cluster=1 is neither True nor False"),
        ({"height": 1.0, "min_cluster_size": 5}, "min_cluster_size=5 is for method='eom' or method='leaf'"),
        ({"n_clusters": 2, "max_size": 1}, "the 2 nodes are in 2 or more clusters|choose 2 to 2"),
        ({"n_clusters": 2, "min_size": 2}, "n_clusters=2 is not possible with min_size=2: choose 1 to 1"),
    ],
)
def test_what_cannot_be_asked_for(arguments: dict[str, Any], message: str) -> None:
    found = dask_rac.cluster(([0], [1], [1.0]))
    if arguments.get("max_size") == 1:
        arguments = arguments | {"n_clusters": 1}
    with pytest.raises(dask_rac.InputError, match=message):
        found.cut(**arguments)


@pytest.mark.soak
def test_ten_million_merges() -> None:
    nodes = 10_000_001
    weight = np.random.default_rng(0).random(nodes - 1)
    found = dask_rac.cluster((np.arange(nodes - 1), np.arange(1, nodes), weight), "single")
    labels = found.cut(method="eom", min_cluster_size=50)
    assert np.bincount(labels[labels >= 0]).min() >= 50
