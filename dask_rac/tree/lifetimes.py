"""Lifetimes: every cluster, from the merge that creates it to the merge that ends it.

1. Merges are in the order of `tree.order`: the merges below a merge come before it.
2. The cluster created by merge `k` of that order exists at every distance from `distance[k]` up to, but excluding,
   that of the merge that ends it: a cut at a height includes the merges at that height.
3. Sizes, largest clusters and gaps of all flat cuts at once follow from these two distances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.ids import cluster_id_dtype
from dask_rac.kernels.tree.lifetimes import find_largest, follow
from dask_rac.tree.order import gathered, merge_order


@dataclass(frozen=True)
class Lifetimes:
    """The clusters of two nodes or more, in the order in which sequential HAC creates them."""

    n_nodes: int
    sign: float
    """-1 if large heights are close."""
    node: NDArray[np.signedinteger]
    """The smallest node of each cluster."""
    size: NDArray[np.signedinteger]
    """The number of its nodes."""
    distance: NDArray[np.float64]
    """The distance at which it is created: its height, negated for similarities."""
    end: NDArray[np.signedinteger]
    """The index of the cluster that it merges into; the number of clusters for the root of a tree."""
    small: NDArray[np.signedinteger]
    """The number of nodes of the smaller of its two parts."""
    large: NDArray[np.signedinteger]
    """The number of nodes of the larger one."""
    other: NDArray[np.signedinteger]
    """The smallest node of that of its two parts that does not contain `node`."""

    @classmethod
    def of(cls, n_nodes: int, parts: Iterable[Mapping[str, NDArray[Any]]], sign: float) -> Lifetimes:
        """Compute the lifetimes from the merges, given in parts."""
        left, right, height, size = gathered(n_nodes, parts).values()
        order = merge_order(left, size, sign * height)
        places = cluster_id_dtype(2 * n_nodes)
        lives = tuple(np.empty(len(order), places) for _ in range(3))
        follow(order, left, right, size, np.full(n_nodes, -1, places), lives)
        end, small, large = lives
        return cls(n_nodes, sign, left[order], size[order], sign * height[order], end, small, large, right[order])

    def __len__(self) -> int:
        return len(self.distance)

    @cached_property
    def singles(self) -> NDArray[np.int64]:
        """The number of nodes that are no longer alone after each merge."""
        alone = (self.small == 1).astype(np.int8) + (self.large == 1)
        return np.cumsum(alone, dtype=np.int64)

    @cached_property
    def first(self) -> NDArray[np.signedinteger]:
        """The index of the smallest cluster around each node; the number of clusters for a node that has not merged."""
        kind = self.end.dtype
        first, places = np.full(self.n_nodes, len(self), kind), np.arange(len(self), dtype=kind)
        first[self.other] = places
        first[self.node[::-1]] = places[
            ::-1
        ]  # where a node is listed again, the last value counts, hence the first merge
        return first

    def find(self, node: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of each of some clusters, given by smallest node and size: no two have both in common."""
        likely = np.flatnonzero(np.isin(self.node, node))
        key = self.node[likely] + self.n_nodes * self.size[likely].astype(np.int64)
        order = np.argsort(key)
        return likely[order[np.searchsorted(key, node + self.n_nodes * size, sorter=order)]]

    def done(self, distances: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the number of merges up to each distance."""
        return np.searchsorted(self.distance, distances, side="right")

    def ends(self) -> NDArray[np.float64]:
        """Return the distance at which each cluster ends, infinite for roots."""
        ends: NDArray[np.float64] = np.append(self.distance, np.inf)[self.end]
        return ends

    def counts(self, distances: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the number of clusters at each distance, single nodes included."""
        return self.n_nodes - self.done(distances)

    def count_single(self, distances: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the number of nodes that are alone at each distance."""
        return self.n_nodes - np.append(0, self.singles)[self.done(distances)]

    def largest(self, distances: NDArray[np.float64], most: int) -> list[NDArray[np.int64]]:
        """Return the indices of the largest clusters at each of some increasing distances; equal ones by their node."""
        born, ended = self._cuts(distances)
        present = np.flatnonzero(born < ended)
        size = self.size[present].astype(np.int64)
        by_size = present[np.argsort(self.node[present] - self.n_nodes * size)]
        chosen, count = np.empty((len(distances), most), np.int64), np.zeros(len(distances), np.int64)
        find_largest(by_size, born, ended, chosen, count)
        return [row[:length] for row, length in zip(chosen, count.tolist(), strict=True)]

    def histograms(self, distances: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count the clusters of 1, 2 to 3, 4 to 7, ... nodes, and their nodes, at each of some increasing distances."""
        columns = len(distances) + 1
        bins = int(self.size.max(initial=1)).bit_length()
        first = (np.frexp(self.size)[1] - 1) * columns
        born, ended = self._cuts(distances)
        tables = []
        for weights in (None, self.size):
            change = np.bincount(first + born, weights, bins * columns)
            change -= np.bincount(first + ended, weights, bins * columns)
            tables.append(np.cumsum(change.reshape(bins, columns), axis=1)[:, :-1].T.astype(np.int64))
        for table in tables:
            table[:, 0] = self.count_single(distances)
        return tables[0], tables[1]

    def _cuts(self, distances: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the first of some increasing distances at which each cluster exists, and the first after its end."""
        bounds = np.concatenate(([0], self.done(distances), [len(self)]))
        born = np.repeat(np.arange(len(distances) + 1, dtype=np.int32), np.diff(bounds))
        return born, np.append(born, np.int32(len(distances)))[self.end]
