"""Search: the nearest clusters of some slots among all, from tiles of products.

A product tells between which numbers W is. Each slot keeps on a shelf the clusters that may be among its nearest, and
weighs them in float64 only at the end, or when the shelf is full of products too close to decide. So the result is
exact: the nearest by the one order of pairs, and a list of the next ones with its bound.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.matrix.arrays import Best
from dask_rac.kernels.matrix.ties import prefers
from dask_rac.kernels.points.lists import TIED, insert
from dask_rac.kernels.points.screen import any_near, limits_of, range_of
from dask_rac.kernels.points.weights import weigh
from dask_rac.kernels.vectors.screen import smallest

CHUNK = 64  # products compared at a time
SHELF = 4  # candidates for which there is room, for each that is wanted


class Hits(NamedTuple):
    """The candidates of some slots, and the nearest among those that were weighed."""

    slot: NDArray[np.int64]
    place: NDArray[np.int32]
    low: NDArray[np.float64]  # what W is at least and at most; equal once it is weighed
    high: NDArray[np.float64]
    held: NDArray[np.int64]  # how many candidates there are
    factor: NDArray[np.float32]  # of the screen, see `screen.py`
    limit: NDArray[np.float32]
    best: Best


@kernel
def consider(members, pair, weight, best, at) -> None:
    """Compare one more cluster with the best of a slot, which is the first of the pair; TIED if it takes members."""
    slot, other = pair
    if weight < best.height[at]:
        best.height[at], best.nearest[at], best.tie[at] = weight, other, -1
    elif weight == best.height[at] and other != best.nearest[at]:
        if not len(members.node):
            best.nearest[at] = TIED
            return
        better, best.tie[at] = prefers(members, slot, other, best.nearest[at], best.tie[at])
        if better:
            best.nearest[at] = other


@kernel
def begin_search(state, slots, members):
    """Return shelves that hold what the lists of the slots have."""
    code, centroids, _, _, lists, _ = state
    rows, room = len(slots), SHELF * (lists.entry.shape[1] + 1)
    best = Best(np.full(rows, np.inf), np.full(rows, -1), np.full(rows, -1))
    hits = Hits(
        slots,
        np.empty((rows, room), np.int32),
        np.empty((rows, room)),
        np.empty((rows, room)),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.float32),
        np.full(rows, np.inf, np.float32),
        best,
    )
    scratch = np.empty(room)
    for r in range(rows):
        i = slots[r]
        for k in range(lists.length[i]):
            who = lists.entry[i, k]
            w = weigh(code, centroids, i, who)
            hits.place[r, k], hits.low[r, k], hits.high[r, k] = who, w, w
            consider(members, (i, np.int64(who)), w, best, r)
        hits.held[r] = lists.length[i]
        narrow(state, hits, r, scratch)
    return hits


@kernel
def narrow(state, hits, r, scratch):
    """Drop candidates that cannot be among the nearest; return W above which nobody is."""
    wanted = state.lists.entry.shape[1] + 1
    count, place, low, high = hits.held[r], hits.place[r], hits.low[r], hits.high[r]
    if count < wanted:
        return np.inf
    for e in range(count):
        scratch[e] = high[e]
    most = smallest(scratch, count, wanted)
    kept = 0
    for e in range(count):
        if low[e] <= most:
            place[kept], low[kept], high[kept] = place[e], low[e], high[e]
            kept += 1
    hits.held[r] = kept
    hits.factor[r], hits.limit[r] = limits_of(state, hits.slot[r], most)
    return most


@kernel
def settle(state, hits, r, members, scratch):
    """Weigh the candidates of a slot, and keep as many as are wanted; return W above which nobody is."""
    code, centroids = state.code, state.centroids
    wanted = state.lists.entry.shape[1] + 1
    i, place, low, high = hits.slot[r], hits.place[r], hits.low[r], hits.high[r]
    for e in range(hits.held[r]):
        if low[e] < high[e]:
            w = weigh(code, centroids, i, place[e])
            low[e] = high[e] = w
            consider(members, (i, np.int64(place[e])), w, hits.best, r)
    most = narrow(state, hits, r, scratch)
    kept, equal = 0, wanted
    for e in range(hits.held[r]):
        equal -= low[e] < most
    for e in range(hits.held[r]):
        if low[e] == most:
            if equal == 0:
                continue
            equal -= 1
        place[kept], low[kept], high[kept] = place[e], low[e], high[e]
        kept += 1
    hits.held[r] = kept
    return most


@kernel
def scan(state, product, first, hits, members) -> None:
    """Put the clusters of a tile that may matter on the shelves; `first` is the slot of its first column."""
    screen, lists, size = state.screen, state.lists, state.centroids.size
    columns = product.shape[1]
    half, inverse = screen.half[first : first + columns], screen.inverse[first : first + columns]
    slot, places, lows, highs, count, factors, limits, _ = hits
    room = places.shape[1]
    scratch = np.empty(room)
    for r in range(product.shape[0]):
        i, line = slot[r], product[r]
        known = lists.entry[i, : lists.length[i]]
        place, low, high = places[r], lows[r], highs[r]
        for lo in range(0, columns, CHUNK):
            hi = min(lo + CHUNK, columns)
            if not any_near(line[lo:hi], half[lo:hi], inverse[lo:hi], factors[r], limits[r]):
                continue
            for c in range(lo, hi):
                j = first + c
                passes = half[c] - line[c] - factors[r] * inverse[c] <= limits[r]
                if not passes or j == i or size[j] == 0.0 or listed(known, j):
                    continue
                e = count[r]
                place[e] = j
                low[e], high[e] = range_of(state, i, j, line[c])
                count[r] = e + 1
                if e + 1 == room:
                    narrow(state, hits, r, scratch)
                    if 4 * count[r] > 3 * room:
                        settle(state, hits, r, members, scratch)


@kernel
def end_search(state, hits, ceiling, members):
    """Give the slots what was found; return how many are TIED."""
    lists, groups = state.lists, state.groups
    best, room = hits.best, lists.entry.shape[1]
    entry, weight = np.empty((1, room + 1), np.int32), np.empty((1, room + 1))
    count, scratch = np.empty(1, np.int32), np.empty(hits.low.shape[1])
    tied = 0
    for r in range(len(hits.slot)):
        i = hits.slot[r]
        narrow(state, hits, r, scratch)
        settle(state, hits, r, members, scratch)
        count[0] = 0
        for e in range(hits.held[r]):
            insert(entry[0], weight[0], count, 0, (hits.place[r, e], hits.low[r, e]))
        kept = min(np.int64(count[0]), room)
        lists.entry[i, :kept], lists.length[i] = entry[0, :kept], kept
        lists.bound[i] = weight[0, room] if count[0] > room else np.inf
        groups.nearest[i], groups.height[i] = best.nearest[r], best.height[r]
        if best.height[r] > ceiling:
            groups.nearest[i], groups.height[i] = -1, np.inf
        tied += groups.nearest[i] == TIED
    return tied


@kernel
def listed(entry, j):
    """Whether a list has a cluster."""
    found = False
    for k in range(len(entry)):
        found |= entry[k] == j
    return found
