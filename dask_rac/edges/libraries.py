"""Graphs of networkx and igraph, recognised without importing either.

Their edges are taken as the rows of a table would be: an edge that is there twice, as in a directed graph or one with
parallel edges, must have one weight, or `duplicates=` says what to do.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from dask_rac.base.errors import InputError
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.edges.neighbours import neighbour_edges
from dask_rac.edges.streams import open_stream
from dask_rac.files.arrow_streams import table_if_any

WEIGHT = "weight"
"""What both libraries call the weight of an edge."""


def as_edges(given: Any, stored: bool = False) -> Any:
    """Return the edges of graphs, neighbours and tables of other libraries as a table; everything else as it is.

    For a run with a store, a stream of edges stays a stream.
    """
    if isinstance(given, tuple) and len(given) == 2:
        return neighbour_edges((given[0], given[1]))
    if _is_a(given, "networkx", "Graph"):
        return _networkx_edges(given)
    if _is_a(given, "igraph", "Graph"):
        return _igraph_edges(given)
    stream = open_stream(given) if stored else None
    return table_if_any(given) if stream is None else stream


def _is_a(given: Any, library: str, name: str) -> bool:
    """Whether an object is of a class of a library, which must have been imported to make it."""
    kind = getattr(sys.modules.get(library), name, None)
    return kind is not None and isinstance(given, kind)


def _networkx_edges(graph: Any) -> pd.DataFrame:
    """Return the edges of a networkx graph; nodes other than 0 to n - 1 are numbered in its order, and named."""
    labels = list(graph)
    numbered = set(map(type, labels)) == {int} and set(labels) == set(range(len(labels)))
    number = {label: label if numbered else at for at, label in enumerate(labels)}
    rows = list(graph.edges(data=WEIGHT))
    pairs = [(number[one], number[other]) for one, other, _ in rows]
    weights = [weight for _, _, weight in rows]
    _refuse_missing(weights, [row[:2] for row in rows])
    return _frame(pairs, weights, len(labels), None if numbered else labels)


def _igraph_edges(graph: Any) -> pd.DataFrame:
    """Return the edges of an igraph graph; its vertices are numbered already."""
    pairs = graph.get_edgelist()
    weights = graph.es[WEIGHT] if WEIGHT in graph.es.attributes() else [None] * len(pairs)
    names = graph.vs["name"] if "name" in graph.vs.attributes() else None
    _refuse_missing(weights, pairs)
    return _frame(pairs, weights, graph.vcount(), names)


def _refuse_missing(weights: Sequence[Any], pairs: Sequence[tuple[Any, Any]]) -> None:
    """Raise if an edge has no weight."""
    if None in weights:
        edge = " - ".join(map(repr, pairs[weights.index(None)]))
        raise InputError(
            f"{weights.count(None)} of {len(weights)} edges of the graph have no attribute {WEIGHT!r}, first {edge}: "
            "set it on all edges, to 1.0 where all are equal"
        )


def _frame(pairs: Sequence[tuple[int, int]], weights: Sequence[Any], nodes: int, labels: Any) -> pd.DataFrame:
    """Return edges as a DataFrame that states the number of nodes, and their names if they have labels."""
    ends = np.fromiter(chain.from_iterable(pairs), np.int64, 2 * len(pairs)).reshape(-1, 2)
    try:
        weight = np.array(weights, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"attribute {WEIGHT!r} of an edge is not a number: {error}") from error
    frame = pd.DataFrame(dict(zip(EDGE_COLUMNS, (ends[:, 0], ends[:, 1], weight), strict=True)))
    frame.attrs = {"n_nodes": nodes} | ({} if labels is None else {"names": [str(label) for label in labels]})
    return frame
