"""Search: find the nearest of clusters in the triangle, of all at once or of a few.

The entries of a slot lie in its own row and, one each, in the rows above it. A pass over the rows serves every slot: a
row is compared with the best of its own slot and with the best of every slot below. Each thread passes over some of the
rows with bests of its own, which are then joined.
"""

import numpy as np

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.matrix.arrays import Wanted
from dask_rac.kernels.matrix.fold import FOLD_ROWS, fold_block, shrink_row, sort_room
from dask_rac.kernels.matrix.ties import prefers
from dask_rac.kernels.matrix.weights import least, weigh, weigh_block

BLOCK = 1024  # entries weighed at a time: they stay in the innermost cache
TIED = -2  # in place of the nearest, where several are equally near


@kernel
def lower_bests(weights, height, nearest, slot) -> None:
    """Compare the weights of a slot with the bests of others; vectorised."""
    for k in range(len(weights)):
        w, best, who = weights[k], height[k], nearest[k]
        who = TIED if w == best else who
        nearest[k] = slot if w < best else who
        height[k] = w if w < best else best


@kernel
def scan_row(code, row, i, groups, best, room) -> None:
    """Compare a row with the bests of all slots below, and put the best of its own slot to them."""
    size, inner = groups.size, groups.inner
    upper = size[i], inner[i]
    lowest, who = np.inf, -1
    for lo in range(0, i, BLOCK):
        hi = min(lo + BLOCK, i)
        weights = room[: hi - lo]
        weigh_block(code, row[lo:hi], size[lo:hi], inner[lo:hi], upper, weights)
        low = least(weights)
        if low < lowest:
            lowest, who = low, -1
            for k in range(hi - lo):
                if weights[k] == low:
                    who = lo + k if who == -1 else TIED
        elif low == lowest and low < np.inf:
            who = TIED
        lower_bests(weights, best.height[lo:hi], best.nearest[lo:hi], i)
    if lowest < best.height[i]:
        best.height[i], best.nearest[i] = lowest, who
    elif lowest == best.height[i] and lowest < np.inf:
        best.nearest[i] = TIED


@kernel
def scan_rows(code, triangle, groups, best, span) -> None:
    """Scan a range of rows."""
    room = np.empty(BLOCK)
    for i in range(span[0], span[1]):
        base = triangle.start[i]
        if base >= 0:
            scan_row(code, triangle.entry[base : base + i], i, groups, best, room)


@kernel
def renew_rows(state, live, pairs, groups, best, span) -> None:
    """Fold and scan a range of the rows that go on, while they are in the cache.

    `live` are their slots. If `groups` are fewer than before, they become slots 0, 1, 2, ..., in `best` as well.
    """
    code, triangle, before, found = state
    shrinks = len(groups.ids) < len(before.ids)
    weights = np.empty(BLOCK)
    room = sort_room(pairs)
    for lo in range(span[0], span[1], FOLD_ROWS):
        hi = min(lo + FOLD_ROWS, span[1])
        fold_block(code, triangle, live[lo:hi], found, pairs, room)
        for at in range(lo, hi):
            slot = live[at]
            if shrinks:
                shrink_row(triangle, live, at)
                slot = at
            base = triangle.start[live[at]]
            scan_row(code, triangle.entry[base : base + slot], slot, groups, best, weights)


@kernel
def consider(members, pair, weight, best, at) -> None:
    """Compare one more cluster with the best of a slot, which is the first of the pair."""
    slot, other = pair
    if weight > best.height[at] or other < 0:
        return
    if weight < best.height[at] or best.nearest[at] < 0:
        best.height[at], best.nearest[at], best.tie[at] = weight, other, -1
    elif other != best.nearest[at]:
        better, tie = prefers(members, slot, other, best.nearest[at], best.tie[at])
        best.tie[at] = tie
        if better:
            best.nearest[at] = other


