"""Reciprocal pairs: which clusters merge in this round."""

from dask_rac.kernels.jit import kernel, prefetch_read

STAYS, LEADS, JOINS, LEAVES = 0, 1, 2, 3  # the two low bits of a fate
AHEAD = 16  # clusters between a prefetch and its use


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

    Like `match`, but without pairs. If a pair spans two ranges, the range of its leader writes both fates.
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
def weigh_leaders(nearest, length, bins, counts, joined, span):
    """Count a shard's live clusters, its merges, and the entries that go to each bin of `width` old positions.

    The shard is clusters `[lo, hi)`, with rows of the given lengths. `bins` gets the entries that go to leaders in
    each bin, `counts` the clusters of the shard that stay or lead there, `joined` those that join a leader there.
    Returns how many clusters are live, how many merges they lead, and how many nearest must be found again.
    """
    lo, hi, width = span
    live, merges, updates = 0, 0, 0
    for u in range(lo, hi):
        if u + AHEAD < hi and nearest[u + AHEAD] >= 0:
            prefetch_read(nearest, nearest[u + AHEAD])
        v = nearest[u]
        if v < 0:
            continue
        live += 1
        reciprocal = nearest[v] == u
        joins = reciprocal and v < u
        leader = (v if joins else u) // width
        bins[leader] += length[u - lo]
        joined[leader] += joins
        counts[u // width] += not joins
        merges += reciprocal and u < v
        updates += not reciprocal and nearest[nearest[v]] == v
    return live, merges, updates
