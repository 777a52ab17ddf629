"""The near clusters of each slot: taken from a graph at first, and from older lists when clusters have merged.

Lists are brought up to date only where somebody asks for a nearest: entries may name slots that are dead since.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.matrix.ties import prefers
from dask_rac.kernels.points.weights import PRODUCTS, WARD, floor_of, weigh

UNKNOWN, TIED = -2, -3  # in place of the nearest: it must be searched for; several are equally near


@kernel
def take_pairs(near, entry, weight, count) -> None:
    """Give both nodes of each near pair to the other, and keep the nearest of each node, as many as there is room."""
    source, target, weights = near
    for e in range(len(source)):
        insert(entry[source[e]], weight[source[e]], count, source[e], (target[e], weights[e]))
        insert(entry[target[e]], weight[target[e]], count, target[e], (source[e], weights[e]))


@inlined
def insert(entry, weight, count, i, new):
    """Put a cluster and its weight into the list of slot `i`, by weight, if it is among the nearest."""
    who, w = new
    at = count[i]
    if at < len(weight):
        count[i] = at + 1
    elif w < weight[at - 1]:
        at -= 1
    else:
        at = -1
    if at >= 0:
        while at > 0 and weight[at - 1] > w:
            weight[at], entry[at] = weight[at - 1], entry[at - 1]
            at -= 1
        weight[at], entry[at] = w, who


@kernel
def first_bounds(code, size, weight, count, bound) -> None:
    """Set the bound of each slot by the farthest of its near ones, of which `weight` has as many as were asked for.

    Of inner products a graph has only those that are not negative.
    """
    slots, asked = weight.shape
    least = np.inf
    for s in range(slots):
        least = min(least, size[s])
    for s in range(slots):
        if count[s] == slots - 1:
            bound[s] = np.inf
        elif count[s] == asked:
            bound[s] = weight[s, asked - 1]
            if code == WARD:
                bound[s] *= 2.0 * (size[s] * least) / (size[s] + least)
        else:
            bound[s] = 0.0 if code == PRODUCTS else -np.inf


@kernel
def gather(lists, root, i, other, out):
    """Write the live clusters in the lists of a slot, and of another that is part of it now; return their number."""
    entry, count, _ = lists
    found = 0
    for part in range(2 if other >= 0 else 1):
        s = i if part == 0 else other
        for k in range(count[s]):
            who = root[entry[s, k]]
            known = who == i
            for e in range(found):
                known |= out[e] == who
            if not known:
                out[found] = who
                found += 1
    return found


@kernel
def renew(state, found, task, members, span):
    """Find the nearest of a range of the slots that look for it in their lists, as far as these are sure to have it.

    Lists are brought up to date. Without members, ties are left open. Returns how many are left UNKNOWN, and TIED.
    """
    code, centroids, frame, _, lists, groups = state
    size, nearest, height, root = centroids.size, groups.nearest, groups.height, groups.root
    entry, count, bounds = lists
    search, partner = found.search, found.partner
    room = entry.shape[1]
    ids, weights, order = np.empty(2 * room, np.int32), np.empty(2 * room), np.empty(1, np.int32)
    unknown = tied = 0
    for at in range(span[0], span[1]):
        i = search[at]
        total = gather(lists, root, i, partner[i], ids)
        order[0] = 0
        for e in range(total):
            insert(ids, weights, order, 0, (ids[e], weigh(code, centroids, i, ids[e])))
        bound = bounds[i]
        if total > room and weights[room] < bound:
            bound = weights[room]
        floor = floor_of(code, bound, size[i], frame, task.rounding)
        low = weights[0] if total else np.inf
        sure = low < floor
        kept = 0
        while kept < min(total, room) and (weights[kept] < bound or not sure):
            entry[i, kept] = ids[kept]
            kept += 1
        count[i], bounds[i] = kept, bound
        if min(low, floor) > task.ceiling or (bound == np.inf and total == 0):
            nearest[i], height[i] = -1, np.inf
        elif not sure:
            nearest[i], height[i] = UNKNOWN, np.inf
            unknown += 1
        else:
            nearest[i], height[i] = first_of(ids, weights, total, i, members), low
            tied += nearest[i] == TIED
    return unknown, tied


@kernel
def first_of(ids, weights, total, i, members):
    """Return the nearest of some clusters in order of their weights; TIED if it takes members, and there are none."""
    best, tie = np.int64(ids[0]), np.int64(-1)
    for e in range(1, total):
        if weights[e] > weights[0]:
            break
        if not len(members.node):
            return np.int64(TIED)
        better, tie = prefers(members, i, np.int64(ids[e]), best, tie)
        if better:
            best = np.int64(ids[e])
    return best


@kernel
def propose(groups, search, members):
    """Offer the slots that have just found their nearest to that one; return how many offers hang on a tie.

    Without rounding, no merged cluster could be nearer to a slot than its nearest, if that has not merged. With it, one
    may be, and rounds might find no pair at all. So the key of a slot and its nearest is never above that of a slot to
    which it is nearest.
    """
    nearest, height = groups.nearest, groups.height
    tied = 0
    for at in range(len(search)):
        i = search[at]
        j = nearest[i]
        if j < 0 or nearest[j] == i or height[i] > height[j]:
            continue
        if height[i] == height[j] and nearest[j] >= 0:
            if not len(members.node):
                tied += 1
                continue
            if not prefers(members, j, i, nearest[j], -1)[0]:
                continue
        nearest[j], height[j] = i, height[i]
    return tied
