"""A hierarchy against its own edges: cophenetic correlation and Dasgupta's cost, in one pass over the edges.

Both need for each edge the lowest merge above its two nodes. Sums are kept for some thousand edges at a time, around
their own means, and are put together at the end in a way that does not depend on the order in which they came.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, sqrt
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.spans import batches
from dask_rac.kernels import audit as kernels
from dask_rac.tree.ordered import OrderedMerges

CHUNK = 1 << 15
"""Edges looked at a time, which stay in the cache."""
ROUNDING = 2.0**-50
"""A standard deviation below this share of the mean is rounding: all values are equal."""


@dataclass(frozen=True)
class EdgeFit:
    """How a hierarchy fits its edges, if they are given."""

    edges: int | None = None
    """Edges between nodes that a merge joins."""
    unjoined: int | None = None
    """Edges between different trees."""
    cophenetic: float | None = None
    """Correlation of weights and heights over the joined edges; NaN if one of the two is constant."""
    dasgupta: float | None = None
    """Sum over all edges of the weight times the size of the lowest cluster with both nodes."""


class EdgeScores:
    """Sums over edges, added from any thread."""

    def __init__(self, tree: OrderedMerges) -> None:
        self.n_nodes = tree.n_nodes
        self._tree, self._leaves = tree, tree.leaves
        self._height = np.append(tree.merges.height, 0.0)
        self._size = np.append(tree.merges.size, tree.n_nodes)
        self._sums: list[tuple[float, ...]] = []
        self._lock = Lock()
        self._unjoined = 0

    def add(self, source: ArrayLike, target: ArrayLike, weight: ArrayLike) -> None:
        """Add edges, each undirected edge once in all, in any order."""
        source, target, weight = np.asarray(source), np.asarray(target), np.asarray(weight)
        for span in batches(0, len(source), CHUNK):
            chunk = slice(*span)
            self._add_chunk(_ids(source[chunk]), _ids(target[chunk]), weight[chunk].astype(np.float64))

    def _add_chunk(self, source: NDArray[np.int64], target: NDArray[np.int64], weight: NDArray[np.float64]) -> None:
        """Add edges that fit in the cache."""
        end = len(self._tree)
        merge = np.empty(len(source), self._leaves.position.dtype)
        loops, unjoined, bad = kernels.find_merges(source, target, self._leaves, end, merge)
        if bad >= 0:
            raise InputError(f"edge {source[bad]}-{target[bad]} is not between two of the {self.n_nodes} nodes")
        if loops:
            merge, weight = merge[source != target], weight[source != target]
        cost = float((weight * self._size[merge]).sum())
        joined = merge < end
        sums = _sums(weight[joined], self._height[merge[joined]], cost)
        with self._lock:
            self._sums.append(sums)
            self._unjoined += unjoined

    def fit(self) -> EdgeFit:
        """Put the sums together."""
        count, weight, height, weights, heights, both, cost = np.array(self._sums).reshape(-1, 7).T
        edges = fsum(count)
        means = tuple(fsum(count * column) / max(edges, 1.0) for column in (weight, height))
        off_weight, off_height = weight - means[0], height - means[1]
        squares = fsum(weights + count * off_weight**2), fsum(heights + count * off_height**2)
        products = fsum(both + count * off_weight * off_height)
        varied = all(square > edges * (ROUNDING * mean) ** 2 for square, mean in zip(squares, means, strict=True))
        correlation = products / sqrt(squares[0]) / sqrt(squares[1]) if varied else float("nan")
        return EdgeFit(int(edges), self._unjoined, correlation, fsum(cost))


def _ids(column: NDArray[np.integer]) -> NDArray[np.int64]:
    """Convert ids to the dtype that kernels are compiled for."""
    return column.astype(np.int64, casting="same_kind")


def _sums(weight: NDArray[np.float64], height: NDArray[np.float64], cost: float) -> tuple[float, ...]:
    """Return the number of edges, both means, both sums of squares and of products around them, and the cost."""
    if not len(weight):
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, cost
    means = float(weight.mean()), float(height.mean())
    one, two = weight - means[0], height - means[1]
    return float(len(weight)), *means, float(one @ one), float(two @ two), float(one @ two), cost
