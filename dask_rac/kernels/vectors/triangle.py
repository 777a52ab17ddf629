"""Rows of the triangle of all weights, from vectors.

Nodes are taken in reverse: slot s is node n - 1 - s, and row s of the triangle begins at s (s - 1) / 2 and holds the
weights of slot s with the slots t < s. This is scipy's condensed vector from its end to its start.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.vectors.lanes import LANES, add_distances, add_products, add_squares
from dask_rac.kernels.vectors.pairs import INNER, MANHATTAN, Points, from_product, of_square

ROWS = 256  # that share a panel: to fill one takes as long as to use it for some ten rows
ROWS_VALUES = 2**21  # of these rows at most


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
    step = max(1, min(ROWS, ROWS_VALUES // vectors.shape[1], last - first))
    own = np.empty((step, vectors.shape[1]), np.float64)
    panel = np.zeros(LANES * vectors.shape[1], np.float64)
    total = np.empty(LANES, np.float64)
    for start in range(first, last, step):
        stop = min(start + step, last)
        for slot in range(start, stop):
            _widen(vectors, lengths, slot, own[slot - start], 1)
        for t in range(0, stop - 1, LANES):
            for other in range(t, min(t + LANES, stop - 1)):
                _widen(vectors, lengths, other, panel[other - t :], LANES)
            for slot in range(max(start, t + 1), stop):
                _add(own[slot - start], panel, metric, total)
                at = row_start(slot) - row_start(first) + t
                for lane in range(min(LANES, slot - t)):
                    out[at + lane] = _weight_of(total[lane], metric)


@inlined
def _widen(vectors, lengths, slot, out, step):
    """Write the float64 values of a vector to every `step`-th place."""
    node = len(vectors) - 1 - slot
    for k in range(vectors.shape[1]):
        x = np.float64(vectors[node, k])
        out[step * k] = x / lengths[node] if len(lengths) else x


@inlined
def _add(own, panel, metric, total):
    """Add up the dimensions of a vector with a panel of others."""
    if metric == INNER:
        add_products(own, panel, total)
    elif metric == MANHATTAN:
        add_distances(own, panel, total)
    else:
        add_squares(own, panel, total)


@inlined
def _weight_of(total, metric):
    """Convert a sum over all dimensions to the weight."""
    if metric == INNER:
        return -total
    if metric == MANHATTAN:
        return total
    return of_square(total, metric)


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
        for t in range(slot):
            if metric == INNER:
                line[t] = -line[t]
            else:
                line[t] = of_square(from_product(points, node, points, nodes - 1 - t, line[t]), metric)
