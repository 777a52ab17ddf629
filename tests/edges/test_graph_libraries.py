"""Graphs of networkx and igraph give the tree of their edges, and their nodes keep their names."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import igraph
import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from tests.support.clients import local_client
from tests.support.graphs import columns
from tests.support.results import assert_same, merge_set
from tests.support.root import ROOT
from tests.support.strategies import Graph, graphs


def as_networkx(graph: Graph, kind: Any = nx.Graph) -> Any:
    made = kind()
    made.add_nodes_from(reversed(range(graph.n_nodes)))
    made.add_weighted_edges_from(graph.edges)
    return made


def as_igraph(graph: Graph) -> Any:
    made = igraph.Graph(graph.n_nodes, [edge[:2] for edge in graph.edges])
    made.es["weight"] = [edge[2] for edge in graph.edges]
    return made


@given(graphs(), st.sampled_from(["distance", "similarity"]))
def test_numbered_graphs_are_their_edges(graph: Graph, weights: str) -> None:
    expected = dask_rac.cluster(columns(graph), n_nodes=graph.n_nodes, weights=weights)
    for kind in (nx.Graph, nx.DiGraph, nx.MultiGraph):
        found = dask_rac.cluster(as_networkx(graph, kind), weights=weights)
        assert_same(found, expected)
        assert found.names is None
    assert_same(dask_rac.cluster(as_igraph(graph), weights=weights), expected)


@given(graphs(), st.permutations(range(14)))
def test_other_nodes_are_numbered_in_their_order_and_named(graph: Graph, order: list[int]) -> None:
    labels = [f"node {number}" for number in order[: graph.n_nodes]]
    named = nx.relabel_nodes(as_networkx(graph), dict(enumerate(labels)))
    found = dask_rac.cluster(named)
    assert found.names is not None
    assert found.names.texts(np.arange(graph.n_nodes)) == list(named) == labels[::-1]
    last = graph.n_nodes - 1
    source, target, weight = columns(graph)
    expected = dask_rac.cluster((last - source, last - target, weight), n_nodes=graph.n_nodes)
    assert merge_set(found) == merge_set(expected)


def small(**options: Any) -> Any:
    graph = nx.Graph(**options)
    graph.add_node("alone")
    graph.add_edge("b", "a", weight=1.0)
    graph.add_edge("a", "c", weight=2.0)
    return graph


def test_everywhere(folder: Path) -> None:
    expected = dask_rac.cluster(small())
    assert expected.names is not None
    assert expected.names.texts(np.arange(4)) == ["alone", "b", "a", "c"]
    assert expected.n_trees == 2
    assert expected.verify(small()).merges == 2
    stored = dask_rac.cluster(small(), store=folder / "run")
    assert merge_set(stored) == merge_set(expected)
    assert stored.names is not None
    with local_client(1, processes=False, memory_limit="8GB") as client:
        assert_same(dask_rac.cluster(small(), client=client), expected)
    in_background = dask_rac.cluster(small(), wait=False).result()
    assert in_background.names is not None


def test_labels_of_any_kind_become_text() -> None:
    graph = nx.Graph()
    graph.add_edge((1, 2), 7, weight=1.0)
    graph.add_edge(7, "x", weight=2.0)
    names = dask_rac.cluster(graph).names
    assert names is not None
    assert names.texts(np.arange(3)) == ["(1, 2)", "7", "x"]
    shifted = nx.Graph([(1, 2, {"weight": 1.0})])
    names = dask_rac.cluster(shifted).names
    assert names is not None
    assert names.texts(np.arange(2)) == ["1", "2"]


def test_names_of_igraph() -> None:
    graph = igraph.Graph.TupleList([("b", "a", 1.0), ("a", "c", 2.0)], weights=True)
    names = dask_rac.cluster(graph).names
    assert names is not None
    assert names.texts(np.arange(3)) == graph.vs["name"] == ["b", "a", "c"]


@pytest.mark.parametrize("directed", [nx.DiGraph, nx.MultiGraph])
def test_an_edge_that_is_there_twice_needs_one_weight(directed: Any) -> None:
    graph = directed()
    graph.add_edge("a", "b", weight=1.0)
    graph.add_edge("b", "a", weight=1.0)
    assert dask_rac.cluster(graph).merges["height"].tolist() == [1.0]
    graph.add_edge("b", "a", weight=3.0)
    with pytest.raises(dask_rac.InputError, match=r"two values for 1 edge, first 0-1.*duplicates='min'"):
        dask_rac.cluster(graph)
    assert dask_rac.cluster(graph, duplicates="max").merges["height"].tolist() == [3.0]


def test_loops_are_dropped_with_a_warning() -> None:
    graph = small()
    graph.add_edge("a", "a", weight=5.0)
    with pytest.warns(UserWarning, match="dropped 1 self loop"):
        assert dask_rac.cluster(graph).n_trees == 2


def test_no_nodes() -> None:
    assert dask_rac.cluster(nx.Graph()).n_nodes == dask_rac.cluster(igraph.Graph()).n_nodes == 0
    assert dask_rac.cluster(nx.empty_graph(3)).n_trees == dask_rac.cluster(igraph.Graph(3)).n_trees == 3


def faulty(kind: str) -> Any:
    if kind == "networkx, none":
        return nx.path_graph(3)
    if kind == "networkx, one":
        graph = small()
        graph.add_edge("c", "d")
        return graph
    if kind == "text":
        return nx.Graph([(0, 1, {"weight": "far"})])
    plain = igraph.Graph(3, [(0, 1), (1, 2)])
    if kind == "igraph, one":
        plain.es[1]["weight"] = 2.0
    return plain


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("networkx, none", "2 of 2 edges of the graph have no attribute 'weight', first 0 - 1: set it"),
        ("networkx, one", "1 of 3 edges of the graph have no attribute 'weight', first 'c' - 'd'"),
        ("text", "attribute 'weight' of an edge is not a number"),
        ("igraph, none", "2 of 2 edges of the graph have no attribute 'weight', first 0 - 1"),
        ("igraph, one", "1 of 2 edges of the graph have no attribute 'weight', first 0 - 1"),
    ],
)
def test_weights_that_are_missing_are_named(kind: str, message: str) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(faulty(kind))


def test_the_libraries_are_not_imported() -> None:
    code = (
        "import sys, dask_rac; dask_rac.cluster(([0], [1], [1.0]));"
        "print(sorted({'networkx', 'igraph', 'polars', 'duckdb'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"
