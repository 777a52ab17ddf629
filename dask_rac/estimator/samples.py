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

ROUNDING = 1e-6  # fraction of the largest distance by which a matrix may be asymmetric, or below 0

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


def matrix_edges(distances: NDArray[np.floating], pairs: Pairs) -> Edges:
    """Return the edges of given pairs, with weights from a dense matrix."""
    source, target = pairs
    weight = distances[source, target].astype(np.float64)
    unequal = float(np.abs(weight - distances[target, source]).max(initial=0.0))
    _refuse_unequal(unequal, distances)
    return source, target, weight


def stored_edges(distances: Any) -> Edges:
    """Return the stored entries of a sparse matrix, without its diagonal."""
    entries = distances.tocoo()
    kept = entries.row != entries.col
    source, target, weight = entries.row[kept], entries.col[kept], entries.data[kept]
    _refuse_unequal(_unequal_entries(source, target, weight), distances)
    return source, target, weight


def check_square(distances: Any, n: int) -> None:
    """Raise unless distances have a row and a column for each of `n` samples."""
    if distances.shape != (n, n):
        raise InputError(
            f"distances have shape {distances.shape}: give one row and one column for each of the {n} samples"
        )


def without_rounding(distances: NDArray[Any]) -> NDArray[Any]:
    """Return distances that are 0 where rounding, as in 1 - cosine, has put them below 0 or on the diagonal."""
    smallest, diagonal = distances.min(), np.abs(distances.diagonal()).max()
    if (smallest >= 0 and diagonal == 0) or max(-smallest, diagonal) > ROUNDING * distances.max():
        return distances
    distances = np.maximum(distances, 0)
    np.fill_diagonal(distances, 0)
    return distances


def _refuse_unequal(unequal: float, distances: Any) -> None:
    """Raise if the two directions of a distance differ by more than rounding."""
    if unequal > ROUNDING * distances.max():
        raise InputError(f"distances are not symmetric, but differ by up to {unequal:.6g}: use (X + X.T) / 2")


def _unequal_entries(source: NDArray[Any], target: NDArray[Any], weight: NDArray[Any]) -> float:
    """Return by how much entries differ from those across the diagonal, where both are stored."""
    low, high = np.minimum(source, target), np.maximum(source, target)
    order = np.lexsort((high, low))
    both = np.flatnonzero((np.diff(low[order]) == 0) & (np.diff(high[order]) == 0))
    return float(np.abs(weight[order[both]] - weight[order[both + 1]]).max(initial=0.0))
