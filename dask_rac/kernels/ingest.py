"""From edges as users have them to rows: degrees, scatter, parallel edges, and the checks along the way."""

import numpy as np

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.order import TIE_BITS, edge_tie, hash64

SAME, SMALLEST, LARGEST, MEAN = 0, 1, 2, 3  # what parallel edges become; SAME takes only equal weights


@kernel
def check_rows(indptr, indices, weight, bits, tie, span):
    """Check rows `[lo, hi)` of a matrix and fill `tie`.

    Returns how many entries break the order of their row, how many lie on the diagonal, above and below it, and
    the sums of a hash over the entries above and below, which differ if the two triangles do. `bits` are the
    weights' own.
    """
    lo, hi = span
    n = len(indptr) - 1
    unsorted, diagonal, above, below = 0, 0, 0, 0
    sum_above, sum_below = np.uint64(0), np.uint64(0)
    for u in range(lo, hi):
        previous = -1
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            unsorted += v <= previous or v >= n
            previous = v
            pair = hash64(u, v)
            tie[e] = np.uint16(pair >> np.uint64(64 - TIE_BITS))
            mixed = (pair ^ np.uint64(bits[e])) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(31)
            if u < v:
                sum_above += mixed
                above += 1
            elif v < u:
                sum_below += mixed
                below += 1
            else:
                diagonal += 1
    return unsorted, diagonal, above, below, sum_above, sum_below


@kernel
def count_degrees(source, target, degree):
    """Add up the entries of every node, self loops apart; returns the number of self loops."""
    loops = 0
    for e in range(len(source)):
        u, v = source[e], target[e]
        if u == v:
            loops += 1
        else:
            degree[u] += 1
            degree[v] += 1
    return loops


@kernel
def scatter(edges, stop, neighbour, weight, span):
    """Write every edge into those of its two rows that lie in `[lo, hi)`; `stop` starts as the rows' start."""
    source, target, edge_weight = edges
    lo, hi = span
    for e in range(len(source)):
        u, v = source[e], target[e]
        if u == v:
            continue
        if lo <= u < hi:
            neighbour[stop[u]], weight[stop[u]] = v, edge_weight[e]
            stop[u] += 1
        if lo <= v < hi:
            neighbour[stop[v]], weight[stop[v]] = u, edge_weight[e]
            stop[v] += 1


@kernel
def unify(rows, policy, span):
    """Make parallel edges of rows `[lo, hi)` one, in place, and fill `tie`; returns the edges with two weights.

    What they become depends on the set of their weights alone, so it is the same in both rows and for any order.
    """
    start, stop, neighbour, weight, _, tie = rows
    lo, hi = span
    widest, conflicts = 0, 0
    for u in range(lo, hi):
        widest = max(widest, stop[u] - start[u])
    capacity = 16
    while capacity < 4 * widest:
        capacity *= 2
    key, place = np.full(capacity, -1, neighbour.dtype), np.empty(capacity, np.int64)
    used = np.empty(widest, np.int64)
    for u in range(lo, hi):
        mask = 16
        while mask < 4 * (stop[u] - start[u]):
            mask *= 2
        mask -= 1
        end, taken, differ = start[u], 0, False
        for e in range(start[u], stop[u]):
            v = neighbour[e]
            slot = np.int64((np.uint32(v) * np.uint32(2654435769)) >> np.uint32(7)) & mask
            while key[slot] != v and key[slot] != -1:
                slot = (slot + 1) & mask
            if key[slot] == -1:
                key[slot], place[slot], used[taken] = v, e, slot
                taken += 1
            elif weight[place[slot]] != weight[e]:
                differ = True
        if taken == stop[u] - start[u]:
            end = stop[u]
        elif not differ:
            for k in range(taken):
                e = place[used[k]]
                neighbour[end], weight[end] = neighbour[e], weight[e]
                end += 1
        else:
            order = np.argsort(weight[start[u] : stop[u]], kind="mergesort")
            by_weight = neighbour[start[u] : stop[u]][order]
            order = order[np.argsort(by_weight, kind="mergesort")]
            row_neighbour = neighbour[start[u] : stop[u]][order]
            row_weight = weight[start[u] : stop[u]][order]
            k = 0
            while k < len(order):
                first, total = k, 0.0
                while k < len(order) and row_neighbour[k] == row_neighbour[first]:
                    total += row_weight[k]
                    k += 1
                smallest, largest = row_weight[first], row_weight[k - 1]
                conflicts += smallest != largest and u < row_neighbour[first]
                neighbour[end] = row_neighbour[first]
                if policy == LARGEST:
                    weight[end] = largest
                elif policy == MEAN and smallest != largest:
                    weight[end] = total / (k - first)
                else:
                    weight[end] = smallest
                end += 1
        for k in range(taken):
            key[used[k]] = -1
        stop[u] = end
        for e in range(start[u], end):
            tie[e] = edge_tie(u, neighbour[e])
    return conflicts
