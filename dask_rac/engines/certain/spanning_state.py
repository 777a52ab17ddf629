"""Spanning forests of rows, which are the clusters of a start: their order, and how they are joined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.ids import cluster_id_dtype
from dask_rac.engines.forest.state import ForestEdges
from dask_rac.engines.start import Start
from dask_rac.kernels.arrays import Ids, empty_merges, part
from dask_rac.kernels.forest import unite
from dask_rac.kernels.light import lightest_ends
from dask_rac.kernels.tree.merges import join_sizes
from dask_rac.tree.leaves import place_leaves

HELD = 2**21  # edges that are held before they are joined, where rows are few

__all__ = ["ForestEdges", "Outline", "join_forests", "join_parts", "no_forest", "outline_of", "span_order"]


class Outline(NamedTuple):
    """The rows in the order of the leaves of a forest."""

    order: NDArray[np.int64]
    """The row at each place."""
    gap: NDArray[np.float64]
    """The weight of the heaviest edge between a place and the next, infinite if there is no path."""


def no_forest() -> ForestEdges:
    """Return a forest without edges."""
    return ForestEdges(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def span_order(forest: ForestEdges, start: Start) -> NDArray[np.intp]:
    """Return the order of edges from the lightest to the heaviest; equal ones go by the hash of their first edge."""
    order = np.argsort(forest.weight)
    ordered = forest.weight[order]
    if (ordered[1:] == ordered[:-1]).any():
        count = len(order)
        hashes, ends = np.empty(count, np.uint64), (np.empty(count, np.int64), np.empty(count, np.int64))
        lightest_ends((start.member, start.begin), (forest.source, forest.target), ends, hashes)
        order = np.lexsort((hashes, forest.weight))
    return order


def join_forests(forests: Sequence[ForestEdges], start: Start) -> ForestEdges:
    """Return the lightest spanning forest among the edges of some."""
    if not forests:
        return no_forest()
    if len(forests) == 1 and not len(forests[0].weight):
        return forests[0]
    every = ForestEdges._make(np.concatenate(columns) for columns in zip(*forests, strict=True))
    order, rows = span_order(every, start), len(start.ids)
    merges = empty_merges(len(order), np.dtype(np.int64))
    taken = order[: unite(order, every, (np.arange(rows), np.ones(rows, np.int64)), merges)]
    return ForestEdges._make(column[taken] for column in every)


def join_parts(parts: Iterable[ForestEdges], start: Start) -> ForestEdges:
    """Return the lightest spanning forest among edges that come one part after the other."""
    held, edges = [no_forest()], 0
    for found in parts:
        held.append(found)
        edges += len(found.weight)
        if edges > max(HELD, 4 * len(start.ids)):
            held = [join_forests(held, start)]
            edges = len(held[0].weight)
    return join_forests(held, start)


def outline_of(forest: ForestEdges, rows: int) -> Outline:
    """Put the rows of a forest in the order of its leaves."""
    order = np.argsort(forest.weight, kind="stable")
    merges = empty_merges(len(order), np.dtype(np.int64))
    merges = part(merges, None, unite(order, forest, (np.arange(rows), np.ones(rows, np.int64)), merges))
    size: Ids = np.ones(rows, cluster_id_dtype(rows))
    join_sizes(merges.left, merges.right, size)
    position, gap = place_leaves(rows, merges, np.zeros(len(merges.left), np.uint8), size)
    place = np.empty(rows, np.int64)
    place[position] = np.arange(rows)
    return Outline(place, np.append(merges.height, np.inf)[gap.reshape(-1)[:rows]])
