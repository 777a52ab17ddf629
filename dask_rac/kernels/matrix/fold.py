"""Fold: after a round, combine the entries of each pair, in place.

A pair of slots `c < d` becomes slot `c`, and the row of `d` ends. The row of a slot `i` that goes on needs, at each `c`
below it, the entries of `c` and of `d`, its own and those of its partner `e`. They are combined in two passes:

1. `fold_ending`: in the row of each `d`, the entries of all pairs below `d`.
2. `fold_block`: in each row that goes on, the entries of pairs below it; then, for pairs on both sides of it, what the
   row of `d` has for `i`, which after the first pass includes `e` if that is below `d`; then the row of `e`, which
   after the first pass includes `d` if that is below `e`.

In each pass a row is written by one thread, and what is written is not read in another row. So rows are folded in any
order, at the same time, without a copy.

A loop over pairs in each row took 24 ns for a pair and a row; three things bring that down to 5. Pairs are sorted out
once for a block of rows, as a branch on each would be wrong every other time. The entries in the row of `d` are read
for the whole block: they are neighbours in memory, and every `d` is on another page. And a row is read in order before
it is read at random.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.matrix.weights import WEIGHTED, combine

FOLD_ROWS = 16  # rows of a block
LINE = 8  # entries of a cache line


class Sorted(NamedTuple):
    """The pairs as seen from the rows of a block; each array has room for all pairs."""

    own_lower: NDArray[np.int64]  # both slots below the block
    own_upper: NDArray[np.int64]
    cross_lower: NDArray[np.int64]  # one slot below the block, the other above it
    cross_upper: NDArray[np.int64]
    fringe: NDArray[np.int64]  # pairs with a slot within the block, by number
    lifted: NDArray[np.float64]  # entries in the rows of `cross_upper`, one line per row of the block


@kernel
def sort_room(pairs):
    """Return room to sort pairs."""
    slots = np.empty((5, pairs + 1), np.int64)
    return Sorted(slots[0], slots[1], slots[2], slots[3], slots[4], np.empty((FOLD_ROWS, pairs)))


@kernel
def sort_pairs(found, pairs, first, last, room):
    """Sort the pairs that concern the rows `first` to `last`, inclusive; return the number of each kind."""
    lower, upper = found.lower, found.upper
    own = cross = fringe = 0
    for k in range(pairs):
        c, d = lower[k], upper[k]
        if c >= last:
            break
        # Written always and counted only where it applies: a branch would be wrong every other time.
        room.own_lower[own], room.own_upper[own] = c, d
        room.cross_lower[cross], room.cross_upper[cross] = c, d
        room.fringe[fringe] = k
        is_own, is_cross = d < first, (c < first) & (d > last)
        own += is_own
        cross += is_cross
        fringe += not (is_own | is_cross)
    return own, cross, fringe


@inlined
def touch(row, accesses):
    """Read a row in order, which is fast, if it is to be read at random in many places.

    Returns something, so that the compiler does not leave it out.
    """
    total = 0.0
    if accesses * LINE > len(row):
        for k in range(0, len(row), LINE):
            total += row[k]
    return total


@inlined
def fold_own(code, row, lower, upper):
    """Combine the entries of pairs in a row that has both."""
    for k in range(len(lower)):
        row[lower[k]] = combine(code, row[lower[k]], row[upper[k]])


@kernel
def fold_ending(code, triangle, found, pairs, span):
    """Fold the rows that end, those of the upper slots of a range of pairs; return what is of no use."""
    room = sort_room(pairs)
    total = 0.0
    for k in range(span[0], span[1]):
        d = found.upper[k]
        row = triangle.entry[triangle.start[d] : triangle.start[d] + d]
        own = sort_pairs(found, pairs, d, d, room)[0]
        total += touch(row, own)
        fold_own(code, row, room.own_lower[:own], room.own_upper[:own])
    return total


@kernel
def fold_block(code, triangle, rows, found, pairs, room):
    """Fold a block of rows that go on, given by their slots; return what is of no use."""
    entry, start = triangle
    own, cross, fringe = sort_pairs(found, pairs, rows[0], rows[-1], room)
    own_lower, own_upper = room.own_lower[:own], room.own_upper[:own]
    cross_lower, lifted = room.cross_lower[:cross], room.lifted
    for k in range(cross):
        base = start[room.cross_upper[k]]
        for r in range(len(rows)):
            lifted[r, k] = entry[base + rows[r]]
    total = 0.0
    for r in range(len(rows)):
        i = rows[r]
        row = entry[start[i] : start[i] + i]
        total += touch(row, own)
        fold_own(code, row, own_lower, own_upper)
        for k in range(own):
            row[own_upper[k]] = np.inf
        line = lifted[r, :cross]
        for k in range(cross):
            row[cross_lower[k]] = combine(code, row[cross_lower[k]], line[k])
        for k in range(fringe):
            c, d = found.lower[room.fringe[k]], found.upper[room.fringe[k]]
            if c < i:
                row[c] = combine(code, row[c], row[d] if d < i else entry[start[d] + i])
                if d < i:
                    row[d] = np.inf
        if found.partner[i] >= 0:
            base = start[found.partner[i]]
            other = entry[base : base + i]
            for k in range(i):
                row[k] = combine(code, row[k], other[k])
        if code == WEIGHTED:
            halve(row, i, found, pairs)
    return total


@kernel
def halve(row, i, found, pairs) -> None:
    """Make means of the sums in a folded row; halved earlier, the mean of four entries would have another value."""
    for k in range(pairs):
        if found.lower[k] >= i:
            break
        row[found.lower[k]] *= 0.5
    if found.partner[i] >= 0:
        for k in range(i):
            row[k] *= 0.5


@kernel
def shrink_row(triangle, kept, i) -> None:
    """Close up the entries of live slots in a row that was slot `kept[i]`; `kept` are the old slots of the new ones."""
    entry, start = triangle
    base = start[kept[i]]
    row = entry[base : base + kept[i]]
    for k in range(i):
        row[k] = row[kept[k]]


@kernel
def fold_rows(code, triangle, live, found, pairs, span):
    """Fold a range of the rows that go on; `live` are their slots. Returns what is of no use."""
    room = sort_room(pairs)
    total = 0.0
    for lo in range(span[0], span[1], FOLD_ROWS):
        total += fold_block(code, triangle, live[lo : min(lo + FOLD_ROWS, span[1])], found, pairs, room)
    return total
