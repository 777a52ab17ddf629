"""Edges between the samples of an estimator: from vectors, from given pairs of them, or from a distance matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.api.graphs import Resources, memory_graph
from dask_rac.base.errors import InputError
from dask_rac.base.events import Listener
from dask_rac.kernels.vectors.pairs import weigh_pairs
from dask_rac.show.progress import listener_for
from dask_rac.vectors.compare.check import PIECE, check_span, view_of
from dask_rac.vectors.compare.limits import CompareLimits
from dask_rac.vectors.compare.metrics import checked_metric
from dask_rac.vectors.compare.search import as_points
from dask_rac.vectors.graph.request import request_of
from dask_rac.vectors.sources.opening import open_vectors

ROUNDING = 1e-6  # fraction of the largest distance by which a matrix may be asymmetric
ROWS = 1024  # rows of a matrix that are compared with its columns at a time

Pairs = tuple[NDArray[np.integer], NDArray[np.integer]]
Edges = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.floating]]


def graph_edges(vectors: Any, graph: dict[str, Any], progress: Listener | bool | None) -> Edges:
    """Return the edges of the graph given by `graph=` of `dask_rac.cluster`, without a warning about components."""
    with listener_for(progress) as report:
        frame, _ = memory_graph(vectors, request_of(graph, "distance"), Resources(), report)
    return frame["source"].to_numpy(), frame["target"].to_numpy(), frame["weight"].to_numpy()


def pair_edges(vectors: Any, pairs: Pairs, metric: str) -> Edges:
    """Return the edges of given pairs, with the same weights to the last bit as in a graph of vectors."""
    wanted, source = checked_metric(metric), open_vectors(vectors)
    checked = check_span(source, PIECE, 0, source.rows)
    view_of(checked, source.rows, wanted, CompareLimits())  # raises if vectors have no distances
    points, weight = as_points(source.read(0, source.rows), wanted), np.empty(len(pairs[0]))
    weigh_pairs(points, points, pairs, wanted.code, weight)
    return *pairs, weight


def pairs_of(connectivity: Any) -> Pairs:
    """Return the pairs with an entry other than zero in either direction, each once."""
    joined = sp.csr_array(connectivity).astype(np.bool_)
    upper = sp.triu(joined + joined.T, 1, "coo")  # a sum stores no zeros
    return upper.row.astype(np.int64), upper.col.astype(np.int64)


def matrix_edges(distances: Any, pairs: Pairs | None) -> Edges:
    """Return the edges of given pairs, of all pairs of a dense matrix, or of all stored entries of a sparse one."""
    if sp.issparse(distances):
        return _stored_edges(distances)
    pairs = _all_pairs(len(distances)) if pairs is None else pairs
    return *pairs, distances[pairs]


def _all_pairs(n: int) -> Pairs:
    """Return all pairs of `n` nodes, the smaller node first."""
    nodes = np.arange(n)
    later = nodes[::-1]
    source = np.repeat(nodes.astype(np.int32), later)
    begin = np.cumsum(later) - later
    return source, np.arange(len(source)) - np.repeat(begin - nodes - 1, later)


def _stored_edges(distances: Any) -> Edges:
    """Return the stored entries of a sparse matrix, without its diagonal."""
    entries = distances.tocoo()
    kept = entries.row != entries.col
    return entries.row[kept], entries.col[kept], entries.data[kept]


def refuse_unequal(distances: Any, n: int) -> None:
    """Raise unless distances are those of `n` samples, and symmetric up to rounding."""
    if distances.shape != (n, n):
        raise InputError(
            f"distances have shape {distances.shape}: give one row and one column for each of the {n} samples"
        )
    unequal = _unequal_entries(distances, n) if sp.issparse(distances) else _unequal_rows(distances, n)
    if unequal > ROUNDING * max(distances.max(), -distances.min()):
        raise InputError(f"distances are not symmetric, but differ by up to {unequal:.6g}: use (X + X.T) / 2")


def _unequal_rows(distances: NDArray[np.floating], n: int) -> float:
    """Return by how much a dense matrix differs from its transpose."""
    steps = [slice(at, at + ROWS) for at in range(0, n, ROWS)]
    return max(float(np.abs(distances[step] - distances[:, step].T).max()) for step in steps)


def _unequal_entries(distances: Any, n: int) -> float:
    """Return by how much entries of a sparse matrix differ from those across the diagonal, where both are stored."""
    source, target, weight = _stored_edges(distances)
    pair = np.minimum(source, target).astype(np.int64) * n + np.maximum(source, target)
    order = np.argsort(pair, kind="stable")
    both = np.flatnonzero(np.diff(pair[order]) == 0)
    return float(np.abs(weight[order[both]] - weight[order[both + 1]]).max(initial=0.0))
