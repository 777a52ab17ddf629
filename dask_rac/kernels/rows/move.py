"""Move rows between shards, and pair them where they arrive.

The rows of leaders stay where they are, in a range of old positions. The row of a cluster that joins a leader in
another range moves to that range. `cuts` are the ranges: the first old position of each, and the end.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel, prefetch_read
from dask_rac.kernels.rows.match import AHEAD


@inlined
def range_of(position, cuts):
    """Return the range that holds a position."""
    lo, hi = 0, len(cuts) - 1
    while hi - lo > 1:
        middle = (lo + hi) // 2
        if cuts[middle] <= position:
            lo = middle
        else:
            hi = middle
    return lo


@kernel
def find_moves(nearest, length, cuts, goes, span):
    """Write the range that each of rows `[lo, hi)` moves to, -1 if it stays; return rows and entries per range."""
    lo, hi = span
    rows, entries = np.zeros(len(cuts) - 1, np.int64), np.zeros(len(cuts) - 1, np.int64)
    for u in range(lo, hi):
        if u + AHEAD < hi and nearest[u + AHEAD] >= 0:
            prefetch_read(nearest, nearest[u + AHEAD])
        v = nearest[u]
        goes[u - lo] = -1
        if v < 0 or v > u or nearest[v] != u:
            continue
        there = range_of(v, cuts)
        if there != range_of(u, cuts):
            goes[u - lo] = there
            rows[there] += 1
            entries[there] += length[u - lo]
    return rows, entries


@kernel
def take_rows(goes, row_at, length, moved):
    """Fill `moved` with the numbers of the moving rows, by range; `row_at` is where each range begins."""
    moved_row, moved_length = moved
    for u in range(len(goes)):
        there = goes[u]
        if there >= 0:
            at = row_at[there]
            moved_row[at], moved_length[at] = u, length[u]
            row_at[there] = at + 1


@kernel
def copy_rows(moved_row, start, length, column, out):
    """Copy one column of the moving rows, one row after the other."""
    end = 0
    for k in range(len(moved_row)):
        begin = start[moved_row[k]]
        for e in range(begin, begin + length[moved_row[k]]):
            out[end] = column[e]
            end += 1


@kernel
def pair_rows(nearest, start, length, arrived, pairs, span):
    """Find the two rows of each new cluster whose leader is in `[lo, hi)`; return the numbers of clusters and merges.

    Rows are numbered as in memory: first those of `[lo, hi)`, then those that arrived for the leaders `arrived`.
    """
    first, second, offset = pairs
    lo, hi = span
    own = hi - lo
    guest = np.full(own, -1, first.dtype)
    for k in range(len(arrived)):
        guest[arrived[k] - lo] = own + k
    after, merges = 0, 0
    offset[0] = 0
    for u in range(lo, hi):
        v = nearest[u]
        if v < 0:
            continue
        reciprocal = nearest[v] == u
        if reciprocal and v < u:
            continue
        entries = length[u - lo]
        first[after], second[after] = u - lo, -1
        if reciprocal:
            second[after] = v - lo if v < hi else guest[u - lo]
            entries += length[second[after]]
            merges += 1
        offset[after + 1] = offset[after] + entries
        after += 1
    return after, merges


@kernel
def list_merges(second, height, top, clusters, merges):
    """Write merges, raised at least to the merges below them, and the new top heights; return how many merges.

    `clusters` holds the leader of each new cluster, `first`, the ids and sizes of the rows in memory, and the new top
    heights. `second` is the absorbed row of each new cluster, -1 if it did not merge.
    """
    first, ids, size, merged_top = clusters
    left, right, merge_height, merge_size = merges
    found = 0
    for i in range(len(second)):
        a, b = first[i], second[i]
        merged_top[i] = top[a]
        if b >= 0:
            left[found], right[found] = ids[a], ids[b]
            merge_height[found], merge_size[found] = max(height[a], top[a], top[b]), size[a] + size[b]
            merged_top[i] = merge_height[found]
            found += 1
    return found
