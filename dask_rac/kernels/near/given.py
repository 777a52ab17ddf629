"""Bands of a triangle of given distances: what is near in them, and their reduction to clusters."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.matrix.weights import LARGEST


class Clustered(NamedTuple):
    """The clusters of nodes, which are in reverse as in a triangle, and the entries that are reduced."""

    slot: NDArray[np.int64]  # of the cluster of each node in the triangle of clusters, -1 if it is in none
    share: NDArray[np.float64]  # what each node counts for
    begin: int  # the number of the first entry in `out`
    out: NDArray[np.float64]


@kernel
def count_within(entries, radius):
    """Count the entries up to a radius; vectorised."""
    count = 0
    for e in range(len(entries)):
        count += entries[e] <= radius
    return count


@kernel
def take_within(entries, rows, radius, found) -> None:
    """List the pairs up to a radius in rows of a triangle; `rows` are the first, the last and the number of nodes."""
    source, target, weight = found
    first, last, nodes = rows
    e = at = 0
    for s in range(first, last):
        for t in range(s):
            if entries[e] <= radius:
                source[at], target[at], weight[at] = nodes - 1 - s, nodes - 1 - t, entries[e]
                at += 1
            e += 1


@kernel
def reduce_band(code, entries, rows, held, own) -> None:
    """Add the entries of rows of a triangle to those of clusters, in the rows `own` of their triangle."""
    slot, share, begin, out = held
    e = 0
    for s in range(rows[0], rows[1]):
        a, mine = slot[s], share[s]
        for t in range(s):
            b = slot[t]
            upper, lower = max(a, b), min(a, b)
            if own[0] <= upper < own[1] and upper > lower >= 0:
                at = upper * (upper - 1) // 2 + lower - begin
                if code == LARGEST:
                    out[at] = max(out[at], entries[e])
                else:
                    out[at] += mine * share[t] * entries[e]
            e += 1
