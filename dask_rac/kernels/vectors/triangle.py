"""Rows of the triangle of all weights, from vectors.

Nodes are taken in reverse: slot s is node n - 1 - s, and row s of the triangle begins at s (s - 1) / 2 and holds the
weights of slot s with the slots t < s. This is scipy's condensed vector from its end to its start.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.vectors.lanes import (
    LANES,
    cosine_lanes,
    euclidean_lanes,
    inner_lanes,
    manhattan_lanes,
    squared_lanes,
)
from dask_rac.kernels.vectors.pairs import COSINE, EUCLIDEAN, INNER, MANHATTAN, Points, of_products

ROWS = 256  # that share a panel: to fill one takes as long as to use it for some ten rows
ROWS_VALUES = 2**21  # of these rows at most
PANEL_VALUES = (
    2**14
)  # of the panels that a row meets in turn: they stay in the cache, and rows are written in long runs


@inlined
def row_start(slot):
    """Return where a row of the triangle begins."""
    return slot * (slot - 1) // 2


@kernel
def weigh_dense_rows(vectors, lengths, metric: int, rows, out) -> None:
    """Write the weights of the rows `rows` of the triangle to `out`, which holds these rows only.

    `lengths` are the norms by which vectors are divided first for cosines, else empty.
    """
    first, last = rows
    dimensions, given = vectors.shape[1], (vectors, lengths)
    step = max(1, min(ROWS, ROWS_VALUES // dimensions, last - first))
    width = LANES * max(1, PANEL_VALUES // (LANES * dimensions))
    own = np.empty((step, dimensions), np.float64)
    panels = np.zeros((width // LANES, dimensions * LANES), np.float64)
    rest = np.empty(width, np.float64)
    for start in range(first, last, step):
        stop = min(start + step, last)
        for slot in range(start, stop):
            widen(given, len(vectors) - 1 - slot, own[slot - start], 1)
        for begin in range(0, stop - 1, width):
            for t in range(begin, min(begin + width, stop - 1)):
                panel, lane = divmod(t - begin, LANES)
                widen(given, len(vectors) - 1 - t, panels[panel, lane:], LANES)
            for slot in range(max(start, begin + 1), stop):
                at = row_start(slot) - row_start(first)
                weigh_line(own, slot - start, panels, metric, out[at + begin : at + min(begin + width, slot)], rest)


@inlined
def widen(given, row, out, step):
    """Write the float64 values of a vector to every `step`-th place, divided by its length if there are lengths."""
    vectors, lengths = given
    for k in range(vectors.shape[1]):
        x = np.float64(vectors[row, k])
        out[step * k] = x / lengths[row] if len(lengths) else x


@kernel
def weigh_line(own, row: int, panels, metric: int, line, rest) -> None:
    """Write the weights of a vector with the others of some panels; `rest` is room for those of a panel cut short."""
    whole = len(line) // LANES
    for panel in range(whole):
        _weigh_lanes(own, row, panels, panel, metric, line)
    if whole * LANES < len(line):
        _weigh_lanes(own, row, panels, whole, metric, rest)
        for t in range(whole * LANES, len(line)):
            line[t] = rest[t]


@inlined
def _weigh_lanes(own, row, panels, panel, metric, line):
    """Write the weights of a vector with the others of one panel."""
    if metric == INNER:
        inner_lanes(own, row, panels, panel, line)
    elif metric == MANHATTAN:
        manhattan_lanes(own, row, panels, panel, line)
    elif metric == COSINE:
        cosine_lanes(own, row, panels, panel, line)
    elif metric == EUCLIDEAN:
        euclidean_lanes(own, row, panels, panel, line)
    else:
        squared_lanes(own, row, panels, panel, line)


@kernel
def weigh_sparse_rows(points: Points, postings, metric: int, rows, out) -> None:
    """Write the weights of the rows `rows` of the triangle to `out`, which holds these rows only.

    `postings` are starts, slots in ascending order, and values by dimension. Products are added in ascending order of
    dimension, as for a single pair.
    """
    begin, place, value = postings
    first, last = rows
    nodes = len(points.start) - 1
    for slot in range(first, last):
        node = nodes - 1 - slot
        at = row_start(slot) - row_start(first)
        line = out[at : at + slot]
        line[:] = 0.0
        for e in range(points.start[node], points.start[node + 1]):
            x = points.value[e]
            for q in range(begin[points.term[e]], begin[points.term[e] + 1]):
                if place[q] >= slot:
                    break
                line[place[q]] += x * value[q]
        of_products(points, node, points, (nodes - 1, -1), metric, line)
