"""From edges as users have them to rows: degrees, scatter, parallel edges, and the checks along the way."""

import numpy as np

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.order import TIE_BITS, edge_tie, hash64
from dask_rac.kernels.table import first_slot, table_size


@kernel
def check_rows(indptr, indices, weight, bits, tie, span):
    """Check rows `[lo, hi)` of a matrix and fill `tie`.

    Returns the smallest and the largest weight, NaN if there is one; how many entries do not come after the one before
    in their row, how many lie on the diagonal, above and below it; and the sums of a hash over those above and below,
    which differ if the two triangles do. `bits` are the weights' own.
    """
    lo, hi = span
    least, largest = np.inf, -np.inf
    unsorted, diagonal, above, below = 0, 0, 0, 0
    sum_above, sum_below = np.uint64(0), np.uint64(0)
    for u in range(lo, hi):
        previous = -1
        for e in range(indptr[u], indptr[u + 1]):
            v, w = indices[e], weight[e]
            least = w if w < least or np.isnan(w) else least  # NaN stays: nothing is less
            largest = w if w > largest or np.isnan(w) else largest
            unsorted += v <= previous
            previous = v
            pair = hash64(u, v)
            tie[e] = np.uint16(pair >> np.uint64(64 - TIE_BITS))  # its edge_tie; the hash is needed below, too
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
    return least, largest, unsorted, diagonal, above, below, sum_above, sum_below


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
def unify(rows, span):
    """Make parallel edges of rows `[lo, hi)` one, in place, and fill `tie`.

    Returns in how many entries an edge comes with another weight than before; the rows are then of no use.
    """
    start, stop, neighbour, weight, _, tie = rows
    lo, hi = span
    widest, conflicts = 0, 0
    for u in range(lo, hi):
        widest = max(widest, stop[u] - start[u])
    key = np.full(table_size(widest), -1, neighbour.dtype)
    key_weight, used = np.empty(len(key)), np.empty(widest, np.int64)
    for u in range(lo, hi):
        mask = table_size(stop[u] - start[u]) - 1
        end = start[u]
        for e in range(start[u], stop[u]):
            v, w = neighbour[e], weight[e]
            slot = first_slot(v, mask)
            while key[slot] != v and key[slot] != -1:
                slot = (slot + 1) & mask
            if key[slot] == -1:
                key[slot], key_weight[slot], used[end - start[u]] = v, w, slot
                neighbour[end], weight[end], tie[end] = v, w, edge_tie(u, v)
                end += 1
            else:
                conflicts += key_weight[slot] != w
        for k in range(end - start[u]):
            key[used[k]] = -1
        stop[u] = end
    return conflicts
