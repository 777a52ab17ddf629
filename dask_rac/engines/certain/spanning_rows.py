"""The lightest spanning forest of given distances, which are read once, some rows of the triangle at a time.

What is known of the rows before leaves out nearly all pairs of a band: those heavier than the path between their ends
in the forest so far. Nodes that it does not reach yet are joined first, each by its lightest edge in the band.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.spans import Span
from dask_rac.engines.certain.spanning_state import ForestEdges, join_forests, join_parts, outline_of
from dask_rac.engines.start import Start
from dask_rac.kernels.light import lightest_of, sweep_rows
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.triangle import triangle_entries

LARGEST = 2**26  # entries of a band, unless a single row has more
SMALLEST = 2**20
SHARE = 4  # a band takes one part in so many of the memory of a thread


def row_bands(nodes: int, entries: int, first: int = 0) -> list[Span]:
    """Return bands of rows of the triangle from a row on, given the entries for which a thread has memory."""
    most = min(LARGEST, max(SMALLEST, entries // SHARE))
    bands = []
    while first < nodes:
        last = min(nodes, max(first + 1, int((first * first + 2 * most) ** 0.5)))
        bands.append((first, last))
        first = last
    return bands


def span_rows(pairs: AllPairs, start: Start, known: ForestEdges, band: Span) -> ForestEdges:
    """Return the lightest spanning forest of the pairs of some rows and the edges that are known."""
    first, last = band
    entry = np.empty(triangle_entries(last) - triangle_entries(first))
    pairs.read(first, last, entry)
    forest = join_forests([known, _first_edges(entry, band, known, pairs.nodes)], start)
    return join_forests([forest, join_parts(_light(entry, band, forest, pairs.nodes), start)], start)


def _first_edges(entry: NDArray[np.float64], band: Span, known: ForestEdges, nodes: int) -> ForestEdges:
    """Return the lightest edge, among these rows, of each node that has none yet."""
    alone = np.ones(nodes, np.bool_)
    alone[known.source] = alone[known.target] = False
    other, weight = np.full(nodes, -1), np.full(nodes, np.inf)
    lightest_of(entry, band, alone, (other, weight))
    found = np.flatnonzero(other >= 0)
    return ForestEdges(found, other[found], weight[found])


def _light(entry: NDArray[np.float64], band: Span, forest: ForestEdges, nodes: int) -> Iterator[ForestEdges]:
    """Yield the pairs of some rows that are no heavier than the path between their ends."""
    order, gap = outline_of(forest, nodes)
    position = np.empty(nodes, np.int64)
    position[nodes - 1 - order] = np.arange(nodes)  # slots are nodes in reverse
    room, limit, row = max(SMALLEST, 2 * nodes), np.empty(nodes), band[0]
    while row < band[1]:
        tree = ForestEdges(np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room))
        count, row = sweep_rows(entry, (band[0], row, band[1]), (position, gap), limit, tree)
        yield ForestEdges._make(column[:count] for column in tree)
