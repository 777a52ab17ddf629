"""Fold: combine the two rows of a pair into one, parallel edges into one edge, and find the nearest in the same pass.

Each call handles a range of rows and shares nothing with other calls: one thread per range, or one task per shard.
A row is gathered in a small hash table that is emptied as the row is written, so scratch memory is proportional to
the widest row, and time to the number of entries.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel, prefetch_read, prefetch_write
from dask_rac.kernels.order import breaks_tie
from dask_rac.kernels.rows.match import JOINS, LEAVES, STAYS
from dask_rac.kernels.rows.table import first_slot, table_size
from dask_rac.kernels.rule import HALF_FILLED, is_mean, linkage_weight, mean_of_parts

# How many rows ahead memory is prefetched: where a row is, then the row, then the fates of its neighbours.
WHERE, ROW, FATES = 8, 4, 2


@inlined
def widest_row(offset, lo, hi):
    """Return the most old entries that go into one new row of `[lo, hi)`."""
    widest = 0
    for i in range(lo, hi):
        widest = max(widest, offset[i + 1] - offset[i])
    return widest


@kernel
def fold(rows, pairs, clusters, rule, out, span):
    """Write new rows `[lo, hi)` of `span = lo, hi, end, base` from `end` on, and their nearest.

    Returns where they end, and how many of their entries point to a later cluster: over all rows, half the entries.
    New row `i` is cluster `base + i` of all clusters; in `clusters`, ids and sizes are those of all clusters.
    """
    # Unpack arrays before the loops: unpacked inside, each access would count a reference.
    start, stop, neighbour, weight, count, tie = rows
    first, second, offset, fate = pairs
    ids, size, nearest, height = clusters
    out_start, out_stop, out_neighbour, out_weight, out_count, out_tie = out
    lo, hi, end, base = span
    scale = rule.scale
    counts, counted = len(count) > 0, len(out_count) > 0
    means, halves = is_mean(rule.code), rule.code == HALF_FILLED
    empty = 0.0 if means else -np.inf
    widest = widest_row(offset, lo, hi)
    capacity = table_size(widest)
    key = np.full(capacity, -1, neighbour.dtype)
    key_size = np.empty(capacity, neighbour.dtype)
    key_weight = np.full(2 * capacity, empty)  # two accumulators per slot
    key_count = np.zeros(capacity, np.int64)
    key_found = np.zeros(2 * capacity if halves else 0, np.int8)  # edges in each accumulator
    key_parts = np.zeros(capacity if halves else 0, np.int8)  # 2 if the neighbour has merged, else 1
    key_tie = np.zeros(capacity, np.uint16)
    used = np.empty(widest + 1, np.int64)
    went = np.empty(widest, neighbour.dtype)
    went_size = np.empty(widest, neighbour.dtype)
    later = 0
    for i in range(lo, hi):
        if i + WHERE < hi and second[i + WHERE] >= 0:
            b = second[i + WHERE]
            prefetch_read(start, b)
            prefetch_read(stop, b)
        if i + ROW < hi and second[i + ROW] >= 0:
            b = second[i + ROW]
            for e in range(start[b], stop[b], 8):
                prefetch_read(neighbour, e)
                prefetch_read(weight, e)
                prefetch_read(tie, e)
                if counts:
                    prefetch_read(count, e)
        if i + FATES < hi:
            for joins in range(2 if second[i + FATES] >= 0 else 1):
                row = second[i + FATES] if joins else first[i + FATES]
                for e in range(start[row], stop[row]):
                    prefetch_read(fate, 2 * neighbour[e])
        mask = table_size(offset[i + 1] - offset[i]) - 1
        for e in range(end, end + offset[i + 1] - offset[i], 8):
            prefetch_write(out_neighbour, e)
            prefetch_write(out_weight, e)
            prefetch_write(out_tie, e)
            if counted:
                prefetch_write(out_count, e)
        taken = 0
        for joins in range(2 if second[i] >= 0 else 1):
            row = second[i] if joins else first[i]
            begin = start[row]
            for e in range(begin, stop[row]):  # separate from the loop below, so that cache misses overlap
                v = neighbour[e]
                went[e - begin], went_size[e - begin] = fate[2 * v], fate[2 * v + 1]
            for e in range(begin, stop[row]):
                what, v = went[e - begin] & 3, went[e - begin] >> 2
                if what == LEAVES or v == base + i:
                    continue
                slot = first_slot(v, mask)
                while key[slot] != v and key[slot] != -1:
                    slot = (slot + 1) & mask
                used[taken] = slot
                taken += key[slot] == -1
                key[slot], key_size[slot] = v, went_size[e - begin]
                # Up to four old edges become one. (AC + BD) + (AD + BC) is the same sum from both ends, and so is W.
                at = 2 * slot + ((what == JOINS) ^ joins)
                if means:
                    key_weight[at] += scale * weight[e]
                else:
                    key_weight[at] = max(key_weight[at], scale * weight[e])
                key_tie[slot] = max(key_tie[slot], tie[e])
                if counted:
                    key_count[slot] += count[e] if counts else 1
                elif halves:
                    key_found[at] += 1
                    key_parts[slot] = 1 if what == STAYS else 2
        best, best_tie, who = np.inf, np.uint16(0), -1
        out_start[i] = end
        for k in range(taken):
            slot = used[k]
            v, t, c = key[slot], key_tie[slot], key_count[slot]
            x, y = key_weight[2 * slot], key_weight[2 * slot + 1]
            if halves:
                found = key_found[2 * slot], key_found[2 * slot + 1]
                x = mean_of_parts((x, y), found, np.int64(key_parts[slot]) << (second[i] >= 0), rule.fill)
                key_found[2 * slot], key_found[2 * slot + 1] = 0, 0
            else:
                x = x + y if means else max(x, y)
            key[slot], key_tie[slot] = -1, 0
            if counted:
                key_count[slot] = 0
            key_weight[2 * slot], key_weight[2 * slot + 1] = empty, empty
            w = linkage_weight(rule, x, c, np.float64(size[base + i]) * key_size[slot])
            if w == np.inf:  # a pair is missing, and will be missing in every union
                continue
            out_neighbour[end], out_weight[end], out_tie[end] = v, x, t
            if counted:
                out_count[end] = c
            end += 1
            later += v > base + i
            if w <= best and (w < best or t < best_tie or (t == best_tie and breaks_tie(ids, size, base + i, v, who))):
                best, best_tie, who = w, t, v
        out_stop[i] = end
        nearest[i], height[i] = who if best <= rule.ceiling else -1, best
    return end, later


@kernel
def find_nearest(rows, clusters, rule, span):
    """Find the nearest of single nodes before the first round: rows `[lo, hi)`, where row `i` is node `base + i`."""
    start, stop, neighbour, weight, _, tie = rows
    ids, size, nearest, height = clusters
    lo, hi, base = span
    for i in range(lo, hi):
        best, best_tie, who = np.inf, np.uint16(0), -1
        for e in range(start[i], stop[i]):
            w = linkage_weight(rule, rule.scale * weight[e], 1, 1.0)
            v, t = neighbour[e], tie[e]
            if w <= best and (w < best or t < best_tie or (t == best_tie and breaks_tie(ids, size, base + i, v, who))):
                best, best_tie, who = w, t, v
        nearest[i], height[i] = who if best <= rule.ceiling else -1, best
