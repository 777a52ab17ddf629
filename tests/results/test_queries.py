"""Queries on a clustering, against brute force on its merges, in memory and in a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.files.node_names import NamesInMemory
from tests.support.folders import quick_folder
from tests.support.graphs import run, tangled_edges
from tests.support.stored import write_parquet
from tests.support.strategies import WEIGHTS, Graph, graphs

EDGES = tangled_edges(120, 300, 30, seed=5)
NODES = 125


def named(found: Any) -> Any:
    """Name the nodes of a clustering."""
    found.names = NamesInMemory([f"n{node}" for node in range(found.n_nodes)])
    return found


@pytest.fixture(scope="module")
def runs() -> Iterator[tuple[dask_rac.StoredClustering, dask_rac.Clustering]]:
    """The same clustering, stored and in memory."""
    with quick_folder() as made:
        edges = write_parquet(made / "edges.parquet", EDGES)
        stored = dask_rac.cluster(edges, n_nodes=NODES, shards=3, store=made / "run")
        assert isinstance(stored, dask_rac.StoredClustering)
        yield stored, dask_rac.cluster(EDGES, n_nodes=NODES)


def clusters_of(found: dask_rac.Clustering, sign: float) -> list[tuple[frozenset[int], float, frozenset[int]]]:
    """Every cluster with its height and the part on the right, in the order of sequential HAC."""
    live = {node: frozenset([node]) for node in range(found.n_nodes)}
    rows = found.merges[["left", "right", "height", "size"]].itertuples(index=False)
    made = []
    for left, right, height, _ in sorted(rows, key=lambda row: (sign * row[2], row[3], row[0])):
        part = live.pop(right)
        live[left] |= part
        made.append((live[left], height, part))
    return made


@pytest.mark.kernels
@given(graphs(), WEIGHTS, st.data())
def test_paths_are_the_clusters_that_contain_a_node(graph: Graph, weights: str, data: st.DataObject) -> None:
    found = run(graph, weights=weights)
    if not graph.n_nodes:
        return
    clusters = clusters_of(found, 1.0 if weights == "distance" else -1.0)
    a, b = (data.draw(st.integers(0, graph.n_nodes - 1)) for _ in range(2))
    expected = []
    for cluster, height, part in clusters:
        if a in cluster:
            other = cluster - part if a in part else part
            expected.append([min(cluster), height, len(cluster), min(other), len(other)])
    path = found.path(a)
    assert path.columns.tolist() == ["node", "height", "size", "joined", "joined_size"]
    assert path.to_numpy().tolist() == expected
    common = [(cluster, height) for cluster, height, _ in clusters if {a, b} <= cluster]
    lowest = found.lowest_common(a, b)
    if a == b:
        assert (lowest.node, lowest.size, np.isnan(lowest.height)) == (a, 1, True)  # type: ignore[union-attr]
    elif common:
        cluster, height = common[0]
        assert (lowest.node, lowest.size, lowest.height) == (min(cluster), len(cluster), height)  # type: ignore[union-attr]
    else:
        assert lowest is None


@given(graphs(), WEIGHTS, st.data())
def test_a_subtree_is_the_tree_inside_of_a_cluster(graph: Graph, weights: str, data: st.DataObject) -> None:
    found = run(graph, weights=weights)
    if not graph.n_nodes:
        return
    count = data.draw(st.integers(found.n_trees, graph.n_nodes))
    node = data.draw(st.integers(0, graph.n_nodes - 1))
    labels = found.cut(n_clusters=count)
    nodes = found.members(labels[node], n_clusters=count)
    assert nodes.tolist() == np.flatnonzero(labels == labels[node]).tolist()
    assert found.members(node=node, n_clusters=count).tolist() == nodes.tolist()
    part = found.subtree(node=node, n_clusters=count)
    assert (part.n_nodes, part.n_trees) == (len(nodes), 1)
    for smaller in range(count, graph.n_nodes + 1):
        inner = found.cut(n_clusters=smaller)[nodes]
        assert (
            part.cut(n_clusters=len(set(inner.tolist()))).tolist() == np.unique(inner, return_inverse=True)[1].tolist()
        )


def mean_weights(labels: Any, missing: float) -> dict[int, float]:
    """The mean weight between each node and the others of its cluster, from a matrix."""
    matrix = np.full((NODES, NODES), missing)
    u, v, weight = EDGES
    matrix[u, v] = matrix[v, u] = weight
    np.fill_diagonal(matrix, 0.0)
    means = {}
    for node in range(NODES):
        others = np.flatnonzero((labels == labels[node]) & (np.arange(NODES) != node))
        means[node] = float(matrix[node, others].mean()) if len(others) and labels[node] >= 0 else np.nan
    return means


def test_representatives_are_the_most_central(runs: Any) -> None:
    stored, here = runs
    cut: dict[str, Any] = {"n_clusters": 8, "min_size": 3}
    found = here.representatives(**cut, count=2, edges=EDGES)
    labels = here.cut(**cut)
    means = mean_weights(labels, 2 * EDGES[2].max())
    for label in range(labels.max() + 1):
        nodes = np.flatnonzero(labels == label)
        expected = sorted(nodes.tolist(), key=lambda node: (means[node], node))[:2]
        rows = found[found["label"] == label]
        assert rows["node"].tolist() == expected
        assert rows["size"].tolist() == [len(nodes)] * 2
        np.testing.assert_allclose(rows["mean_weight"], [means[node] for node in expected])
    pd.testing.assert_frame_equal(stored.representatives(**cut, count=2), found)
    pd.testing.assert_frame_equal(stored.representatives(**cut, count=2, edges=EDGES), found)
    with pytest.raises(dask_rac.InputError, match=r"needs the edges again: call .* with those that were clustered"):
        here.representatives(**cut)


@pytest.mark.parametrize("store", [False, True])
def test_representatives_of_vectors_are_medoids(store: bool, tmp_path: Path) -> None:
    points = np.random.default_rng(0).normal(size=(60, 3))
    np.save(tmp_path / "points.npy", points)
    given = str(tmp_path / "points.npy") if store else points
    found = dask_rac.cluster(given, "average", metric="euclidean", store=tmp_path / "run" if store else None)
    labels = found.cut(n_clusters=4)
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    expected = [
        min(np.flatnonzero(labels == k), key=lambda i: distances[i, labels == labels[i]].sum()) for k in range(4)
    ]
    assert found.representatives(n_clusters=4)["node"].tolist() == expected


def test_similar_nodes_are_central() -> None:
    edges = [0, 0, 0, 1, 4], [1, 2, 3, 2, 5], [0.9, 0.8, 0.7, 0.5, 0.3]
    found = named(dask_rac.cluster(edges, weights="similarity", n_nodes=7))
    table = found.representatives(n_clusters=3, edges=edges)
    assert table.columns.tolist() == ["label", "node", "name", "size", "mean_weight"]
    assert table["name"].tolist() == ["n0", "n4", "n6"]
    np.testing.assert_allclose(table["mean_weight"], [0.8, 0.3, np.nan])


def test_a_store_answers_as_memory_does(runs: Any) -> None:
    stored, here = runs
    for node in (0, 17, 119, 124):
        pd.testing.assert_frame_equal(stored.path(node), here.path(node))
        assert stored.lowest_common(node, 40) == here.lowest_common(node, 40) or node == 40
    for wanted in ({"height": 12.0}, {"method": "eom", "min_cluster_size": 4}):
        assert stored.members(0, **wanted).tolist() == here.members(0, **wanted).tolist()
        part = stored.subtree(0, **wanted)
        assert not isinstance(part, dask_rac.StoredClustering)
        pd.testing.assert_frame_equal(part.merges, here.subtree(0, **wanted).merges)


def test_names_are_kept_and_understood(runs: Any) -> None:
    _, here = runs
    found = named(dask_rac.cluster(EDGES, n_nodes=NODES))
    expected = here.members(node=17, height=12.0)
    members = found.members(node="n17", height=12.0)
    assert members.tolist() == [f"n{node}" for node in expected]
    assert (members.index.tolist(), members.index.name, members.name) == (expected.tolist(), "node", "name")
    assert found.members(node="n17", height=12.0, names=False).tolist() == expected.tolist()
    path = found.path("n17")
    assert path["name"].tolist() == [f"n{node}" for node in path["node"]]
    assert path["joined_name"].tolist() == [f"n{node}" for node in path["joined"]]
    assert found.path("n124").columns.tolist()[-2:] == ["name", "joined_name"]
    assert found.lowest_common("n17", 18) == here.lowest_common(17, 18)
    part = found.subtree(node="n17", height=12.0)
    assert part.labels.index.tolist() == members.tolist()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda c: c.members(height=1.0), r"members\(\) takes either the label of a cluster, or node="),
        (lambda c: c.members(0, node=1, height=1.0), r"members\(\) takes either the label of a cluster, or node="),
        (lambda c: c.members(0), r"takes either height= or n_clusters="),
        (lambda c: c.members(0, depth=3), r"members\(\) does not know depth="),
        (lambda c: c.members(9, height=1.0), "label=9 does not exist: this cut has 2 clusters"),
        (lambda c: c.members(-2, height=1.0), "label=-2 is out of range"),
        (lambda c: c.members(0, height=[1.0, 2.0]), r"is a list: members\(\) is about one cut"),
        (lambda c: c.members(node=2, height=1.0, min_size=2), "node=2 is in no cluster of this cut"),
        (lambda c: c.members(node="a", height=1.0), "the nodes of this clustering have no names"),
        (lambda c: c.subtree(-1, height=1.0), "label=-1 is for nodes in no cluster"),
        (lambda c: c.subtree(height=1.0), r"subtree\(\) takes either"),
        (lambda c: c.path(3), "node=3 does not exist: nodes are 0 to 2"),
        (lambda c: c.lowest_common(0, 1.5), "node=1.5 is not a whole number"),
        (lambda c: c.representatives(count=0, height=1.0), "count=0 is out of range"),
    ],
)
def test_what_cannot_be_asked(ask: Any, message: str) -> None:
    found = dask_rac.cluster(([0, 1], [1, 2], [1.0, 2.0]))
    with pytest.raises(dask_rac.InputError, match=message):
        ask(found)
    assert found.members(-1, height=1.0, min_size=2).tolist() == [2]
