"""The one order of pairs at equal W, see `kernels.order`, for clusters that know their nodes but not their edges.

The tie of two clusters is the largest hash of an edge between them, and here every two nodes have an edge. Kept for
every pair it would take a quarter more memory, so it is computed where two weights are equal. That is cheap: a cluster
is out of the running with the first hash above the other's tie.
"""

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.order import TIE_BITS, edge_tie, hash64

LARGEST_TIE = 2**TIE_BITS - 1


@kernel
def pair_tie(groups, after, a, b, enough):
    """Return the tie of two clusters, or any value above `enough` that shows it to be larger."""
    largest = -1
    u = groups.head[a]
    while u >= 0:
        v = groups.head[b]
        while v >= 0:
            tie = int(edge_tie(u, v))
            if tie > largest:
                largest = tie
                if largest > enough or largest == LARGEST_TIE:
                    return largest
            v = after[v]
        u = after[u]
    return largest


@kernel
def prefers(groups, after, slot, new, old, old_tie):
    """Whether a cluster prefers `new` to `old` at equal W; return that, and the tie of the preferred one.

    `old_tie` is the tie with `old`, -1 if it is not known yet.
    """
    if old_tie < 0:
        old_tie = pair_tie(groups, after, slot, old, LARGEST_TIE)
    tie = pair_tie(groups, after, slot, new, old_tie)
    if tie != old_tie:
        return (True, tie) if tie < old_tie else (False, old_tie)
    ids, size = groups.ids, groups.size
    if size[new] != size[old]:
        return size[new] < size[old], tie
    first, second = hash64(ids[slot], ids[new]), hash64(ids[slot], ids[old])
    if first != second:
        return first < second, tie
    return ids[new] < ids[old], tie
