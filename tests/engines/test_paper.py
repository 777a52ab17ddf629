"""The paper's theorems, counted in rounds without the finisher."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dask_rac
from tests.reference import AnyOrder
from tests.support.effort import examples
from tests.support.graphs import columns
from tests.support.results import merge_set
from tests.support.strategies import Graph, graphs, linkages, missing_value


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


@examples(100)
@given(graphs(), linkages().filter(lambda how: how[0] != "single"))
def test_lemma_2_pairs_that_are_each_others_nearest_in_any_state_merge(graph: Graph, how: tuple[str, str]) -> None:
    linkage, missing = how[0], missing_value(how[1], graph)
    found = dask_rac.cluster(columns(graph), linkage, missing, n_nodes=graph.n_nodes, finisher=False)
    merged = set(found.merges[["left", "right", "size"]].itertuples(index=False, name=None))
    clusters = AnyOrder(graph.n_nodes, graph.edges, linkage, missing, "distance", None)
    while clusters.keys:
        for lo, hi in clusters.reciprocal():
            assert (lo, hi, len(clusters.nodes[lo]) + len(clusters.nodes[hi])) in merged
        clusters.merge(*clusters.first(clusters.keys))


@examples(100)
@given(graphs(), linkages().filter(lambda how: how[0] != "single"), st.randoms(use_true_random=False))
def test_lemma_3_merges_done_too_early_change_no_other(graph: Graph, how: tuple[str, str], random: Random) -> None:
    linkage, missing = how[0], missing_value(how[1], graph)
    found = dask_rac.cluster(columns(graph), linkage, missing, n_nodes=graph.n_nodes, finisher=False)
    expected = merge_set(found)
    clusters, done = AnyOrder(graph.n_nodes, graph.edges, linkage, missing, "distance", None), []
    early = [(left, right) for right, left, *_ in expected]
    random.shuffle(early)
    whole = {(left, right): size for right, left, _, size in expected}
    for lo, hi in early[: len(early) // 2]:
        if {lo, hi} <= set(clusters.nodes) and len(clusters.nodes[lo] | clusters.nodes[hi]) == whole[lo, hi]:
            done.append(clusters.merge(lo, hi))
    while clusters.keys:
        done.append(clusters.merge(*clusters.first(clusters.keys)))
    assert sorted((merge.right, merge.left, float(merge.height), merge.size) for merge in done) == expected


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


def test_theorem_6_each_factor_of_the_nodes_adds_the_same_number_of_rounds() -> None:
    # A line with random gaps, where a round closes a bit more than a fifth of them: log 4 / -log 0.78 is 5.6.
    counts = []
    for nodes in (1000, 4000, 16_000, 64_000):
        seeds = [np.random.default_rng((nodes, seed)) for seed in range(8)]
        lines = [path_graph(rng.permutation(nodes - 1).astype(float)) for rng in seeds]
        counts.append(np.mean([len(dask_rac.cluster(line, finisher=False, progress=False).rounds) for line in lines]))
    assert np.all(np.abs(np.diff(counts) - 5.6) < 2)


@pytest.mark.parametrize("linkage", ["average", "complete"])
def test_theorem_7_all_rounds_go_through_a_few_times_all_pairs(linkage: str) -> None:
    passes = []
    for nodes in (250, 1000, 4000):
        points = np.random.default_rng(nodes).normal(size=(nodes, 8))
        rounds = dask_rac.cluster(points, linkage, engine="matrix").rounds
        assert rounds["edges"].tolist() == [count * (count - 1) // 2 for count in rounds["clusters"]]
        passes.append(rounds["edges"].sum() / (nodes * (nodes - 1) / 2))
    assert max(passes) < 1.5 * min(passes)
    assert max(passes) < 8


@pytest.mark.parametrize("degree", [2, 4, 8])
def test_theorem_8_the_share_that_merges_has_the_mean_and_the_spread_of_the_model(degree: int) -> None:
    # Each edge competes with 2 (degree - 1) others, and merges if it is the lightest.
    nodes, shares = 2000, []
    u = np.tile(np.arange(nodes), degree // 2)
    v = (u + np.repeat(np.arange(1, degree // 2 + 1), nodes)) % nodes
    for seed in range(40):
        weight = np.random.default_rng((degree, seed)).permutation(len(u)).astype(float)
        shares.append(dask_rac.cluster((u, v, weight), finisher=False).rounds["merges"][0] / nodes)
    spread = np.std(shares)
    assert abs(np.mean(shares) - degree / 2 / (2 * degree - 1)) < 5 * spread / len(shares) ** 0.5
    assert 0 < spread**2 < (degree**2 + 1) * degree / (2 * nodes)


def test_theorem_9_bounded_ratios_make_the_work_linear(tmp_path: Path) -> None:
    found = []
    for nodes in (2000, 8000, 32_000):
        path = dask_rac.datasets.lattice(nodes, 20, store=tmp_path / f"{nodes}", weights="similarity")
        rounds = dask_rac.cluster(path, weights="similarity").rounds
        clusters, merges, updates = (rounds[name].sum() for name in ("clusters", "merges", "nearest_updates"))
        found.append((merges / clusters, updates / merges, rounds["edges"].sum() / (10 * nodes)))
    alpha, beta, passes = np.array(found).T
    assert alpha.min() > 0.2
    assert beta.max() < 1.6
    assert np.ptp(passes) < 0.1 * passes.min()
