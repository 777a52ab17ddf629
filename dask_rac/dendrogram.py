"""Merges to trees.

1. A cluster is named by its smallest node. A merge names two clusters, `left < right`, and the union is `left`.
2. So every node but the smallest of its tree is `right` in exactly one merge: its parent is `left`, a smaller node.
3. No merge is closer than a merge below it, and at equal heights it is larger: ordered by (height, size, left),
   merges below come first. Sequential HAC could merge in this order: only equal heights may change places.
4. A flat cut takes the merges before some place in that order. Numbered by smallest node, its clusters come out of
   one pass over the nodes, by 2.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.config import id_dtype
from dask_rac.errors import InputError
from dask_rac.kernels.arrays import Merges
from dask_rac.kernels.tree import cut, cut_forest, number_children


class Forest:
    """The merges by the node that each ends: what flat cuts need, in three vectors over the nodes."""

    def __init__(self, n_nodes: int, parts: Iterable[Mapping[str, NDArray[Any]]], sign: float) -> None:
        ids = id_dtype(n_nodes)
        self.n_nodes, self.sign, self.merges = n_nodes, sign, 0
        self._parent: NDArray[np.signedinteger] = np.arange(n_nodes, dtype=ids)
        self._distance = np.full(n_nodes, np.inf)
        self._size: NDArray[np.signedinteger] = np.zeros(n_nodes, ids)
        for part in parts:
            right = part["right"]
            self._parent[right], self._size[right] = part["left"], part["size"]
            self._distance[right] = sign * part["height"]
            self.merges += len(right)

    @property
    def n_trees(self) -> int:
        """Trees of the forest, single nodes among them."""
        return self.n_nodes - self.merges

    def label_heights(self, heights: NDArray[np.float64]) -> Iterator[NDArray[np.int64]]:
        """Labels of the clusters at each height, one after the other."""
        for height in heights.tolist():
            yield self._label((self._distance <= self.sign * height) & (self._size > 0))

    def label_counts(self, counts: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Labels of each number of clusters, one after the other."""
        check_counts(counts, self.n_trees, self.n_nodes)
        for count in counts.tolist():
            yield self._label(self._first(self.n_nodes - count))

    def _first(self, merges: int) -> NDArray[np.bool_]:
        """Which nodes are ended by the first so many merges, in the order of `Dendrogram`."""
        if not merges:
            return np.zeros(self.n_nodes, np.bool_)
        last = np.partition(self._distance, merges - 1)[merges - 1]
        taken: NDArray[np.bool_] = self._distance < last
        tied = np.flatnonzero((self._distance == last) & (self._size > 0))
        order = np.lexsort((self._parent[tied], self._size[tied]))
        taken[tied[order[: merges - int(np.count_nonzero(taken))]]] = True
        return taken

    def _label(self, taken: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Labels where these nodes are united with their parents."""
        labels = np.empty(self.n_nodes, np.int64)
        cut_forest(self._parent, taken, labels)
        return labels


@dataclass(frozen=True)
class Dendrogram:
    """A forest of merges over nodes `0..n_nodes-1`."""

    n_nodes: int
    merges: Merges
    sign: float
    """-1 where large heights are close."""

    @property
    def n_trees(self) -> int:
        """Trees of the forest, single nodes among them."""
        return self.n_nodes - len(self.merges.left)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The merges as sequential HAC does them."""
        return merge_order(self.merges.left, self.merges.size, self.sign * self.merges.height)

    @cached_property
    def distances(self) -> NDArray[np.float64]:
        """Heights in that order, negated for similarities, so that they never fall."""
        ordered: NDArray[np.float64] = self.sign * self.merges.height[self.order]
        return ordered

    def label_heights(self, heights: NDArray[np.float64]) -> NDArray[np.int64]:
        """Labels of the clusters at each height, a row a height."""
        return self.label_first(np.searchsorted(self.distances, self.sign * heights, side="right"))

    def label_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Labels of each number of clusters, a row a number."""
        check_counts(counts, self.n_trees, self.n_nodes)
        return self.label_first(self.n_nodes - counts)

    def label_first(self, places: NDArray[np.integer]) -> NDArray[np.int64]:
        """Labels after the first merges in order, a row a number of merges."""
        labels = np.empty((len(places), self.n_nodes), np.int64)
        parent, rank = self._parents
        cut(parent, rank, places.astype(np.int64), labels)
        return labels

    @cached_property
    def _parents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Each node's parent, and the place of that merge in the order; itself and the end for the roots."""
        parent, rank = np.arange(self.n_nodes), np.full(self.n_nodes, self.n_nodes)
        parent[self.merges.right] = self.merges.left
        rank[self.merges.right[self.order]] = np.arange(len(self.order))
        return parent, rank

    def to_scipy(self, join: bool, zero: float | None) -> NDArray[np.float64]:
        """scipy's Z; see `Clustering.to_scipy`."""
        if self.n_trees > 1 and not join:
            raise InputError(
                f"there are {self.n_trees} trees, as the graph is not connected or max_height stopped it, and scipy's "
                "Z is one tree: cut them with cut(), or join them at infinity with to_scipy(join=True)"
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
        """Append merges at infinity, each tree joined to those before it, by smallest node."""
        merged = len(self.order)
        parent, _ = self._parents
        roots = np.flatnonzero(parent == np.arange(self.n_nodes))
        size = np.ones(self.n_nodes, np.int64)
        size[self.merges.left[self.order]] = self.merges.size[self.order]
        grown = np.concatenate((last[roots[:1]], self.n_nodes + np.arange(merged, len(table) - 1)))
        children[merged:] = np.sort(np.column_stack((grown, last[roots[1:]])), axis=1)
        table[merged:, 2], table[merged:, 3] = np.inf, np.cumsum(size[roots])[1:]


def merge_order(left: NDArray[Any], size: NDArray[Any], distance: NDArray[np.float64]) -> NDArray[np.intp]:
    """The merges as sequential HAC does them: by distance, then size, then smallest node."""
    order = np.argsort(distance)
    ordered = distance[order]
    equal = ordered[1:] == ordered[:-1]
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    among = order[tied]
    order[tied] = among[np.lexsort((left[among], size[among], ordered[tied]))]
    return order


def check_counts(counts: NDArray[np.int64], n_trees: int, n_nodes: int) -> None:
    """Raise unless there can be so many clusters."""
    for k in counts.tolist():
        if not n_trees <= k <= n_nodes:
            raise InputError(
                f"n_clusters={k} is not to be had: the {n_nodes:,} nodes are in {n_trees:,} "
                f"tree{'' if n_trees == 1 else 's'}, so ask for {n_trees} to {n_nodes}"
            )
