"""`cluster` against independent answers: the oracle merge for merge, scipy and fastcluster on complete graphs."""

import hashlib
from typing import Any
from unittest import mock

import dask
import fastcluster
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.cluster import hierarchy
from scipy.spatial.distance import pdist

import dask_rac
from dask_rac import config, driver
from tests.effort import examples
from tests.reference import hac, reciprocal_rounds
from tests.strategies import Graph, colliding_graphs, graphs, linkages, missing_value

WEIGHTS = st.sampled_from(["distance", "similarity"])
CEILINGS = st.sampled_from([None, None, 0.0, 0.25, 0.5, 1.0, 1.5])
Edges = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def columns(graph: Graph) -> Edges:
    """The edges of a generated graph as three arrays."""
    table = np.array(graph.edges, float).reshape(-1, 3)
    return table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2]


def merge_set(clustering: dask_rac.Clustering) -> list[tuple[Any, ...]]:
    """The merges without their rounds, by the cluster that each ends."""
    return sorted(clustering.merges[["right", "left", "height", "size"]].itertuples(index=False, name=None))


def merge_hash(clustering: dask_rac.Clustering) -> str:
    """One hash over everything in the merges."""
    return hashlib.sha256(b"".join(column.to_numpy().tobytes() for _, column in clustering.merges.items())).hexdigest()


