"""From a tile of weights of vectors to the entries of their clusters, see `kernels.matrix.weights`.

Which tiles all pairs are cut into must not show in the last bits. So the places of a cluster are cut into pieces of
PIECE, counted from its first one, and a tile has whole pieces of rows. For a piece, each column is summed over the
rows, then the columns of the other cluster are, in the order of places, and the sums of the pieces are added to the
entry in their order. So the order of additions depends on the clusters alone.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.matrix.weights import LARGEST
from dask_rac.kernels.vectors.triangle import row_start

PIECE = 64  # rows whose weights with a column are added up before others are


@inlined
def piece_end(order, place):
    """Return where the piece of a place ends."""
    begin = order.begin[order.cluster[place]]
    return min(order.begin[order.cluster[place] + 1], begin + ((place - begin) // PIECE + 1) * PIECE)


@inlined
def first_column(order, place, part):
    """Return the first column that is compared with the cluster of a place."""
    return max(order.begin[order.cluster[place] + 1], part.column)


@kernel
def fold_tile(code, tile, corner, order, part, out) -> None:
    """Fold the weights of whole pieces with some columns into the entries of their clusters.

    `corner` is the place of the first row, and that of the first column. Tiles of a part must come in the order of
    columns, as `part.open` carries what belongs to a cluster whose columns go on in the next one.
    """
    height, width = tile.shape
    room = np.empty(width, np.float64)
    place = corner[0]
    while place < corner[0] + height:
        stop = piece_end(order, place)
        start = max(first_column(order, place, part) - corner[1], 0)
        if start < width:
            line = room[start:]
            clear(code, line)
            for r in range(place - corner[0], stop - corner[0]):
                add_row(code, tile[r, start:], order.share[corner[0] + r], line)
            fold_line(code, line, (place, corner[1] + start), order, part, out)
        place = stop


@inlined
def clear(code, line):
    """Begin a line of column sums, or of maxima."""
    line[:] = -np.inf if code == LARGEST else 0.0


@kernel
def add_row(code, row, share, line) -> None:
    """Add a row of weights to the columns of its piece; vectorised."""
    if code == LARGEST:
        for c in range(len(line)):
            line[c] = row[c] if row[c] > line[c] else line[c]
    else:
        for c in range(len(line)):
            line[c] += share * row[c]


@kernel
def fold_line(code, line, corner, order, part, out) -> None:
    """Combine the columns of a piece with the entries of their clusters.

    `corner` is the first place of the piece, and the place of the first column.
    """
    cluster, share, slots, carried = order.cluster, order.share, len(order.begin) - 1, part.open
    base = part.base + row_start(slots - 1 - cluster[corner[0]]) + slots - 1
    at, end = corner[1], corner[1] + len(line)
    while at < end:
        other = cluster[at]
        stop = min(order.begin[other + 1], end)
        if code == LARGEST:
            total = out[base - other]
            for c in range(at, stop):
                total = max(total, line[c - corner[1]])
            out[base - other] = total
        else:
            total = carried[corner[0] - part.first] if order.begin[other] < at else 0.0
            for c in range(at, stop):
                total += share[c] * line[c - corner[1]]
            if stop < order.begin[other + 1]:
                carried[corner[0] - part.first] = total
            else:
                out[base - other] += total
        at = stop
