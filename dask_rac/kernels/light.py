"""Pairs that are no heavier than the path between their ends in a spanning forest: no others can be in the lightest.

Rows are put in an order in which every tree of the forest, cut at any height, is an interval, as the leaves of its
dendrogram are. The heaviest edge on the path between two rows is then the highest gap between their places.

- `take_beyond`, `take_within`: the pairs of a tile of products that may be light, by their scores.
- `sweep_rows`: those of given distances, by their weights.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.order import hash64

CHUNK = 64  # scores compared at a time
MOST_ENDS = 2**16  # pairs of nodes of two clusters among which the lightest edge is looked for


class Screen(NamedTuple):
    """What decides whether a score may be light. Beyond a band of rows, a gap lies within the band or beyond it.

    A score is what is added to the negated product, `half`, less the product; a true one is smaller by at most the sum
    of what its row allows, what its column allows, which `half` has taken off already, and `rate` times `norm`.
    """

    high: NDArray[np.floating]  # of each row of the band: the largest score for the gaps within the band
    slack: NDArray[np.floating]  # of each row of the band: the same for a gap of score 0
    rate: NDArray[np.floating]  # of each row of the band
    half: NDArray[np.floating]  # of each other row
    lowered: NDArray[np.floating]  # the same, less the score of the gaps beyond the band
    norm: NDArray[np.floating]  # of each other row


@kernel
def take_beyond(product, at, screen, begin, found):
    """Write the places of pairs that may be light from row `begin` of a tile on; return how many, and the row to go on.

    `at` is the first row of the tile and its first column, counted from the end of the band.
    """
    first_row, first_place = at
    rows, places = found
    columns = product.shape[1]
    end = first_place + columns
    half, lowered, norm = screen.half[first_place:end], screen.lowered[first_place:end], screen.norm[first_place:end]
    taken = 0
    for row in range(begin, product.shape[0]):
        if taken + columns > len(rows):
            return taken, row
        i = first_row + row
        limits = screen.high[i], screen.slack[i], screen.rate[i]
        for start in range(0, columns, CHUNK):
            stop = min(start + CHUNK, columns)
            line = product[row, start:stop]
            if not _any_light(line, half[start:stop], lowered[start:stop], norm[start:stop], limits):
                continue
            for c in range(start, stop):
                less = product[row, c] + limits[2] * norm[c]
                if half[c] - less <= limits[0] or lowered[c] - less <= limits[1]:
                    rows[taken], places[taken] = i, first_place + c
                    taken += 1
    return taken, product.shape[0]


@kernel
def _any_light(line, half, lowered, norm, limits):
    """Whether any score of a line may be light; branchless, so that it compiles to SIMD."""
    high, slack, rate = limits
    light = np.int32(0)
    for c in range(len(line)):
        less = line[c] + rate * norm[c]
        light += np.int32((half[c] - less <= high) | (lowered[c] - less <= slack))
    return light > 0


@kernel
def take_within(product, at, gaps, screen, begin, found):
    """Do the same for a tile of the band with itself, for the pairs above the diagonal; `gaps` are scores of gaps."""
    first_row, first_place = at
    rows, places = found
    columns = product.shape[1]
    taken = 0
    for row in range(begin, product.shape[0]):
        if taken + columns > len(rows):
            return taken, row
        i = first_row + row
        slack, rate, highest = np.float64(screen.slack[i]), np.float64(screen.rate[i]), -np.inf
        for j in range(i + 1, first_place):
            highest = max(highest, gaps[j - 1])
        for c in range(max(0, i + 1 - first_place), columns):
            j = first_place + c
            highest = max(highest, gaps[j - 1])
            less = np.float64(product[row, c]) + rate * np.float64(screen.norm[j])
            if np.float64(screen.half[j]) - less <= highest + slack:
                rows[taken], places[taken] = i, j
                taken += 1
    return taken, product.shape[0]


@kernel
def sweep_rows(entry, rows, outline, limit, found):
    """Write the light pairs of rows of the triangle; return how many, and the row to go on with.

    `rows` are the first one, the one to begin with and the end; `outline` is the place of each slot and the gaps.
    """
    first, begin, last = rows
    position, gap = outline
    source, target, weight = found
    taken, nodes = 0, len(position)
    for s in range(begin, last):
        if taken + s > len(source):
            return taken, s
        _spread(gap, position[s], limit)
        at = s * (s - 1) // 2 - first * (first - 1) // 2
        for t in range(s):
            w = entry[at + t]
            if w <= limit[position[t]]:
                source[taken], target[taken], weight[taken] = nodes - 1 - s, nodes - 1 - t, w
                taken += 1
    return taken, last


@inlined
def _spread(gap, place, limit):
    """Write the highest gap between a place and every other."""
    highest = -np.inf
    for p in range(place + 1, len(limit)):
        highest = max(highest, gap[p - 1])
        limit[p] = highest
    highest = -np.inf
    for p in range(place - 1, -1, -1):
        highest = max(highest, gap[p])
        limit[p] = highest


@kernel
def lightest_of(entry, span, alone, best) -> None:
    """Write the lightest edge of each node that is alone in the forest, among the pairs of rows of the triangle."""
    other, weight = best
    nodes = len(alone)
    for s in range(span[0], span[1]):
        u, at = nodes - 1 - s, s * (s - 1) // 2 - span[0] * (span[0] - 1) // 2
        for t in range(s):
            v, w = nodes - 1 - t, entry[at + t]
            if alone[u] and w < weight[u]:
                other[u], weight[u] = v, w
            if alone[v] and w < weight[v]:
                other[v], weight[v] = u, w


@kernel
def lightest_ends(members, tree, ends, hashes) -> None:
    """Write the first edge between the nodes of two clusters, of which all are equally heavy, and its hash.

    `members` are the nodes of all clusters, and where those of each begin. Where they are too many, their first ones.
    """
    member, begin = members
    source, target = tree
    for e in range(len(source)):
        a, b = source[e], target[e]
        first, second = member[begin[a]], member[begin[b]]
        lowest = hash64(first, second)
        if (begin[a + 1] - begin[a]) * (begin[b + 1] - begin[b]) <= MOST_ENDS:
            for k in range(begin[a], begin[a + 1]):
                for q in range(begin[b], begin[b + 1]):
                    hashed = hash64(member[k], member[q])
                    if hashed < lowest:
                        lowest, first, second = hashed, member[k], member[q]
        ends[0][e], ends[1][e], hashes[e] = first, second, lowest
