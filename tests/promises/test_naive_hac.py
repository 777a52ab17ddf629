"""Promise 1: the merges are those of naive sequential HAC; scipy and fastcluster agree on complete graphs."""

from itertools import product
from typing import Any
from unittest import mock

import fastcluster
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster import hierarchy
from scipy.spatial.distance import pdist

import dask_rac
from dask_rac.base import ids
from dask_rac.engines.contract import Limits
from tests.reference import hac, reciprocal_rounds
from tests.support.effort import examples
from tests.support.graphs import columns
from tests.support.limits import cluster_within
from tests.support.results import merge_set
from tests.support.strategies import CEILINGS, WEIGHTS, Graph, colliding_graphs, graphs, linkages, missing_value


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
    # With the limits that users have, graphs this small would never reach the finisher.
    assert merge_set(cluster_within(Limits(hand_over=2.0), columns(graph), **options)) == expected


@pytest.mark.kernels
@given(graphs(), linkages().filter(lambda how: how[0] != "single"))
def test_rounds_are_those_of_the_paper(graph: Graph, how: tuple[str, str]) -> None:
    linkage, missing = how[0], missing_value(how[1], graph)
    expected = reciprocal_rounds(graph.n_nodes, graph.edges, linkage, missing)
    found = dask_rac.cluster(columns(graph), linkage, missing, n_nodes=graph.n_nodes, finisher=False)
    pairs = [sorted((merge.left, merge.right) for merge in merges) for merges in expected]
    by_round = found.merges.groupby("round")[["left", "right"]]
    assert [sorted(rows.itertuples(index=False, name=None)) for _, rows in by_round] == pairs
    assert found.rounds["merges"].tolist() == [len(merges) for merges in expected]


@pytest.mark.filterwarnings("ignore:one cluster holds")
@pytest.mark.parametrize(
    ("linkage", "missing"),
    [*product(["average", "complete", "single"], ["ignore", "infinite", 1e6]), ("weighted", 1e6)],
)
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


@pytest.mark.kernels
@examples(50)
@given(graphs(), linkages(), WEIGHTS)
def test_long_ids_give_the_same_merges(graph: Graph, how: tuple[str, str], weights: str) -> None:
    linkage, kind = how
    options: dict[str, Any] = {"linkage": linkage, "weights": weights, "n_nodes": graph.n_nodes}
    options["missing"] = missing_value(kind, graph, weights)
    short = dask_rac.cluster(columns(graph), **options)
    with mock.patch.object(ids, "INT32_CLUSTERS", 0):
        assert merge_set(cluster_within(Limits(hand_over=2.0), columns(graph), **options)) == merge_set(short)
