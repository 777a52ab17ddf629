"""Flat clusters as new points see them: who is a member, and how the weights with members become the linkage's W.

1. A table holds, for each new point and each cluster, what the weights with its members fold to: the least (single),
   the largest (complete) or a sum (average, weighted, ward). Smaller is nearer: similarities are negated.
2. By weighted linkage each half of a cluster counts for half, so a member has the share 2 ** -depth, where depth is the
   number of merges above it in its cluster. For all others shares are 1.
3. By ward linkage the sum is of squared distances d, and W * W = 2 (sum of d * d - spread) / (size + 1), where spread
   is the sum of squares within the cluster, half the sum of the squared heights of its merges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.spans import Span
from dask_rac.kernels.vectors.members import LARGEST, LEAST, SUM

FOLDS = {"single": LEAST, "complete": LARGEST, "average": SUM, "weighted": SUM, "ward": SUM}
EMPTY = {LEAST: np.inf, LARGEST: -np.inf, SUM: 0.0}
"""What a table holds before the first member."""

Members = tuple[int, NDArray[np.int64], NDArray[np.float64]]
"""How weights are folded, and the cluster and the share of each node, as kernels take them."""


@dataclass(frozen=True)
class FlatClusters:
    """The flat clusters of a tree."""

    linkage: str
    labels: NDArray[np.int64]
    """The label of each cluster, ascending."""
    cluster: NDArray[np.int64]
    """For each node the position of its cluster in `labels`, -1 if it is in none."""
    size: NDArray[np.int64]
    """The number of members of each cluster."""
    share: NDArray[np.float64]
    """The share of each node in its cluster."""
    spread: NDArray[np.float64]
    """For ward linkage, the sum of squares within each cluster, else empty."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def code(self) -> int:
        """How weights are folded."""
        return FOLDS[self.linkage]

    def members(self, nodes: Span) -> Members:
        """Return what kernels must know of some nodes."""
        return self.code, self.cluster[slice(*nodes)], self.share[slice(*nodes)]

    def empty_table(self, rows: int) -> NDArray[np.float64]:
        """Return a table that has seen no member."""
        return np.full((rows, len(self)), EMPTY[self.code])

    def close(self, table: NDArray[np.float64]) -> None:
        """Turn a table that has seen all members into W, in place."""
        if self.linkage == "average":
            table /= self.size
        elif self.linkage == "ward":
            table -= self.spread
            table *= 2.0 / (self.size + 1)
            np.sqrt(np.maximum(table, 0.0, out=table), out=table)


def numbered(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the labels of the clusters, the position of each node's, and the sizes; nodes below 0 are in none."""
    inside = labels >= 0
    names, places, sizes = np.unique(labels[inside], return_inverse=True, return_counts=True)
    cluster = np.full(len(labels), -1, np.int64)
    cluster[inside] = places
    return names, cluster, sizes.astype(np.int64)
