"""Regroup clusters, so that those that are near each other come into one shard, and give their rows new positions.

A group is clusters that are linked by their nearest; nearest pairs are united first, as long as a group fits in a
shard. The nearest pair of all is always in one shard, so that there is something to merge. In a shard of clusters
`[first, first + own)`, entries count positions from there on: those of the shard are 0, 1, ..., those beyond its end
follow, then those before it.
"""

import numpy as np

from dask_rac.kernels.jit import kernel, prefetch_read
from dask_rac.kernels.rows.match import AHEAD
from dask_rac.kernels.rows.move import range_of
from dask_rac.kernels.union import find_root


@kernel
def join_nearest(nearest, order, load, most, root):
    """Unite clusters with their nearest, in the given order, in groups of at most this load, but for the first two.

    `root` gets one cluster of each group, at which `load` becomes that of the group.
    """
    united = False
    for u in range(len(root)):
        root[u] = u
    for k in range(len(order)):
        u = order[k]
        v = nearest[u]
        if nearest[v] < 0:  # nobody is near enough from where it is: rounding, at the ceiling
            continue
        a, b = find_root(root, u), find_root(root, v)
        if a != b and (load[a] + load[b] <= most or not united):
            united = True
            root[max(a, b)] = min(a, b)
            load[min(a, b)] += load[max(a, b)]
    for u in range(len(root)):
        root[u] = find_root(root, u)


@kernel
def deal(groups, load, shard, held):
    """Give each of the groups to the shard that holds least; `shard` gets it, `held` the load of each shard."""
    held[:] = 0
    for k in range(len(groups)):
        least = 0
        for s in range(len(held)):
            if held[s] < held[least]:
                least = s
        shard[groups[k]] = least
        held[least] += load[groups[k]]


@kernel
def place_clusters(nearest, root, shard, first, place):
    """Write new positions, shard by shard from `first` of each on, clusters without a nearest last; `first` moves."""
    last = len(first) - 1
    for u in range(len(place)):
        there = last if nearest[u] < 0 else shard[root[u]]
        place[u] = first[there]
        first[there] += 1


@kernel
def find_places(place, length, cuts, goes, lo):
    """Write the new shard of each row from cluster `lo` on, -1 if it leaves; return rows and entries per shard."""
    rows, entries = np.zeros(len(cuts) - 1, np.int64), np.zeros(len(cuts) - 1, np.int64)
    for i in range(len(goes)):
        goes[i] = -1
        if place[lo + i] < cuts[-1]:
            goes[i] = range_of(place[lo + i], cuts)
            rows[goes[i]] += 1
            entries[goes[i]] += length[i]
    return rows, entries


@kernel
def relabel(neighbour, place):
    """Replace positions by new ones."""
    for e in range(len(neighbour)):
        if e + AHEAD < len(neighbour):
            prefetch_read(place, neighbour[e + AHEAD])
        neighbour[e] = place[neighbour[e]]


@kernel
def count_from(neighbour, first, clusters):
    """Count positions from `first` on, around the end."""
    for e in range(len(neighbour)):
        v = neighbour[e] - first
        neighbour[e] = v + clusters if v < 0 else v


@kernel
def count_from_start(neighbour, first, clusters):
    """Undo `count_from`."""
    for e in range(len(neighbour)):
        v = np.int64(neighbour[e]) + first
        neighbour[e] = v - clusters if v >= clusters else v
