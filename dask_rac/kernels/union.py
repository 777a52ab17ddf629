"""Sets that only grow: each is a tree of parents, and its root, which is its own parent, stands for it.

To unite two sets, let the root of one have the other's as its parent. Every search halves the path that it goes, so
that paths stay short without a record of their length; who becomes the root is left to the caller.
"""

from dask_rac.kernels.jit import inlined


@inlined
def find_root(parent, x):
    """Return the root of the set that `x` is in.

    Load both ends of an edge before the first search: one between the two loads costs 11 % with int32.
    """
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = parent[x]
    return x
