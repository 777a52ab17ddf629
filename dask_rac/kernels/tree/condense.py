"""Condensed trees: what is left of a tree if clusters of fewer than some number of nodes do not count.

Going down from the top, a cluster whose two parts are both large enough splits into two; if only one part is, the
cluster goes on as that part, and the nodes of the other leave it; if none is, it ends, and all its nodes leave it.
The kernels go up instead, merge by merge in the order of `tree.order`: then a cluster has a smaller number than those
above it, and no tree is too deep.
"""

import numpy as np

from dask_rac.kernels.jit import kernel


@kernel
def condense(order, parent, size, least, cluster):
    """Number the clusters of the condensed tree; each merge gets the one that its union is part of, -1 if too small.

    Merges are given by their `right` node, in order; `cluster` has one item per node and starts at -1. Returns for each
    cluster the one that it is split off from, -1 for the top of a tree; the place in the order of the merge that ends
    it, going up, the number of merges for a top; and the number of its nodes there.
    """
    most = max(1, 2 * (len(parent) // least))
    above = np.full(most, -1, cluster.dtype)
    end = np.full(most, len(order), np.int64)
    nodes = np.zeros(most, np.int64)
    count = np.ones(len(parent), size.dtype)
    last = np.full(len(parent), -1, cluster.dtype)
    found = 0
    for k in range(len(order)):
        right = order[k]
        left = parent[right]
        a, b = last[left], last[right]
        mine = max(a, b)
        if (a >= 0) == (b >= 0) and size[right] >= least:
            mine = found
            found += 1
            if a >= 0:
                above[a] = above[b] = mine
                end[a] = end[b] = k
        if mine >= 0:
            nodes[mine] = size[right]
        count[left] = size[right]
        last[left] = cluster[right] = mine
    return above[:found], end[:found], nodes[:found]


@kernel
def find_stability(order, parent, size, closeness, cluster, start):
    """Return the stability of each cluster: the sum, over its nodes, of how much closer they were when they left it.

    `closeness` has one item per merge, by its `right` node; `start` is that of the cluster's own beginning at its top.
    """
    stability = np.zeros(len(start))
    count = np.ones(len(parent), size.dtype)
    last = np.full(len(parent), -1, cluster.dtype)
    for k in range(len(order)):
        right = order[k]
        left = parent[right]
        a, b, mine = last[left], last[right], cluster[right]
        if mine >= 0:
            leaving = size[right]
            if a == mine:
                leaving = count[right]
            elif b == mine:
                leaving = count[left]
            stability[mine] += leaving * (closeness[right] - start[mine])
        count[left] = size[right]
        last[left] = mine
    return stability


@kernel
def choose_stable(above, stability, allowed):
    """Return the clusters that are at least as stable as all those that they split into together."""
    chosen = np.zeros(len(above), np.bool_)
    below = np.zeros(len(above))
    for c in range(len(above)):
        chosen[c] = allowed[c] and below[c] <= stability[c]
        if above[c] >= 0:
            below[above[c]] += stability[c] if chosen[c] else below[c]
    return chosen


@kernel
def climb(above, start, chosen, least, root):
    """Replace chosen clusters that begin below a distance by the first cluster above them that begins beyond it.

    `start` has the distance at which each begins. `root` must not be reached; it is -1 if every cluster may be.
    """
    target = np.arange(len(above))
    found = np.zeros(len(above), np.bool_)
    for c in range(len(above) - 1, -1, -1):
        over = above[c]
        if over >= 0 and over != root:
            target[c] = over if start[over] > least else target[over]
    for c in range(len(above)):
        if chosen[c]:
            found[target[c] if start[c] < least else c] = True
    return found


@kernel
def spread_down(above, chosen):
    """Return which clusters are chosen, or part of a chosen one."""
    inside = chosen.copy()
    for c in range(len(above) - 1, -1, -1):
        if above[c] >= 0 and inside[above[c]]:
            inside[c] = True
    return inside
