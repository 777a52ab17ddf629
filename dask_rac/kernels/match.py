"""Reciprocal pairs: who merges with whom in this round."""

from dask_rac.kernels.jit import kernel, prefetch_read

STAYS, LEADS, JOINS, LEAVES = 0, 1, 2, 3  # the two low bits of a fate
AHEAD = 16  # clusters


@kernel
def match(clusters, rows, ceiling, pairs, merged, merges):
    """Fill `pairs`, the `merged` clusters and the `merges`.

    Returns the number of clusters after, of merges, and of clusters whose nearest merged with another.
    """
    nearest, height, size = clusters.nearest, clusters.height, clusters.size
    after, found, updates, entries = 0, 0, 0, 0
    for u in range(len(nearest)):
        if u + AHEAD < len(nearest) and nearest[u + AHEAD] >= 0:
            v = nearest[u + AHEAD]
            prefetch_read(nearest, v)
            prefetch_read(rows.start, v)
            prefetch_read(rows.stop, v)
        v = nearest[u]
        if v < 0 or height[u] > ceiling:
            # By reducibility no later merge brings it below the ceiling: it leaves with all its edges.
            pairs.fate[u, 0] = LEAVES
            continue
        reciprocal = nearest[v] == u
        if reciprocal and v < u:
            continue
        pairs.first[after], pairs.offset[after] = u, entries
        entries += rows.stop[u] - rows.start[u]
        merged.ids[after] = clusters.ids[u]
        if reciprocal:
            total = size[u] + size[v]
            pairs.second[after], merged.size[after] = v, total
            pairs.fate[u, 0], pairs.fate[u, 1] = after << 2 | LEADS, total
            pairs.fate[v, 0], pairs.fate[v, 1] = after << 2 | JOINS, total
            entries += rows.stop[v] - rows.start[v]
            merges.left[found], merges.right[found] = clusters.ids[u], clusters.ids[v]
            merges.height[found], merges.size[found] = height[u], total
            found += 1
        else:
            pairs.second[after], merged.size[after] = -1, size[u]
            pairs.fate[u, 0], pairs.fate[u, 1] = after << 2 | STAYS, size[u]
            updates += nearest[nearest[v]] == v
        after += 1
    pairs.offset[after] = entries
    return after, found, updates
