"""From merges to trees and flat cuts.

1. A cluster is named by its smallest node. A merge names two clusters, `left < right`, and their union is `left`.
2. Hence every node except the smallest of its tree is `right` in exactly one merge: its parent is `left`, a smaller
   node.
3. In the order of `tree.order`, by (distance, size, left), the merges below a merge come first. Sequential HAC could
   merge in this order: only merges of equal height may be permuted.
4. A flat cut takes the merges before some position in that order. By 2, one pass over the nodes yields its clusters,
   numbered by smallest node.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.kernels.arrays import Merges
from dask_rac.kernels.tree.merges import cut, number_children
from dask_rac.tree.cuts import check_counts
from dask_rac.tree.order import merge_order


@dataclass(frozen=True)
class Dendrogram:
    """A forest of merges over nodes `0..n_nodes-1`."""

    n_nodes: int
    merges: Merges
    sign: float
    """-1 if large heights are close."""

    @property
    def n_trees(self) -> int:
        """The number of trees of the forest, single nodes included."""
        return self.n_nodes - len(self.merges.left)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The merges in the order of sequential HAC."""
        return merge_order(self.merges.left, self.merges.size, self.sign * self.merges.height)

    @cached_property
    def distances(self) -> NDArray[np.float64]:
        """Heights in that order, negated for similarities, so that they never decrease."""
        ordered: NDArray[np.float64] = self.sign * self.merges.height[self.order]
        return ordered

    def label_heights(self, heights: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the labels of the clusters at each height, one row per height."""
        return self.label_first(np.searchsorted(self.distances, self.sign * heights, side="right"))

    def label_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the labels for each number of clusters, one row per number."""
        check_counts(counts, self.n_trees, self.n_nodes)
        return self.label_first(self.n_nodes - counts)

    def label_first(self, places: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the labels after the first merges in order, one row per number of merges."""
        labels = np.empty((len(places), self.n_nodes), np.int64)
        parent, rank = self._parents
        cut(parent, rank, places.astype(np.int64), labels)
        return labels

    @cached_property
    def _parents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The parent of each node, and the position of that merge in the order; itself and the end for roots."""
        parent, rank = np.arange(self.n_nodes), np.full(self.n_nodes, self.n_nodes)
        parent[self.merges.right] = self.merges.left
        rank[self.merges.right[self.order]] = np.arange(len(self.order))
        return parent, rank

    def to_scipy(self, join: bool, zero: float | None) -> NDArray[np.float64]:
        """Return scipy's Z; see `Clustering.to_scipy`."""
        if self.n_trees > 1 and not join:
            raise InputError(
                f"the hierarchy has {self.n_trees} trees, as the graph is not connected or max_height stopped it, and "
                "scipy's Z holds one tree: cut them with cut(), or join them at infinity with to_scipy(join=True)"
            )
        merged = len(self.order)
        table = np.empty((max(0, self.n_nodes - 1), 4))
        children = np.empty((len(table), 2), np.int64)
        last = np.arange(self.n_nodes)
        number_children(self.order, self.merges.left, self.merges.right, last, children[:merged])
        distances = self.distances
        if self.sign < 0 and merged:
            distances = distances + (-distances[0] if zero is None else zero)
            if distances[0] < 0:
                raise InputError(
                    f"zero={zero} is below the largest similarity, {-self.distances[0]}: distances would be negative"
                )
        table[:merged, 2], table[:merged, 3] = distances, self.merges.size[self.order]
        if self.n_trees > 1:
            self._join_trees(table, children, last)
        table[:, :2] = children
        return table

    def _join_trees(self, table: NDArray[np.float64], children: NDArray[np.int64], last: NDArray[np.int64]) -> None:
        """Append merges at infinity that join each tree to those before it, by smallest node."""
        merged = len(self.order)
        parent, _ = self._parents
        roots = np.flatnonzero(parent == np.arange(self.n_nodes))
        size = np.ones(self.n_nodes, np.int64)
        size[self.merges.left[self.order]] = self.merges.size[self.order]
        grown = np.concatenate((last[roots[:1]], self.n_nodes + np.arange(merged, len(table) - 1)))
        children[merged:] = np.sort(np.column_stack((grown, last[roots[1:]])), axis=1)
        table[merged:, 2], table[merged:, 3] = np.inf, np.cumsum(size[roots])[1:]
