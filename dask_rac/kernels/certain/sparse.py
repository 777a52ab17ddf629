"""Sparse vectors reduced to clusters: the products of one vector with all later ones, by the terms that they share."""

import numpy as np

from dask_rac.kernels.certain.fold import add_row, clear, first_column, fold_line, piece_end
from dask_rac.kernels.jit import kernel
from dask_rac.kernels.vectors.pairs import Points, of_products


@kernel
def fold_postings(given, rule, order, part, out) -> None:
    """Fold the weights of a part of all pairs into the entries of their clusters; the part has whole pieces.

    `given` are vectors in the order of places, and their postings: starts, places in ascending order, and values by
    term. `rule` is the linkage and the metric.
    """
    points, postings = given
    code = rule[0]
    room, sums = np.empty(part.end - part.column, np.float64), np.empty(part.end - part.column, np.float64)
    place = part.first
    while place < part.last:
        stop, first = piece_end(order, place), first_column(order, place, part)
        if first < part.end:
            line, total = room[first - part.column :], sums[first - part.column :]
            clear(code, total)
            for i in range(place, stop):
                weigh_row(points, postings, rule[1], (i, first), line)
                add_row(code, line, order.share[i], total)
            fold_line(code, total, (place, first), order, part, out)
        place = stop


@kernel
def weigh_row(points: Points, postings, metric, corner, line) -> None:
    """Write the weights of a vector with all others from a place on; `corner` is its place, and that one.

    Products are added in ascending order of terms, as for a single pair.
    """
    begin, place, value = postings
    i, first = corner
    line[:] = 0.0
    for e in range(points.start[i], points.start[i + 1]):
        x, lo, q = points.value[e], begin[points.term[e]], begin[points.term[e] + 1] - 1
        while q >= lo and place[q] >= first:
            if place[q] < first + len(line):
                line[place[q] - first] += x * value[q]
            q -= 1
    of_products(points, i, points, (first, 1), metric, line)
