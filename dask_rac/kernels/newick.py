"""Trees as brackets: the order in which Newick writes them."""

import numpy as np

from dask_rac.kernels.jit import kernel


@kernel
def post_order(table, parent):
    """The nodes of a forest as Newick writes them, and of each how many merges it is the very first below.

    `table` holds merges as scipy's Z does, some or all; `parent` has a place for each node in that numbering, filled
    with -1, and gets the merge above each. Trees come by smallest leaf, and in a tree each merge after all below it. As
    a merge has a larger number than what it joins, two passes over the merges do, and no tree is too deep.
    """
    n = len(parent) - len(table)
    least = np.arange(len(parent)).astype(parent.dtype)
    for k in range(len(table)):
        a, b = int(table[k, 0]), int(table[k, 1])
        parent[a] = parent[b] = n + k
        least[n + k] = min(least[a], least[b])
    tops = np.full(n, -1, parent.dtype)
    for node in range(len(parent)):
        if parent[node] < 0:
            tops[least[node]] = node
    place = least  # which has done its part
    end = 0
    for u in range(n):
        if tops[u] >= 0:
            end += 2 * int(table[tops[u] - n, 3]) - 1 if tops[u] >= n else 1
            place[tops[u]] = end - 1
    opens = np.zeros_like(parent)
    order = np.empty_like(parent)
    for k in range(len(table) - 1, -1, -1):
        a, b = int(table[k, 0]), int(table[k, 1])
        order[place[n + k]] = n + k
        place[b] = place[n + k] - 1
        place[a] = place[n + k] - 2 * (int(table[b - n, 3]) if b >= n else 1)
        opens[a] = opens[n + k] + 1
    for u in range(n):
        order[place[u]] = u
    return order, opens
