"""From merges to trees: heights that never fall, scipy's numbering, flat cuts."""

import numpy as np

from dask_rac.kernels.jit import kernel


@kernel
def raise_heights(left, right, height, top):
    """Lift each merge to the merges below it, which rounding may have put a last bit above; `top` starts at -inf."""
    for i in range(len(left)):
        a, b = left[i], right[i]
        height[i] = max(height[i], top[a], top[b])
        top[a] = height[i]


@kernel
def number_children(order, left, right, last, children):
    """Fill `children` in scipy's numbering: the merge at place `k` of `order` is node `n + k`; `last` starts 0..n-1."""
    n = len(last)
    for k in range(len(order)):
        a, b = left[order[k]], right[order[k]]
        children[k, 0], children[k, 1] = min(last[a], last[b]), max(last[a], last[b])
        last[a] = n + k


@kernel
def cut(parent, rank, thresholds, labels):
    """Label the nodes once for each threshold, uniting a node with its parent where its rank is below it.

    A parent is smaller than its node, so one pass from the smallest node on numbers clusters as it goes.
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
    """Label the nodes, uniting those `taken` with their parent; one pass as in `cut`."""
    found = 0
    for u in range(len(parent)):
        if taken[u]:
            labels[u] = labels[parent[u]]
        else:
            labels[u] = found
            found += 1
