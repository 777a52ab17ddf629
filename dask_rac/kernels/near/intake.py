"""Intake: near pairs of start clusters become rows, and the nearest of each is found."""

import numpy as np

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.matrix.ties import LARGEST_TIE, pair_tie
from dask_rac.kernels.matrix.weights import MEAN
from dask_rac.kernels.order import edge_tie


@kernel
def count_ends(source, target, length) -> None:
    """Count the pairs of each slot."""
    for e in range(len(source)):
        length[source[e]] += 1
        length[target[e]] += 1


@kernel
def scatter(pairs, rows, arena, span) -> None:
    """Write pairs into the rows of a range of slots, in the order of the pairs; rows must be empty, with room."""
    (source, target, weight), (start, length), (neighbour, value, _) = pairs, rows, arena
    first, last = span
    for e in range(len(source)):
        a, b, w = source[e], target[e], weight[e]
        if first <= a < last:
            at = start[a] + length[a]
            neighbour[at], value[at] = b, w
            length[a] += 1
        if first <= b < last:
            at = start[b] + length[b]
            neighbour[at], value[at] = a, w
            length[b] += 1


@kernel
def find_ties(arena, rows, members, span) -> None:
    """Set the ties of the entries of a range of slots."""
    (neighbour, _, tie), (start, length), (_, begin, ids) = arena, rows, members
    for i in range(span[0], span[1]):
        single = begin[i + 1] - begin[i] == 1
        for e in range(start[i], start[i] + length[i]):
            j = neighbour[e]
            if single and begin[j + 1] - begin[j] == 1:
                tie[e] = edge_tie(ids[i], ids[j])
            else:
                tie[e] = pair_tie(members, i, j, LARGEST_TIE)


@kernel
def set_radii(arena, rows, k, highest, radius, span) -> None:
    """Set the radii of a range of slots: the k-th smallest weight of each, and with fewer the `highest`."""
    value, (start, length) = arena.value, rows
    for i in range(span[0], span[1]):
        if length[i] < k:
            radius[i] = highest
        else:
            radius[i] = min(np.partition(value[start[i] : start[i] + length[i]], k - 1)[k - 1], highest)


@kernel
def sum_weights(code, arena, rows, size, span) -> None:
    """Turn the weights of a range of slots into values: for averages, of all node pairs together."""
    (neighbour, value, _), (start, length) = arena, rows
    if code == MEAN:
        for i in range(span[0], span[1]):
            for e in range(start[i], start[i] + length[i]):
                value[e] *= size[i] * size[neighbour[e]]
