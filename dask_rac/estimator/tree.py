"""The tree of an estimator's samples, computed once for all cuts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import PAIRWISE_BOOLEAN_FUNCTIONS

from dask_rac.api.cluster import cluster
from dask_rac.base.events import Listener
from dask_rac.base.settings import PRECOMPUTED, checked_settings
from dask_rac.estimator.samples import (
    Edges,
    Pairs,
    check_square,
    graph_edges,
    matrix_edges,
    pair_edges,
    stored_edges,
    without_rounding,
)
from dask_rac.results.clustering import Clustering
from dask_rac.runs.in_memory import cluster_pairs
from dask_rac.runs.options import PlanOptions
from dask_rac.show.progress import listener_for

METRICS = {
    "euclidean": "euclidean",
    "l2": "euclidean",
    "sqeuclidean": "sqeuclidean",
    "cosine": "cosine",
    "manhattan": "manhattan",
    "l1": "manhattan",
    "cityblock": "manhattan",
}
"""The metrics that are computed here, for all pairs and for every kind of graph, by scikit-learn's names."""


@dataclass(frozen=True)
class TreeRequest:
    """The parameters that determine the tree of given samples."""

    metric: Any
    graph: dict[str, Any] | None
    """The argument `graph=` of `dask_rac.cluster`, without the metric; empty if edges are given, None for all pairs."""
    linkage: str
    missing: str | float
    epsilon: float = 0.0


def build_tree(
    X: Any, pairs: Pairs | None, request: TreeRequest, progress: Listener | bool | None
) -> tuple[Clustering, int]:
    """Compute the tree of samples and the number of connected components of their graph; it does not hold X."""
    if request.graph is None:
        return _tree_of_pairs(X, request, progress), 1
    edges = _edges_of(X, pairs, request, progress)
    # The two directions of a distance may differ by rounding.
    options = {"n_nodes": X.shape[0], "duplicates": "min", "epsilon": request.epsilon, "progress": progress}
    tree = cluster(edges, request.linkage, request.missing, **options)
    if request.missing != "infinite" or tree.n_trees == 1:
        return tree, tree.n_trees
    ends = edges[0].astype(np.int64), edges[1].astype(np.int64)
    graph = sp.coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(tree.n_nodes, tree.n_nodes))
    return tree, int(connected_components(graph, directed=False)[0])


def is_computed(metric: Any) -> bool:
    """Return whether a metric is computed here, and so supports every kind of graph."""
    return isinstance(metric, str) and metric in METRICS


def pairs_metric(metric: Any) -> str:
    """Return the metric by which all pairs are clustered, "precomputed" where another library computes distances."""
    return METRICS[metric] if is_computed(metric) else PRECOMPUTED


def _tree_of_pairs(X: Any, request: TreeRequest, progress: Listener | bool | None) -> Clustering:
    """Compute the tree of all pairs."""
    given = X if is_computed(request.metric) else _distances(X, request.metric)
    settings = checked_settings(request.linkage, None, "distance", metric=pairs_metric(request.metric))
    with listener_for(progress) as report:
        return Clustering(cluster_pairs(given, settings, PlanOptions(None, None, None, None), report), settings)


def _distances(X: Any, metric: Any) -> Any:
    """Return the matrix of distances: the one that is given, or by a function or a metric of scikit-learn."""
    if isinstance(metric, str) and metric == PRECOMPUTED:
        return X
    X = X.astype(np.bool_) if metric in PAIRWISE_BOOLEAN_FUNCTIONS else X
    distances = np.asarray(metric(X) if callable(metric) else pairwise_distances(X, metric=metric))
    check_square(distances, X.shape[0])
    return without_rounding(distances)


def distances_to(new: Any, fitted: Any, metric: str) -> NDArray[np.float64]:
    """Return the distances of new samples to those of a fit, by a metric of scikit-learn."""
    if metric in PAIRWISE_BOOLEAN_FUNCTIONS:
        new, fitted = new.astype(np.bool_), fitted.astype(np.bool_)
    distances: NDArray[np.float64] = pairwise_distances(new, fitted, metric=metric)
    return np.maximum(distances, 0.0)  # where rounding has put them below 0


def _edges_of(X: Any, pairs: Pairs | None, request: TreeRequest, progress: Listener | bool | None) -> Edges:
    """Compute the edges of the requested graph."""
    metric = request.metric
    if metric == PRECOMPUTED:
        return stored_edges(X) if pairs is None else matrix_edges(X, pairs)
    if pairs is not None:
        return pair_edges(X, pairs, METRICS[metric])
    return graph_edges(X, {**(request.graph or {}), "metric": METRICS[metric]}, progress)
