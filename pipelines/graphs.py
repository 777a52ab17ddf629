"""Graphs shared by the benchmarks."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial import cKDTree


def neighbour_graph(points: NDArray[np.float64], k: int) -> sp.csr_array:
    """Join each point to its `k` nearest, in both directions, weighted by distance."""
    n = len(points)
    distance, neighbour = map(np.asarray, cKDTree(points).query(points, k=k + 1, workers=-1))
    source = np.repeat(np.arange(n, dtype=np.int32), k)
    nearest = sp.csr_array((distance[:, 1:].ravel(), (source, neighbour[:, 1:].ravel().astype(np.int32))), shape=(n, n))
    return nearest.maximum(nearest.T)


def as_similarities(graph: sp.csr_array) -> sp.csr_array:
    """Return the same edges as similarities: the nearest become the most similar, all above 0."""
    return sp.csr_array((1.0001 * graph.data.max() - graph.data, graph.indices, graph.indptr), shape=graph.shape)