@kernel
def search_rows(state, members, wanted, best, span) -> None:
    """Compare a range of rows with the bests of the slots that are searched for, ties included.

    Where rounding makes a merged cluster nearer to another slot than its nearest, that slot is marked as disturbed:
    without this, rounds might find no pair at all.
    """
    # Arrays are unpacked before the loops: each access to a bundle within them would count references.
    code, (entry, start), groups, found = state
    (lowest, who, tie), (search, where, disturbed), partner = best, wanted, found.partner
    size, inner, nearest, height = groups.size, groups.inner, groups.nearest, groups.height
    room = np.empty(BLOCK)
    for i in range(span[0], span[1]):
        if start[i] < 0:
            continue
        base, upper = start[i], (size[i], inner[i])
        searched = where[i] >= 0
        for at in range(len(search)):
            x = search[at]
            if x >= i:
                break
            w = weigh(code, entry[base + x], upper, (size[x], inner[x]))
            if w < lowest[at]:
                lowest[at], who[at], tie[at] = w, i, -1
            elif w == lowest[at]:
                consider(members, (x, i), w, best, at)
            if not searched and w <= height[i] and partner[x] >= 0:
                disturbed[i] |= w < height[i] or prefers(members, i, x, nearest[i], -1)[0]
        if not searched:
            continue
        at = where[i]
        merged = partner[i] >= 0
        for lo in range(0, i, BLOCK):
            hi = min(lo + BLOCK, i)
            weights = room[: hi - lo]
            weigh_block(code, entry[base + lo : base + hi], size[lo:hi], inner[lo:hi], upper, weights)
            low = least(weights)
            if low <= lowest[at] and low < np.inf:
                for k in range(hi - lo):
                    if weights[k] == low:
                        consider(members, (i, lo + k), low, best, at)
            if merged and any_within(weights, height[lo:hi]):
                for k in range(hi - lo):
                    j = lo + k
                    if weights[k] <= height[j] and where[j] < 0 and start[j] >= 0:
                        disturbed[j] |= weights[k] < height[j] or prefers(members, j, i, nearest[j], -1)[0]


@kernel
def join_scans(into, other) -> None:
    """Add the bests that another thread has scanned."""
    for s in range(len(into.height)):
        if other.height[s] < into.height[s]:
            into.height[s], into.nearest[s] = other.height[s], other.nearest[s]
        elif other.height[s] == into.height[s] and other.height[s] < np.inf:
            into.nearest[s] = TIED


@kernel
def take_scans(groups, best, search):
    """Give clusters the bests of a scan; list those with a tie in `search`, and return their number."""
    ties = 0
    for s in range(len(best.height)):
        # Nothing is nearer to a dead slot than its nearest.
        groups.height[s] = best.height[s] if best.height[s] < np.inf else -np.inf
        groups.nearest[s] = best.nearest[s]
        if best.nearest[s] == TIED and best.height[s] < np.inf:
            search[ties] = s
            ties += 1
    return ties


@kernel
def wanted_slots(search, slots):
    """Return the slots that are searched for, with nothing found yet; there are `slots` in all."""
    wanted = Wanted(search.copy(), np.full(slots, -1), np.zeros(slots, np.bool_))
    for at in range(len(search)):
        wanted.where[search[at]] = at
    return wanted


@kernel
def join_searches(members, wanted, into, other) -> None:
    """Add the bests that another thread has searched for."""
    for at in range(len(wanted.slot)):
        if other.nearest[at] >= 0:
            consider(members, (wanted.slot[at], other.nearest[at]), other.height[at], into, at)


@kernel
def take_searches(groups, wanted, best) -> None:
    """Give clusters the bests of a search."""
    for at in range(len(wanted.slot)):
        s = wanted.slot[at]
        groups.height[s], groups.nearest[s] = best.height[at], best.nearest[at]


@kernel
def any_within(weights, height):
    """Whether any weight is at most the height beside it; vectorised."""
    count = 0
    for k in range(len(weights)):
        count += weights[k] <= height[k]
    return count > 0
