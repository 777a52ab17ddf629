"""The mutual information of a flat cut and known classes that is expected if the nodes were shuffled.

It is a sum over clusters of what a cluster of that many labelled nodes adds, so a merge changes it by three such
numbers, and one pass over the merges finds it for all cuts. Each number is a sum over classes and over the counts that
are likely, and there is one for each different size: cheap for trees whose clusters are of few sizes, as large trees
are as a rule, and dear for a chain, in which every cluster has a size of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.spans import batches
from dask_rac.kernels.tree import scores as kernels
from dask_rac.tree.ordered import Codes, OrderedMerges

SPAN = 1 << 19
"""Merges looked at a time."""
MOST_TERMS = 1e9
"""With more terms, the expectation is only computed on request: this many take some 10 seconds."""


@dataclass(frozen=True)
class ChanceTable:
    """What a cluster adds to the expected mutual information, by the number of its labelled nodes."""

    expected: NDArray[np.float64]
    """By size; only sizes that occur are filled in."""
    count: Codes
    """The labelled nodes of each cluster, after the merges so far."""

    def start(self) -> float:
        """Return the expected mutual information of single nodes."""
        return float(self.expected[1] * (len(self.expected) - 1))

    def changes(self, left: Codes, right: Codes) -> NDArray[np.float64]:
        """Return what the next merges add."""
        one, other = _part_sizes(left, right, self.count)
        added: NDArray[np.float64] = self.expected[one + other] - self.expected[one] - self.expected[other]
        return added


def chance_table(
    tree: OrderedMerges, code: Codes, class_sizes: NDArray[np.int64], wanted: bool | None
) -> ChanceTable | None:
    """Return the table; None if it is not wanted, or if it is left open whether it is and it would take long."""
    if wanted is False:
        return None
    labelled = int(class_sizes.sum())
    size = _sizes_that_occur(tree, code, labelled)
    class_size, times = np.unique(class_sizes, return_counts=True)
    if wanted is None and len(size) * len(class_size) > MOST_TERMS:
        return None
    if wanted is None and kernels.count_terms(size, class_size, labelled) > MOST_TERMS:
        return None
    expected, values = np.zeros(labelled + 1), np.empty(len(size))
    kernels.expect(size, class_size, times, labelled, values)
    expected[size] = values
    return ChanceTable(expected, _single_counts(tree, code))


def _sizes_that_occur(tree: OrderedMerges, code: Codes, labelled: int) -> NDArray[np.int64]:
    """Return the different numbers of labelled nodes that clusters have, from 1."""
    occurs = np.zeros(labelled + 1, np.bool_)
    occurs[1] = True
    count = _single_counts(tree, code)
    for start, stop in batches(0, len(tree), SPAN):
        one, other = _part_sizes(tree.merges.left[start:stop], tree.merges.right[start:stop], count)
        occurs[one + other] = True
    return np.flatnonzero(occurs[1:]) + 1


def _part_sizes(left: Codes, right: Codes, count: Codes) -> tuple[Codes, Codes]:
    """Return the labelled nodes of both sides of the next merges, which are added to `count`."""
    one, other = np.empty_like(left), np.empty_like(left)
    kernels.part_sizes(left, right, count, one, other)
    return one, other


def _single_counts(tree: OrderedMerges, code: Codes) -> Codes:
    """Return the labelled nodes of each cluster before any merge."""
    return (code >= 0).astype(cluster_id_dtype(tree.n_nodes))
