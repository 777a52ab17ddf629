"""Sums of squared distances between clusters, from the mean and the spread of each.

The mean of |x - y|^2 over the pairs of two clusters is the squared distance of their means, plus the spread of either:
the mean of |x - mean|^2. All three are 0 or more, so nothing cancels in their sum.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.vectors.pairs import COSINE, Points, weigh
from dask_rac.kernels.vectors.triangle import row_start, widen


class Spreads(NamedTuple):
    """What the squared distances of clusters depend on beside their means, by slot."""

    total: NDArray[np.float64]  # what all vectors of the cluster count for
    spread: NDArray[np.float64]  # the mean squared distance from the mean
    square: NDArray[np.float64]  # the mean squared norm, by which the mean may be off


@kernel
def find_means(given, origin, order, mean, spreads) -> None:
    """Write the mean of each dense cluster less the origin, by cluster, and its spreads.

    `given` are the vectors, and their lengths by which they are divided first for cosines, else none. Sums are
    compensated: the mean of many vectors is as exact as one of them.
    """
    slots, dimensions = len(order.begin) - 1, len(origin)
    vector, lost = np.empty(dimensions, np.float64), np.empty(dimensions, np.float64)
    for a in range(slots):
        total, at = mean[a], slots - 1 - a
        total[:] = 0.0
        lost[:] = 0.0
        size = square = spread = 0.0
        for place in range(order.begin[a], order.begin[a + 1]):
            widen(given, order.row[place], vector, 1)
            share = order.share[place]
            size += share
            for k in range(dimensions):
                x = vector[k] - origin[k]
                square += share * (x * x)
                y = share * x - lost[k]
                new = total[k] + y
                lost[k] = (new - total[k]) - y
                total[k] = new
        for k in range(dimensions):
            total[k] /= size
        for place in range(order.begin[a], order.begin[a + 1]):
            widen(given, order.row[place], vector, 1)
            for k in range(dimensions):
                apart = (vector[k] - origin[k]) - total[k]
                spread += order.share[place] * (apart * apart)
        single = order.begin[a + 1] - order.begin[a] == 1
        spreads.total[at], spreads.square[at] = size, square / size
        spreads.spread[at] = 0.0 if single else spread / size


@kernel
def add_totals(given, order, total) -> None:
    """Write the sum of each dense cluster, by cluster."""
    vector = np.empty(total.shape[1], np.float64)
    total[:] = 0.0
    for a in range(len(total)):
        for place in range(order.begin[a], order.begin[a + 1]):
            widen(given, order.row[place], vector, 1)
            for k in range(len(vector)):
                total[a, k] += order.share[place] * vector[k]


@kernel
def add_spreads(spreads, cut, metric, rows, out):
    """Make sums of the squared distances of means, in some rows of the triangle; return how many are too small.

    Those below `cut` times the squared norms become NaN: rounding of the means would show.
    """
    total, spread, square = spreads
    near, at = 0, 0
    scale = 0.5 if metric == COSINE else 1.0
    for s in range(rows[0], rows[1]):
        line = out[at : at + s]
        for t in range(s):
            mean = line[t] + (spread[s] + spread[t])
            small = mean < cut * (square[s] + square[t])
            near += small
            line[t] = np.nan if small else scale * mean * (total[s] * total[t])
        at += s
    return near


@kernel
def sum_near(points: Points, metric, order, rows, out) -> None:
    """Replace the NaN of some rows of the triangle by sums over all pairs of vectors."""
    slots = len(order.begin) - 1
    for s in range(rows[0], rows[1]):
        at = row_start(s) - row_start(rows[0])
        for t in range(s):
            if np.isnan(out[at + t]):
                a, b = slots - 1 - s, slots - 1 - t
                total = 0.0
                for i in range(order.begin[a], order.begin[a + 1]):
                    for j in range(order.begin[b], order.begin[b + 1]):
                        weight = weigh(points, order.row[i], points, order.row[j], metric)
                        total += (order.share[i] * order.share[j]) * weight
                out[at + t] = total
