"""Flat cuts of a forest, in three vectors over the nodes: what a hierarchy in a store needs to label its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.ids import cluster_id_dtype
from dask_rac.kernels.tree.merges import cut_forest
from dask_rac.tree.order import first_in_order


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

    def label_heights(self, heights: NDArray[np.float64]) -> Iterator[NDArray[np.int64]]:
        """Yield the labels of the clusters at each height."""
        for height in heights.tolist():
            yield self._label((self._distance <= self.sign * height) & (self._size > 0))

    def label_counts(self, counts: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yield the labels for each number of clusters."""
        check_counts(counts, self.n_trees, self.n_nodes)
        for count in counts.tolist():
            yield self._label(first_in_order(self._parent, self._size, self._distance, self.n_nodes - count))

    def _label(self, taken: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the labels after the given nodes are merged with their parents."""
        labels = np.empty(self.n_nodes, np.int64)
        cut_forest(self._parent, taken, labels)
        return labels


def check_counts(counts: NDArray[np.int64], n_trees: int, n_nodes: int) -> None:
    """Raise unless each number of clusters is possible."""
    for k in counts.tolist():
        if not n_trees <= k <= n_nodes:
            raise InputError(
                f"n_clusters={k} is not possible: the {n_nodes:,} nodes form {n_trees:,} "
                f"tree{'' if n_trees == 1 else 's'}; choose {n_trees} to {n_nodes}"
            )
