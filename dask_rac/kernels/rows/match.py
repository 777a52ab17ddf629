"""Reciprocal pairs: which clusters merge in this round."""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel, prefetch_read

STAYS, LEADS, JOINS, LEAVES = 0, 1, 2, 3  # the two low bits of a fate
AHEAD = 16  # clusters between a prefetch and its use


@inlined
def prefetch_pair(nearest, length, u):
    """Ask for what a cluster that comes soon will need of its nearest."""
    if u + AHEAD < len(nearest) and nearest[u + AHEAD] >= 0:
        prefetch_read(nearest, nearest[u + AHEAD])
        prefetch_read(length, nearest[u + AHEAD])


@kernel
def count_pairs(nearest, span):
    """Count for clusters `[lo, hi)`: clusters after the round, merges, and nearest that must be found again."""
    lo, hi = span
    after, merges, updates = 0, 0, 0
    for u in range(lo, hi):
        if u + AHEAD < hi and nearest[u + AHEAD] >= 0:
            prefetch_read(nearest, nearest[u + AHEAD])
        v = nearest[u]
        if v < 0:
            continue
        reciprocal = nearest[v] == u
        after += not reciprocal or u < v
        merges += reciprocal and u < v
        updates += not reciprocal and nearest[nearest[v]] == v
    return after, merges, updates


@kernel
def match(clusters, rows, pairs, merged, merges, span):
    """Write the pairs and `merged` clusters of clusters `[lo, hi)` from `after` on, and their merges from `found` on.

    `pairs.offset` gets the number of entries of each new row; the caller adds them up.
    """
    ids, size, nearest, height = clusters
    start, stop, _, _, _, _ = rows
    first, second, offset, fate = pairs
    merged_ids, merged_size, _, _ = merged
    left, right, merge_height, merge_size = merges
    lo, hi, after, found = span
    for u in range(lo, hi):
        if u + AHEAD < hi and nearest[u + AHEAD] >= 0:
            v = nearest[u + AHEAD]
            prefetch_read(nearest, v)
            prefetch_read(start, v)
            prefetch_read(stop, v)
        v = nearest[u]
        if v < 0:
            # By reducibility no later merge can bring it within the ceiling: it leaves with all its edges.
            fate[2 * u] = LEAVES
            continue
        reciprocal = nearest[v] == u
        if reciprocal and v < u:
            continue
        first[after], merged_ids[after] = u, ids[u]
        entries = stop[u] - start[u]
        if reciprocal:
            total = size[u] + size[v]
            entries += stop[v] - start[v]
            second[after], merged_size[after] = v, total
            fate[2 * u], fate[2 * u + 1] = after << 2 | LEADS, total
            fate[2 * v], fate[2 * v + 1] = after << 2 | JOINS, total
            left[found], right[found] = ids[u], ids[v]
            merge_height[found], merge_size[found] = height[u], total
            found += 1
        else:
            second[after], merged_size[after] = -1, size[u]
            fate[2 * u], fate[2 * u + 1] = after << 2 | STAYS, size[u]
        offset[after + 1] = entries
        after += 1


@kernel
def find_fates(nearest, ids, size, merged, fate, span):
    """Write what became of clusters `[lo, hi)` to `fate`, and the `merged` ids and sizes from position `after` on.

    Like `match`, but without pairs. If a pair spans two ranges, the range of its leader writes both fates. `merged` may
    be `ids` and `size` themselves: no cluster moves to a later position, and a leader comes before who joins it.
    """
    merged_ids, merged_size = merged
    lo, hi, after = span
    for u in range(lo, hi):
        if u + AHEAD < hi and nearest[u + AHEAD] >= 0:
            v = nearest[u + AHEAD]
            prefetch_read(nearest, v)
            prefetch_read(size, v)
        v = nearest[u]
        if v < 0:
            fate[2 * u] = LEAVES
            continue
        reciprocal = nearest[v] == u
        if reciprocal and v < u:
            continue
        total = size[u] + size[v] if reciprocal else size[u]
        merged_ids[after], merged_size[after] = ids[u], total
        fate[2 * u], fate[2 * u + 1] = after << 2 | (LEADS if reciprocal else STAYS), total
        if reciprocal:
            fate[2 * v], fate[2 * v + 1] = after << 2 | JOINS, total
        after += 1
    return after


@kernel
def weigh_leaders(nearest, length, row_load):
    """Count what a round does.

    Returns live clusters, merges, nearest that must be found again, entries that are folded, the load of all clusters,
    to which a row adds `row_load`, and the most entries that one new cluster is folded from.
    """
    live, merges, updates, entries, load, widest = 0, 0, 0, np.int64(0), 0, np.int64(0)
    for u in range(len(nearest)):
        prefetch_pair(nearest, length, u)
        v = nearest[u]
        load += row_load
        if v < 0:
            continue
        reciprocal = nearest[v] == u
        live += 1
        merges += reciprocal and u < v
        updates += not reciprocal and nearest[nearest[v]] == v
        if reciprocal and v < u:
            load += row_load
            continue
        folded = np.int64(length[u]) + (length[v] if reciprocal else 0)
        entries += folded
        widest = max(widest, folded)
    return live, merges, updates, entries, load + entries, widest


@kernel
def cut_leaders(nearest, length, row_load, load, borders):
    """Cut clusters into ranges of about the same load, one fewer than `borders` has rows; return how many there are.

    A row of `borders` gets the first cluster of a range, and before it how many new clusters there are, the entries
    that they are folded from, and the load. The last row that is used is the end.
    """
    parts, last = len(borders) - 1, len(nearest) - 1
    part, due, after, entries, loaded = 0, 1, 0, np.int64(0), 0
    borders[0, :] = 0
    for u in range(len(nearest)):
        prefetch_pair(nearest, length, u)
        v = nearest[u]
        loaded += row_load
        reciprocal = v >= 0 and nearest[v] == u
        if v >= 0 and not (reciprocal and v < u):
            folded = np.int64(length[u]) + (length[v] if reciprocal else 0)
            after += 1
            entries += folded
            loaded += folded + (row_load if reciprocal else 0)
        if loaded * parts >= load * due or u == last:
            part = min(part + 1, parts)  # clusters without any load may follow the last range
            borders[part, 0], borders[part, 1], borders[part, 2], borders[part, 3] = u + 1, after, entries, loaded
            due = max(due + 1, loaded * parts // load + 1)
    return part
