"""From merges to trees: heights that never decrease, scipy's numbering, flat cuts."""

import numpy as np

from dask_rac.kernels.jit import kernel


@kernel
def raise_heights(left, right, height, top):
    """Raise each merge to the merges below it, which rounding may put a last bit higher; `top` starts at -inf."""
    for i in range(len(left)):
        a, b = left[i], right[i]
        height[i] = max(height[i], top[a], top[b])
        top[a] = height[i]


@kernel
def number_children(order, left, right, last, children):
    """Fill `children` in scipy's numbering: merge `order[k]` is node `n + k`; `last` starts as 0 to n - 1."""
    n = len(last)
    for k in range(len(order)):
        a, b = left[order[k]], right[order[k]]
        children[k, 0], children[k, 1] = min(last[a], last[b]), max(last[a], last[b])
        last[a] = n + k


@kernel
def cut(parent, rank, thresholds, labels):
    """Label the nodes for each threshold: a node joins its parent if its rank is below the threshold.

    A parent is smaller than its node, so one pass from the smallest node on numbers the clusters, too.
    """
    found = np.zeros(len(thresholds), np.int64)
    for u in range(len(parent)):
        for t in range(len(thresholds)):
            if rank[u] < thresholds[t]:
                labels[t, u] = labels[t, parent[u]]
            else:
                labels[t, u] = found[t]
                found[t] += 1


@kernel
def cut_forest(parent, taken, labels):
    """Label the nodes: those in `taken` join their parent; one pass as in `cut`."""
    found = 0
    for u in range(len(parent)):
        if taken[u]:
            labels[u] = labels[parent[u]]
        else:
            labels[u] = found
            found += 1


@kernel
def count_large(order, parent, size, least, large):
    """Count the clusters of at least `least` nodes, two or more, after each number of merges; `large` starts at 0.

    Merges are given by their `right` node, in order, with the size of their union.
    """
    count = np.ones(len(parent), size.dtype)
    for k in range(len(order)):
        right = order[k]
        left = parent[right]
        parts = (1 if count[left] >= least else 0) + (1 if count[right] >= least else 0)
        large[k + 1] = large[k] - parts + (1 if size[right] >= least else 0)
        count[left] = size[right]


@kernel
def find_line(parent, node):
    """Return a node, its parent, the parent of that, and so on to the smallest node of the tree."""
    length = 1
    top = node
    while parent[top] != top:
        top = parent[top]
        length += 1
    line = np.empty(length, parent.dtype)
    for k in range(length):
        line[k] = node
        node = parent[node]
    return line


@kernel
def join_sizes(left, right, size):
    """Add up the sizes of clusters, which start at 1; one that has merged into another keeps its size, negated."""
    for i in range(len(left)):
        size[left[i]] += size[right[i]]
        size[right[i]] = -size[right[i]]
