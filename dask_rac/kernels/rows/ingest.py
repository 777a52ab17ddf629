"""From edges as given to rows: degrees, scatter, parallel edges, and the checks along the way."""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.order import TIE_BITS, edge_tie, hash64
from dask_rac.kernels.rows.table import first_slot, table_size

KEEP_LEAST, KEEP_LARGEST, KEEP_MEAN = 0, 1, 2  # which weight stays if an edge is given with several


@kernel
def check_rows(indptr, indices, weight, bits, tie, span):
    """Check rows `[lo, hi)` of a matrix and fill `tie`.

    Returns the smallest and the largest weight, NaN if any weight is; how many entries are out of order in their row,
    on the diagonal, above it and below it; and the sums of a hash over the entries above and below, which differ if
    the two triangles do. `bits` are the bit patterns of the weights.
    """
    lo, hi = span
    least, largest = np.inf, -np.inf
    unsorted, diagonal, above, below = 0, 0, 0, 0
    sum_above, sum_below = np.uint64(0), np.uint64(0)
    for u in range(lo, hi):
        previous = -1
        for e in range(indptr[u], indptr[u + 1]):
            v, w = indices[e], weight[e]
            least = w if w < least or np.isnan(w) else least  # NaN stays: no comparison with it is true
            largest = w if w > largest or np.isnan(w) else largest
            unsorted += v <= previous
            previous = v
            pair = hash64(u, v)
            tie[e] = np.uint16(pair >> np.uint64(64 - TIE_BITS))  # the same as edge_tie; the whole hash is needed below
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


@inlined
def block_of(u, v, owner, shift, shards):
    """Return the block of an edge: the pair of shards that own its ends, the smaller first, numbered row by row."""
    a, b = owner[u >> shift], owner[v >> shift]
    i, j = min(a, b), max(a, b)
    return i * shards - i * (i - 1) // 2 + j - i


@kernel
def count_blocks(source, target, owner, counts, grid):
    """Count the edges of each block, without self loops; `owner` holds one shard per `2 ** shift` ids."""
    shift, shards = grid
    for e in range(len(source)):
        if source[e] != target[e]:
            counts[block_of(source[e], target[e], owner, shift, shards)] += 1


@kernel
def fill_blocks(edges, owner, at, out, grid):
    """Write every edge to its block, from `at` on, without self loops."""
    source, target, weight = edges
    out_source, out_target, out_weight = out
    shift, shards = grid
    for e in range(len(source)):
        u, v = source[e], target[e]
        if u != v:
            block = block_of(u, v, owner, shift, shards)
            k = at[block]
            out_source[k], out_target[k], out_weight[k] = u, v, weight[e]
            at[block] = k + 1


@kernel
def count_ends(source, target, owner, counts, grid):
    """Count the edges of each owner `[first, stop)`, without self loops: once where both ends have the same."""
    shift, first, stop = grid
    for e in range(len(source)):
        if source[e] == target[e]:
            continue
        a, b = owner[source[e] >> shift], owner[target[e] >> shift]
        if first <= a < stop:
            counts[a - first] += 1
        if b != a and first <= b < stop:
            counts[b - first] += 1


@kernel
def fill_ends(edges, owner, at, out, grid):
    """Write every edge to the owners of its ends, from `at` on, without self loops."""
    source, target, weight = edges
    out_source, out_target, out_weight = out
    shift, first, stop = grid
    for e in range(len(source)):
        u, v = source[e], target[e]
        if u == v:
            continue
        a, b = owner[u >> shift], owner[v >> shift]
        for side in range(1 + (b != a)):
            place = (b if side else a) - first
            if 0 <= place < stop - first:
                k = at[place]
                out_source[k], out_target[k], out_weight[k] = u, v, weight[e]
                at[place] = k + 1


@kernel
def count_ids(column, bins, shift):
    """Count how often ids occur in each bin of `2 ** shift` ids."""
    for e in range(len(column)):
        bins[column[e] >> shift] += 1


