"""Trees as brackets: the order in which the Newick format lists nodes."""

import numpy as np

from dask_rac.kernels.jit import kernel


@kernel
def post_order(table, parent):
    """Return the nodes of a forest in Newick order, and for each the number of merges whose first node it is.

    `table` holds merges in the form of scipy's Z, some or all. `parent` has one item per node in that numbering, filled
    with -1, and gets the merge above each. Trees are ordered by smallest leaf, and in a tree each merge follows all
    below it. As a merge has a larger number than what it joins, two passes suffice, and no tree is too deep.
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
    place = least  # reuses its memory
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
