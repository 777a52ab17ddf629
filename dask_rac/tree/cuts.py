"""Flat cuts of a forest, in a few vectors over the nodes: what a hierarchy in a store needs to label its nodes.

1. A flat cut applies some merges, with each all merges below it. A node joins its parent, the `left` of the merge whose
   `right` it is, if that merge is applied: one pass over the nodes labels them.
2. Clusters of fewer than `min_size` nodes are then labelled -1, and the others are numbered by their smallest node.
3. With `max_size`, the tree is cut as if it had no merge that makes a larger cluster. Sizes grow from merge to merge,
   so that this, too, applies with each merge all below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.ids import cluster_id_dtype
from dask_rac.kernels.tree.merges import count_large, cut_forest
from dask_rac.tree.condensed import MergesByRight, Selection, inside_chosen
from dask_rac.tree.order import first_in_order, merge_order

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class CutRule:
    """What makes a flat cut, besides the value that it is made at."""

    kind: str
    """What the values are: "height", "n_clusters" or "min_cluster_size"."""
    min_size: int = 1
    """The number of nodes below which a cluster is labelled -1."""
    max_size: int | None = None
    """The number of nodes above which a cluster is split further."""
    selection: Selection | None = None
    """How clusters are chosen, if by stability."""

    @property
    def plain(self) -> bool:
        """Whether the cut depends on nothing but its height, or on the number of all clusters."""
        return self.min_size == 1 and self.max_size is None and self.selection is None


class CutForest:
    """Merges indexed by their `right` node: what flat cuts need, in three vectors over the nodes."""

    def __init__(self, n_nodes: int, parts: Iterable[Mapping[str, NDArray[Any]]], sign: float) -> None:
        ids = cluster_id_dtype(n_nodes)
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
        """The number of trees of the forest, single nodes included."""
        return self.n_nodes - self.merges

    @property
    def vectors(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
        """Of the merge whose `right` each node is, the `left`, the size and the distance; itself, 0 and inf if none."""
        return self._parent, self._size, self._distance

    @cached_property
    def ordered(self) -> MergesByRight:
        """The merges with their order."""
        right = np.flatnonzero(self._size)
        order = right[merge_order(self._parent[right], self._size[right], self._distance[right])]
        return MergesByRight(
            self._parent, self._size, self._distance, order.astype(self._parent.dtype, copy=False), self.sign
        )

    def label(self, rule: CutRule, values: NDArray[Any]) -> Iterator[Labels]:
        """Yield the labels of each cut."""
        if rule.selection is not None:
            for least in values.tolist():
                taken = inside_chosen(self.ordered, least, rule.selection)
                yield without_small(self._label(taken), least)
            return
        for taken in self._below(rule, values) if rule.kind == "height" else self._first(rule, values):
            yield without_small(self._label(taken), rule.min_size)

    def label_heights(self, heights: NDArray[np.float64]) -> Iterator[Labels]:
        """Yield the labels of the clusters at each height."""
        return self.label(CutRule("height"), heights)

    def label_counts(self, counts: Labels) -> Iterator[Labels]:
        """Yield the labels for each number of clusters."""
        return self.label(CutRule("n_clusters"), counts)

    def _below(self, rule: CutRule, heights: NDArray[np.float64]) -> Iterator[NDArray[np.bool_]]:
        """Yield the merges that a cut at each height applies."""
        allowed = self._allowed(rule.max_size)
        for height in heights.tolist():
            yield (self._distance <= self.sign * height) & allowed

    def _first(self, rule: CutRule, counts: Labels) -> Iterator[NDArray[np.bool_]]:
        """Yield the merges that a cut into each number of clusters applies: the first ones in order."""
        allowed = self._allowed(rule.max_size)
        if rule.min_size > 1:
            yield from self._first_large(rule, counts, allowed)
            return
        check_counts(counts, self.n_nodes - int(np.count_nonzero(allowed)), self.n_nodes, rule.max_size)
        size, distance = self._size, self._distance
        if rule.max_size is not None:
            size, distance = np.where(allowed, size, 0), np.where(allowed, distance, np.inf)
        for count in counts.tolist():
            yield first_in_order(self._parent, size, distance, self.n_nodes - count)

    def _first_large(self, rule: CutRule, counts: Labels, allowed: NDArray[np.bool_]) -> Iterator[NDArray[np.bool_]]:
        """Yield the merges of the farthest cut with each number of clusters of at least `min_size` nodes."""
        order = self.ordered.order[allowed[self.ordered.order]]
        large = np.zeros(len(order) + 1, np.int64)
        count_large(order, self._parent, self._size, rule.min_size, large)
        _check_large(counts, int(large[-1]), int(large.max()), rule)
        for count in counts.tolist():
            taken = np.zeros(self.n_nodes, np.bool_)
            taken[order[: int(np.flatnonzero(large == count)[-1])]] = True
            yield taken

    def _allowed(self, max_size: int | None) -> NDArray[np.bool_]:
        """Return which nodes have a merge that makes no cluster of more than `max_size` nodes."""
        merged: NDArray[np.bool_] = self._size > 0
        return merged if max_size is None else merged & (self._size <= max_size)

    def _label(self, taken: NDArray[np.bool_]) -> Labels:
        """Return the labels after the given nodes are merged with their parents."""
        labels = np.empty(self.n_nodes, np.int64)
        cut_forest(self._parent, taken, labels)
        return labels


def without_small(labels: Labels, min_size: int) -> Labels:
    """Return the labels with -1 for clusters of fewer than `min_size` nodes; the others are numbered as before."""
    if min_size == 1:
        return labels
    large = np.bincount(labels) >= min_size
    return np.where(large, np.cumsum(large) - 1, -1)[labels]


def check_counts(counts: Labels, n_trees: int, n_nodes: int, max_size: int | None = None) -> None:
    """Raise unless each number of clusters is possible."""
    for k in counts.tolist():
        if not n_trees <= k <= n_nodes:
            trees = f"{n_trees:,} tree{'' if n_trees == 1 else 's'}"
            made = f"form {trees}" if max_size is None else f"are in {n_trees:,} or more clusters with {max_size=}"
            raise InputError(
                f"n_clusters={k} is not possible: the {n_nodes:,} nodes {made}; choose {n_trees} to {n_nodes}"
            )


def _check_large(counts: Labels, least: int, most: int, rule: CutRule) -> None:
    """Raise unless each number of clusters of at least `min_size` nodes is possible."""
    sizes = f"min_size={rule.min_size}" + ("" if rule.max_size is None else f" and max_size={rule.max_size}")
    for k in counts.tolist():
        if not least <= k <= most or not k:
            raise InputError(
                f"n_clusters={k} is not possible with {sizes}: "
                + (f"choose {least} to {most}, or another min_size" if most else "no cluster is that large")
            )
