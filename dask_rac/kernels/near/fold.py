"""Fold: after a round, combine the entries of each pair, row by row, in place where there is room.

The row of a pair `i < p` is made of its two rows, and in every row the entries of a pair `c < d` become one. Up to four
values are combined as (ic + pd) + (id + pc), which has the same bits from both ends. For a part that has no entry, the
least that it can be takes its place: it is not below either of the two radii. From then on the entry is not exact, and
never will be again, as no merge makes unknown node pairs known.

An entry whose W is not below the larger one of the two radii says no more than no entry would, and is dropped. By
complete linkage, with one radius for all, these are all entries that are not exact.

A row is read and written by one thread and by no other, so threads need no copy of the rows. Sizes and radii are needed
as they were before the round and as they are after it.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.matrix.weights import LARGEST, MEAN, WEIGHTED
from dask_rac.kernels.near.arrays import Room
from dask_rac.kernels.near.nearest import find_nearest, height_of, slot_of

INEXACT = np.uint8(16)  # the bit of a part that is not exact; bits 0 to 3 are parts: own one times 2, plus the other's


@kernel
def fold_room(slots, entries):
    """Return room to fold rows of so many entries."""
    return Room(
        np.full(slots, -1),
        np.empty(entries, np.int64),
        np.empty(entries, np.float64),
        np.empty(entries, np.float64),
        np.empty(entries, np.uint8),
        np.empty(entries, np.uint16),
    )


@inlined
def combine(code, x, y):
    """Combine two values."""
    return max(x, y) if code == LARGEST else x + y


@kernel
def take_row(folding, i, part, room, count):
    """Sort the entries of a row of slot `i` into a room where `count` slots have a place; return their new number.

    With part 1 it is the row of its partner. The row of a slot that does not merge keeps the entries of clusters that
    do not either, and its new length is returned, too.
    """
    code, (neighbour, value, tie), partner = folding.code, folding.arena, folding.partner
    place, slot, straight, crossed, parts, ties = room
    row = partner[i] if part else i
    first, last = folding.rows.start[row], folding.rows.start[row] + folding.rows.length[row]
    keeps = partner[i] < 0
    nothing = -np.inf if code == LARGEST else 0.0
    end = first
    for e in range(first, last):
        s = slot_of(neighbour[e])
        d = partner[s]
        if keeps and d < 0:
            if end < e:
                neighbour[end], value[end], tie[end] = neighbour[e], value[e], tie[e]
            end += 1
            continue
        side = 1 if 0 <= d < s else 0
        target = d if side else s
        if target == i:
            continue
        k = place[target]
        if k < 0:
            k = count
            count += 1
            place[target], slot[k] = k, target
            straight[k], crossed[k], parts[k], ties[k] = nothing, nothing, 0, 0
        if part == side:
            straight[k] = combine(code, straight[k], value[e])
        else:
            crossed[k] = combine(code, crossed[k], value[e])
        parts[k] |= np.uint8(1 << (2 * part + side))
        if neighbour[e] < 0:
            parts[k] |= INEXACT
        ties[k] = max(ties[k], tie[e])
    return count, end - first


@inlined
def least_value(code, before, a, b):
    """Return the least value that a pair of clusters without an entry can have."""
    least = max(before.radius[a], before.radius[b])
    return least * (before.size[a] * before.size[b]) if code == MEAN else least


@kernel
def settle(folding, i, room, count):
    """Turn what was sorted into a room into entries of slot `i`, and clear its places; return the number of entries."""
    code, before, after, partner = folding.code, folding.before, folding.after, folding.partner
    place, slot, straight, crossed, parts, ties = room
    p = partner[i]
    kept = 0
    for k in range(count):
        t = slot[k]
        place[t] = -1
        d = partner[t]
        x, y, known = straight[k], crossed[k], parts[k]
        exact = known < INEXACT
        for part in range(2 if p >= 0 else 1):
            for side in range(2 if d >= 0 else 1):
                if (known >> (2 * part + side)) & 1:
                    continue
                exact = False
                least = least_value(code, before, p if part else i, d if side else t)
                if part == side:
                    x = combine(code, x, least)
                else:
                    y = combine(code, y, least)
        value = combine(code, x, y)
        if code == WEIGHTED:
            value *= (0.5 if p >= 0 else 1.0) * (0.5 if d >= 0 else 1.0)
        if height_of(code, value, after.size[i], after.size[t]) < max(after.radius[i], after.radius[t]):
            slot[kept], straight[kept], ties[kept] = (t if exact else ~t), value, ties[k]
            kept += 1
    return kept


@kernel
def put_row(arena, room, count, start) -> None:
    """Write the entries of a room to the arena."""
    for k in range(count):
        arena.neighbour[start + k] = room.slot[k]
        arena.value[start + k] = room.straight[k]
        arena.tie[start + k] = room.tie[k]


@kernel
def fold_row(folding, i, room):
    """Fold the row of a slot that goes on."""
    start, length = folding.rows
    p = folding.partner[i]
    if p < 0:
        count, kept = take_row(folding, i, 0, room, 0)
        more = settle(folding, i, room, count) if count else 0
        put_row(folding.arena, room, more, start[i] + kept)
        length[i] = kept + more
        return
    count = take_row(folding, i, 0, room, 0)[0]
    count = take_row(folding, i, 1, room, count)[0]
    count = settle(folding, i, room, count)
    if count > max(length[i], length[p]):
        start[i] = folding.tail[i]
    elif length[p] > length[i]:
        start[i] = start[p]
    put_row(folding.arena, room, count, start[i])
    length[i], length[p] = count, 0


@kernel
def fold_rows(folding, live, span):
    """Fold a range of the rows that go on, and find the nearest of those that may have another one.

    Return the number of entries, and of clusters that did not merge but whose nearest did.
    """
    code, arena, rows, after, nearest = folding.code, folding.arena, folding.rows, folding.after, folding.nearest
    partner, length = folding.partner, rows.length
    most = 0
    for k in range(span[0], span[1]):
        i = live[k]
        most = max(most, length[i] + (length[partner[i]] if partner[i] >= 0 else 0))
    room = fold_room(len(partner), most)
    entries = updates = 0
    for k in range(span[0], span[1]):
        i = live[k]
        lost = nearest.seen[i] >= 0 and partner[nearest.seen[i]] >= 0
        fold_row(folding, i, room)
        if lost or partner[i] >= 0:
            find_nearest(code, arena, rows, after, i, nearest)
            updates += partner[i] < 0
        entries += length[i]
    return entries, updates


@kernel
def close_gaps(arena, rows, order):
    """Move all rows to the front of the arena, in the order in which they lie there; return where they end."""
    (neighbour, value, tie), (start, length) = arena, rows
    end = 0
    for k in range(len(order)):
        i = order[k]
        first = start[i]
        if first > end:
            for e in range(length[i]):
                neighbour[end + e], value[end + e], tie[end + e] = (
                    neighbour[first + e],
                    value[first + e],
                    tie[first + e],
                )
        start[i] = end
        end += length[i]
    return end
