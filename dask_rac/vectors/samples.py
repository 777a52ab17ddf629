"""Edges of the samples that an estimator is given: of vectors, of some of their pairs, or of a matrix of distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.config import Progress
from dask_rac.errors import InputError
from dask_rac.kernels.pairs import weigh_pairs
from dask_rac.progress import watcher
from dask_rac.store.vectors import open_vectors
from dask_rac.vectors.check import PIECE, check_span, view_of
from dask_rac.vectors.graph import memory_graph, request_of
from dask_rac.vectors.metrics import checked_metric
from dask_rac.vectors.search import as_points

ROUNDING = 1e-6  # of the largest distance: the two sides of a matrix may differ by it
ROWS = 1024  # of a matrix, compared with its columns at a time

Pairs = tuple[NDArray[np.integer], NDArray[np.integer]]
Edges = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.floating]]


def graph_edges(vectors: Any, graph: dict[str, Any], progress: Progress | bool | None) -> Edges:
    """The edges of a graph of vectors, as `graph=` of `dask_rac.cluster` asks for it; nothing is said of components."""
    with watcher(progress) as report:
        frame, _ = memory_graph(vectors, *request_of(graph, "distance"), (None, None, report))
    return frame["source"].to_numpy(), frame["target"].to_numpy(), frame["weight"].to_numpy()


def pair_edges(vectors: Any, pairs: Pairs, metric: str) -> Edges:
    """The edges of given pairs, weighed to the last bit as in a graph of vectors."""
    wanted, source = checked_metric(metric), open_vectors(vectors)
    view_of(check_span(source, PIECE, 0, source.rows), source.rows, wanted)  # raises where there are no distances
    points, weight = as_points(source.read(0, source.rows), wanted), np.empty(len(pairs[0]))
    weigh_pairs(points, points, pairs, wanted.code, weight)
    return *pairs, weight


def pairs_of(connectivity: Any) -> Pairs:
    """The pairs that a matrix joins in either direction, each once; what is zero joins nothing."""
    joined = sp.csr_array(connectivity).astype(np.bool_)
    upper = sp.triu(joined + joined.T, 1, "coo")  # a sum stores no zeros
    return upper.row.astype(np.int64), upper.col.astype(np.int64)


def matrix_edges(distances: Any, pairs: Pairs | None) -> Edges:
    """The edges of given pairs, or of all pairs of a dense matrix, or of all that a sparse one stores."""
    if sp.issparse(distances):
        return _stored_edges(distances)
    pairs = _all_pairs(len(distances)) if pairs is None else pairs
    return *pairs, distances[pairs]


def _all_pairs(n: int) -> Pairs:
    """Every pair of so many nodes, the smaller one first."""
    nodes = np.arange(n)
    later = nodes[::-1]
    source = np.repeat(nodes.astype(np.int32), later)
    begin = np.cumsum(later) - later
    return source, np.arange(len(source)) - np.repeat(begin - nodes - 1, later)


def _stored_edges(distances: Any) -> Edges:
    """What a sparse matrix stores beside its diagonal."""
    entries = distances.tocoo()
    kept = entries.row != entries.col
    return entries.row[kept], entries.col[kept], entries.data[kept]


def refuse_unequal(distances: Any, n: int) -> None:
    """Raise unless distances are those of so many samples, and the same both ways up to rounding."""
    if distances.shape != (n, n):
        raise InputError(f"distances are of shape {distances.shape}: give a row and a column for each of {n} samples")
    unequal = _unequal_entries(distances, n) if sp.issparse(distances) else _unequal_rows(distances, n)
    if unequal > ROUNDING * max(distances.max(), -distances.min()):
        raise InputError(f"distances differ by up to {unequal:.6g} between their two directions: use (X + X.T) / 2")


def _unequal_rows(distances: NDArray[np.floating], n: int) -> float:
    """By how much a dense matrix differs from its transpose."""
    steps = [slice(at, at + ROWS) for at in range(0, n, ROWS)]
    return max(float(np.abs(distances[step] - distances[:, step].T).max()) for step in steps)


def _unequal_entries(distances: Any, n: int) -> float:
    """By how much entries of a sparse matrix differ across the diagonal, where both are stored."""
    source, target, weight = _stored_edges(distances)
    pair = np.minimum(source, target).astype(np.int64) * n + np.maximum(source, target)
    order = np.argsort(pair, kind="stable")
    both = np.flatnonzero(np.diff(pair[order]) == 0)
    return float(np.abs(weight[order[both]] - weight[order[both + 1]]).max(initial=0.0))
