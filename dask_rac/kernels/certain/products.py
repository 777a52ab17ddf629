"""Dense vectors reduced to clusters by their products, the fastest way.

For largest weights, products in float32 tell which pairs may be the farthest of two clusters, and only these are
weighed in float64, see `fold_farthest`. For sums of euclidean distances, products in float64 are exact enough, but for
pairs so near that the difference of squares cancels: these are weighed by their differences, see `fold_roots`.
Products of small whole numbers are exact in float32, and then nothing is weighed again.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.certain.fold import add_row, clear, first_column, fold_line, piece_end
from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.matrix.weights import LARGEST, MEAN
from dask_rac.kernels.vectors.fours import weigh_rows
from dask_rac.kernels.vectors.pairs import EUCLIDEAN, INNER, of_square
from dask_rac.kernels.vectors.products import TALL, WIDE, multiply_lanes
from dask_rac.kernels.vectors.triangle import row_start, widen

DOUBLE = 2.0**-50  # above the rounding unit of weights, with room for several roundings
CANCELS = 2.0**-22  # times the terms: of a squared distance above it, at least 30 bits are right, and 31 of its root


class Screen(NamedTuple):
    """What is known of all vectors before they are multiplied; arrays are by place but for `centre` and `widest`."""

    centre: NDArray[np.float64]  # what is subtracted from each vector first; empty if nothing is
    half: NDArray[np.floating]  # half the squared norm of what is left where weights are distances, else 0
    norm: NDArray[np.float64]  # the norm of what is left
    widest: NDArray[np.float64]  # the largest norm in each cluster
    exact: bool  # whether products are
    unit: float  # the rounding unit of products
    terms: float  # how many rounding units, times both norms, a product may be off
    least: float  # how far a value may be off that is too small to be rounded to so many bits


class Room(NamedTuple):
    """Room for a tile: its vectors as they are weighed and as they are multiplied, and their products."""

    own: NDArray[np.float64]
    others: NDArray[np.float64]
    rows: NDArray[np.floating]
    panels: NDArray[np.floating]
    tile: NDArray[np.floating]
    held: NDArray[np.int64]  # pairs that are to be weighed: row, column, and the entry


@kernel
def square_norms(given, centre, square) -> None:
    """Write the squared norm of each vector less the centre, by row."""
    line = np.empty(given[0].shape[1], np.float64)
    for row in range(len(square)):
        widen(given, row, line, 1)
        total = 0.0
        for k in range(len(line)):
            x = line[k] - centre[k] if len(centre) else line[k]
            total += x * x
        square[row] = total


@kernel
def fold_products(given, screen, rule, order, part, out) -> None:
    """Fold the weights of a part of all pairs into the entries of their clusters; the part has whole pieces.

    `given` are the vectors and their lengths, as for `fold_differences`, and the room for a tile; `rule` is the linkage
    and the metric.
    """
    vectors, room = given
    lanes = WIDE // room.tile.itemsize
    width = room.tile.shape[1]
    rows = part.last - part.first
    for r in range(rows):
        widen(vectors, order.row[part.first + r], room.own[r], 1)
        centre_to(room.own[r], screen.centre, room.rows[r], 1)
    for begin in range(first_column(order, part.first, part), part.end, width):
        end = min(begin + width, part.end)
        for c in range(end - begin):
            widen(vectors, order.row[begin + c], room.others[c], 1)
            panel, lane = divmod(c, lanes)
            centre_to(room.others[c], screen.centre, room.panels[panel, lane:], lanes)
        high = rows
        while first_column(order, part.first + high - 1, part) >= end:
            high -= 1
        for panel in range((end - begin + lanes - 1) // lanes):
            for r in range(0, high, TALL):
                multiply_lanes(room.rows, r, room.panels, panel, room.tile)
        corner = part.first, begin, high, end - begin
        if rule[0] == LARGEST:
            fold_farthest(room, corner, (screen, rule[1]), order, part, out)
        else:
            fold_roots(room, corner, screen, order, part, out)


@inlined
def centre_to(vector, centre, out, step):
    """Write a vector less the centre to every `step`-th place."""
    for k in range(len(vector)):
        out[step * k] = vector[k] - centre[k] if len(centre) else vector[k]


@kernel
def fold_farthest(room, corner, view, order, part, out) -> None:
    """Fold a tile of products into the largest weights of clusters.

    `corner` is the places of the first row and column, and how many there are; `view` is the screen and the metric. The
    pair of a piece and a cluster with the largest score may not have the largest weight, but one whose score is within
    twice the slack of it has. These are weighed, most often a single one.
    """
    screen, metric = view
    first, begin, high, wide = corner
    tile, half, exact = room.tile, screen.half, screen.exact
    scores = np.empty(wide, tile.dtype)
    cluster, slots, held, held_pairs = order.cluster, len(order.begin) - 1, 0, room.held
    place = first
    while place < first + high:
        stop, start = piece_end(order, place), max(first_column(order, place, part) - begin, 0)
        if start < wide:
            scores[start:] = -np.inf
            norm = 0.0
            for r in range(place - first, stop - first):
                raise_scores(tile[r, start:wide], half[first + r], scores[start:])
                norm = max(norm, screen.norm[first + r])
            add_halves(scores[start:], half[begin + start : begin + wide])
            base = part.base + row_start(slots - 1 - cluster[place]) + slots - 1
            at = start
            while at < wide:
                other = cluster[begin + at]
                stop_at = min(order.begin[other + 1] - begin, wide)
                best, second, column = two_largest(scores, at, stop_at)
                if exact:
                    weight = -(0.0 - best) if metric == INNER else of_square(2.0 * best, metric)
                    out[base - other] = max(out[base - other], weight)
                else:
                    low = best - 2.0 * slack_of(screen, norm, screen.widest[other])
                    rows = place - first, stop - first
                    next_best, row = second_row(tile, half[first:], rows, column)
                    if second < low and np.float64(next_best + half[begin + column]) < low:
                        held_pairs[held, 0], held_pairs[held, 1], held_pairs[held, 2] = row, column, base - other
                        held += 1
                    else:
                        weight = largest_within(room, half, (first, begin), (rows, at, stop_at), (low, metric))
                        out[base - other] = max(out[base - other], weight)
                    if held == len(held_pairs):
                        weigh_held(room, held, metric, out)
                        held = 0
                at = stop_at
        place = stop
    weigh_held(room, held, metric, out)


@kernel
def weigh_held(room, count, metric, out) -> None:
    """Weigh the pairs that are held, one after the other: in between, a branch that is not foreseen would cost more."""
    own, others, held = room.own, room.others, room.held
    for k in range(count):
        r, c, at = held[k, 0], held[k, 1], held[k, 2]
        out[at] = max(out[at], weigh_rows(own, r, others, c, metric))


@kernel
def raise_scores(products, half, line) -> None:
    """Raise the largest scores of columns so far to those of another row; vectorised."""
    for c in range(len(line)):
        score = half - products[c]
        line[c] = score if score > line[c] else line[c]


@kernel
def add_halves(scores, half) -> None:
    """Complete the largest scores of columns; vectorised."""
    for c in range(len(scores)):
        scores[c] += half[c]


@inlined
def two_largest(scores, start, stop):
    """Return the largest score in some columns, the second largest, and the column of the first.

    Without branches: which column has the largest cannot be foreseen.
    """
    best, second, column = scores[start], -np.inf, start
    for c in range(start + 1, stop):
        score = scores[c]
        lower = best if score > best else score
        second = lower if lower > second else second
        column = c if score > best else column
        best = score if score > best else best
    return np.float64(best), np.float64(second), column


@inlined
def second_row(tile, half, rows, column):
    """Return the second largest score of a piece in a column, before its half is added, and the row of the largest."""
    best, second, row = half[rows[0]] - tile[rows[0], column], -np.inf, rows[0]
    for r in range(rows[0] + 1, rows[1]):
        score = half[r] - tile[r, column]
        lower = best if score > best else score
        second = lower if lower > second else second
        row = r if score > best else row
        best = score if score > best else best
    return second, row


@kernel
def largest_within(room, half, corner, places, rule):
    """Return the largest weight among the pairs of a piece and some columns whose score is high enough.

    `corner` is the places of the first row and column of the tile, `places` are the rows and the columns, `rule` is the
    least score and the metric.
    """
    tile, own, others = room.tile, room.own, room.others
    (first, begin), (rows, start, stop), (low, metric) = corner, places, rule
    weight = -np.inf
    for r in range(rows[0], rows[1]):
        for c in range(start, stop):
            if np.float64((half[first + r] - tile[r, c]) + half[begin + c]) >= low:
                weight = max(weight, weigh_rows(own, r, others, c, metric))
    return weight


@inlined
def slack_of(screen, norm, other):
    """Return how far the score of two vectors may be from what their weight stands for, given bounds of their norms."""
    both = norm + other
    rounding = screen.unit * (screen.terms * norm * other + 4.0 * (norm * norm + other * other))
    return rounding + screen.terms * DOUBLE * both * both + screen.terms * screen.least * (2.0 + both)


@kernel
def fold_roots(room, corner, screen, order, part, out) -> None:
    """Fold a tile of products into the sums of the euclidean distances between clusters; `corner` is as above."""
    first, begin, high, wide = corner
    tile, half = room.tile, screen.half
    own, others = room.own, room.others
    sums, row = np.empty(wide, np.float64), np.empty(wide, np.float64)
    cut = 0.0 if screen.exact else screen.terms * CANCELS
    place = first
    while place < first + high:
        stop, start = piece_end(order, place), max(first_column(order, place, part) - begin, 0)
        if start < wide:
            line = sums[start:]
            clear(MEAN, line)
            for r in range(place - first, stop - first):
                halves = half[begin + start : begin + wide]
                if root_row(tile[r, start:wide], half[first + r], halves, cut, row[start:]):
                    for c in range(start, wide):
                        if cancels(half[first + r], half[begin + c], tile[r, c], cut):
                            row[c] = weigh_rows(own, r, others, c, EUCLIDEAN)
                add_row(MEAN, row[start:], order.share[first + r], line)
            fold_line(MEAN, line, (place, begin + start), order, part, out)
        place = stop


@inlined
def cancels(half, other, product, cut):
    """Whether a squared distance is too small, beside the squared norms, to be computed from the product."""
    both = np.float64(half + other)
    return both - np.float64(product) < cut * both


@kernel
def root_row(products, half, halves, cut, row):
    """Write distances from products; return how many of them cancel. Vectorised."""
    near = np.int64(0)
    for c in range(len(row)):
        both = np.float64(half + halves[c])
        left = both - np.float64(products[c])
        near += left < cut * both
        row[c] = np.sqrt(2.0 * left if left > 0.0 else 0.0)
    return near