def tangled_edges(nodes: int, edges: int, values: int, seed: int) -> Edges:
    """A random graph with hubs, many ties, several components and isolated nodes; every edge once."""
    rng = np.random.default_rng(seed)
    u = np.concatenate((rng.integers(nodes, size=edges), rng.integers(5, size=edges // 4)))
    v = np.concatenate((rng.integers(nodes, size=edges), rng.integers(nodes, size=edges // 4)))
    lo, hi = np.minimum(u, v), np.maximum(u, v)
    keep = (lo != hi) & (hi % 17 != 0) & ((lo < nodes // 2) == (hi < nodes // 2))
    pairs = np.unique(np.column_stack((lo[keep], hi[keep])), axis=0)
    return pairs[:, 0], pairs[:, 1], rng.integers(1, values + 1, size=len(pairs)).astype(float)


@pytest.mark.kernels
@examples(2000)
@given(st.one_of(graphs(), colliding_graphs()), linkages(), WEIGHTS, CEILINGS)
def test_equals_naive_hac(graph: Graph, how: tuple[str, str], weights: str, max_height: float | None) -> None:
    linkage, kind = how
    missing = missing_value(kind, graph, weights)
    oracle = hac(graph.n_nodes, graph.edges, linkage, missing, weights, max_height)
    expected = sorted((merge.right, merge.left, float(merge.height), merge.size) for merge in oracle)
    options: dict[str, Any] = {
        "linkage": linkage,
        "missing": missing,
        "weights": weights,
        "max_height": max_height,
        "n_nodes": graph.n_nodes,
    }
    assert merge_set(dask_rac.cluster(columns(graph), finisher=False, **options)) == expected
    with mock.patch.object(driver, "HAND_OVER", 2.0):  # graphs this small would never come to the finisher
        assert merge_set(dask_rac.cluster(columns(graph), **options)) == expected


@pytest.mark.kernels
@given(graphs(), st.sampled_from(["average", "complete"]), st.sampled_from(["ignore", "infinite", "number"]))
def test_rounds_are_those_of_the_paper(graph: Graph, linkage: str, kind: str) -> None:
    missing = missing_value(kind, graph)
    expected = reciprocal_rounds(graph.n_nodes, graph.edges, linkage, missing)
    found = dask_rac.cluster(columns(graph), linkage, missing, n_nodes=graph.n_nodes, finisher=False)
    pairs = [sorted((merge.left, merge.right) for merge in merges) for merges in expected]
    by_round = found.merges.groupby("round")[["left", "right"]]
    assert [sorted(rows.itertuples(index=False, name=None)) for _, rows in by_round] == pairs
    assert found.rounds["merges"].tolist() == [len(merges) for merges in expected]


@pytest.mark.parametrize("linkage", ["average", "complete", "single"])
@pytest.mark.parametrize("missing", ["ignore", "infinite", 1e6])
@pytest.mark.parametrize("nodes", [2, 3, 50, 400])
def test_complete_graphs_agree_with_scipy_and_fastcluster(linkage: Any, missing: str | float, nodes: int) -> None:
    rng = np.random.default_rng(nodes)
    distances = pdist(rng.random((nodes, 4)))
    found = dask_rac.cluster((*np.triu_indices(nodes, 1), distances), linkage, missing)
    for peer in (hierarchy.linkage(distances, linkage), fastcluster.linkage(distances, linkage)):
        np.testing.assert_allclose(found.to_scipy()[:, 2], peer[:, 2], rtol=1e-9)
    k = min(5, nodes)
    ours, theirs = found.cut(n_clusters=k), hierarchy.fcluster(peer, k, "maxclust")
    assert len(set(zip(ours, theirs, strict=True))) == k


@pytest.mark.parametrize("seed", range(20))
def test_all_pairs_up_to_a_radius_give_the_complete_tree_up_to_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    distances = pdist(rng.random((80, 3)))
    u, v = np.triu_indices(80, 1)
    for radius in (0.1, 0.4, 0.8):
        near = distances <= radius
        found = dask_rac.cluster((u[near], v[near], distances[near]), "complete", "infinite", n_nodes=80)
        expected = hierarchy.linkage(distances, "complete")[:, 2]
        np.testing.assert_array_equal(np.sort(found.merges["height"]), expected[expected <= radius])


@pytest.mark.parametrize("linkage", ["average", "complete"])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
@pytest.mark.parametrize("missing", ["ignore", "infinite", "number"])
@pytest.mark.parametrize("values", [1, 3, 10**6])
def test_finisher_and_rounds_agree(linkage: str, weights: str, missing: str, values: int) -> None:
    edges = tangled_edges(3000, 9000, values, seed=values)
    number = edges[2].max() if weights == "distance" else 0.0
    options: dict[str, Any] = {
        "linkage": linkage,
        "weights": weights,
        "missing": number if missing == "number" else missing,
    }
    with mock.patch.object(driver, "HAND_OVER", 0.2):
        finished = dask_rac.cluster(edges, **options)
    rounds = dask_rac.cluster(edges, finisher=False, **options)
    assert not rounds.rounds["finisher"].any()
    assert merge_set(finished) == merge_set(rounds)
    if missing != "infinite":
        assert finished.rounds["finisher"].any()


def test_finisher_is_quick_where_a_hub_has_many_equal_edges() -> None:
    leaves = 50_000
    edges = np.zeros(leaves, int), np.arange(1, leaves + 1), np.ones(leaves)
    found = dask_rac.cluster(edges)
    assert found.rounds["merges"].tolist() == [1, leaves - 1]
    assert (found.merges["height"] == 1).all()


@pytest.mark.parametrize("linkage", ["average", "complete", "single"])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
@pytest.mark.parametrize("finisher", [True, False])
def test_threads_and_order_of_rows_never_show(linkage: str, weights: str, finisher: bool) -> None:
    u, v, _ = tangled_edges(20_000, 60_000, 1, seed=0)
    rng = np.random.default_rng(0)
    weight = np.where(rng.random(len(u)) < 0.5, rng.integers(1, 4, len(u)) / 10, rng.random(len(u)))
    options: dict[str, Any] = {"linkage": linkage, "weights": weights, "finisher": finisher, "max_height": 0.2}
    hashes = set()
    for threads in (1, 2, 3, 7):
        order = rng.permutation(len(u))
        swap = rng.random(len(u)) < 0.5
        ends = np.where(swap, u, v)[order], np.where(swap, v, u)[order]
        with dask.config.set(num_workers=threads):
            hashes.add(merge_hash(dask_rac.cluster((*ends, weight[order]), n_nodes=20_000, **options)))
    assert len(hashes) == 1


@pytest.mark.kernels
@examples(50)
@given(graphs(), linkages(), WEIGHTS)
def test_long_ids_give_the_same_merges(graph: Graph, how: tuple[str, str], weights: str) -> None:
    linkage, kind = how
    options: dict[str, Any] = {"linkage": linkage, "weights": weights, "n_nodes": graph.n_nodes}
    options["missing"] = missing_value(kind, graph, weights)
    short = dask_rac.cluster(columns(graph), **options)
    with mock.patch.object(config, "INT32_NODES", 0), mock.patch.object(driver, "HAND_OVER", 2.0):
        assert merge_set(dask_rac.cluster(columns(graph), **options)) == merge_set(short)


@pytest.mark.parametrize("linkage", ["average", "complete", "single"])
@pytest.mark.parametrize("missing", ["ignore", 0.7])
def test_heights_never_fall_though_sums_are_rounded(linkage: str, missing: str | float) -> None:
    u, v, weight = tangled_edges(2000, 8000, 7, seed=3)
    found = dask_rac.cluster((u, v, weight / 10), linkage, missing)
    top = np.zeros(found.n_nodes)
    for left, right, height in found.merges[["left", "right", "height"]].itertuples(index=False):
        assert height >= max(top[left], top[right])
        top[left] = height
    Z = found.to_scipy(join=True)
    assert hierarchy.is_valid_linkage(Z)
    assert hierarchy.is_monotonic(Z)


@pytest.mark.soak
@pytest.mark.parametrize("linkage", ["average", "complete"])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
@pytest.mark.parametrize("missing", ["ignore", "infinite", "number"])
@pytest.mark.parametrize("values", [3, 1000])
def test_where_the_finisher_takes_over_never_shows_in_large_graphs(
    linkage: str, weights: str, missing: str, values: int
) -> None:
    edges = tangled_edges(100_000, 400_000, values, seed=values)
    number = edges[2].max() if weights == "distance" else 0.0
    options: dict[str, Any] = {"linkage": linkage, "weights": weights}
    options["missing"] = number if missing == "number" else missing
    expected = merge_set(dask_rac.cluster(edges, **options))
    for hand_over in (0.1, 0.3):
        with mock.patch.object(driver, "HAND_OVER", hand_over):
            assert merge_set(dask_rac.cluster(edges, **options)) == expected