@kernel
def count_degrees(source, target, degree, span):
    """Count the entries of nodes `[lo, hi)`, without self loops; return the number of self loops."""
    lo, hi = span
    loops = 0
    for e in range(len(source)):
        u, v = source[e], target[e]
        if u == v:
            loops += 1
            continue
        if lo <= u < hi:
            degree[u - lo] += 1
        if lo <= v < hi:
            degree[v - lo] += 1
    return loops


@kernel
def scatter(edges, stop, neighbour, weight, span):
    """Write every edge into those of its two rows that lie in `[lo, hi)`.

    `stop` begins as the start of each row; its first row is that of node `base`.
    """
    source, target, edge_weight = edges
    lo, hi, base = span
    for e in range(len(source)):
        u, v = source[e], target[e]
        if u == v:
            continue
        if lo <= u < hi:
            at = stop[u - base]
            neighbour[at], weight[at] = v, edge_weight[e]
            stop[u - base] = at + 1
        if lo <= v < hi:
            at = stop[v - base]
            neighbour[at], weight[at] = u, edge_weight[e]
            stop[v - base] = at + 1


@kernel
def unify(rows, span):
    """Combine parallel edges of rows `[lo, hi)` in place, and fill `tie`; row `i` is node `base + i`.

    Returns how many entries repeat an edge with a different weight, and the row and the neighbour of one of them. If
    there are any, the rows must not be used.
    """
    start, stop, neighbour, weight, _, tie = rows
    lo, hi, base = span
    widest, conflicts, one, other = 0, 0, -1, -1
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
                neighbour[end], weight[end], tie[end] = v, w, edge_tie(base + u, v)
                end += 1
            elif key_weight[slot] != w:
                if not conflicts:
                    one, other = base + u, v
                conflicts += 1
        for k in range(end - start[u]):
            key[used[k]] = -1
        stop[u] = end
    return conflicts, one, other


@kernel
def settle(rows, policy, span):
    """Like `unify`, but an edge may have several weights: keep the smallest, the largest, or the mean of all.

    Returns the smallest and the largest weight that stay.
    """
    start, stop, neighbour, weight, _, tie = rows
    lo, hi, base = span
    smallest, largest = np.inf, -np.inf
    for u in range(lo, hi):
        order = start[u] + np.argsort(neighbour[start[u] : stop[u]], kind="mergesort")
        ends, weights = neighbour[order], weight[order]
        end, first = start[u], 0
        while first < len(ends):
            last = first
            while last < len(ends) and ends[last] == ends[first]:
                last += 1
            given = np.sort(weights[first:last])  # so that the result does not depend on the order of the input
            value = given[len(given) - 1] if policy == KEEP_LARGEST else given[0]
            if policy == KEEP_MEAN and given[0] != given[len(given) - 1]:
                total = 0.0
                for w in given:
                    total += w
                value = total / len(given)
            neighbour[end], weight[end], tie[end] = ends[first], value, edge_tie(base + u, ends[first])
            smallest, largest = min(smallest, value), max(largest, value)
            end += 1
            first = last
        stop[u] = end
    return smallest, largest


@kernel
def fill_ties(rows, ids):
    """Fill `tie` of the rows of single nodes, whose neighbours are single nodes, too."""
    start, stop, neighbour, _, _, tie = rows
    for i in range(len(start)):
        for e in range(start[i], stop[i]):
            tie[e] = edge_tie(ids[i], neighbour[e])


@kernel
def close_gaps(rows):
    """Close the gaps between rows in place; return the number of entries."""
    start, stop, neighbour, weight, _, tie = rows
    end = 0
    for i in range(len(start)):
        begin = end
        for e in range(start[i], stop[i]):
            neighbour[end], weight[end], tie[end] = neighbour[e], weight[e], tie[e]
            end += 1
        start[i], stop[i] = begin, end
    return end


@kernel
def count_later(rows, base):
    """Count the entries that point to a later node; row `i` is node `base + i`."""
    start, stop, neighbour, _, _, _ = rows
    later = 0
    for i in range(len(start)):
        for e in range(start[i], stop[i]):
            later += neighbour[e] > base + i
    return later
