"""The one order of pairs at equal W, see `kernels.order`, for clusters that know their nodes but not their edges.

The tie of two clusters is the largest hash of an edge between them, and here every two nodes have an edge. Kept for
every pair it would take a quarter more memory, so it is computed where two weights are equal. That is cheap: a cluster
is out of the running with the first hash above the other's tie, and hashes of one node with many are vectorised.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.order import TIE_BITS, hash64

LARGEST_TIE = 2**TIE_BITS - 1


class Members(NamedTuple):
    """What the order of clusters depends on."""

    node: NDArray[np.int64]  # the nodes of slot 0, then those of slot 1, and so on
    begin: NDArray[np.int64]  # where those of each slot begin, and where the last ones end
    ids: NDArray[np.int64]  # of the clusters


@kernel
def list_members(state):
    """List the nodes of all clusters; dead slots have none."""
    _, (_, start), groups, found = state
    slots, after = len(groups.ids), found.after
    node, begin = np.empty(len(after), np.int64), np.empty(slots + 1, np.int64)
    end = 0
    for s in range(slots):
        begin[s] = end
        u = groups.head[s] if start[s] >= 0 else -1
        while u >= 0:
            node[end] = u
            end += 1
            u = after[u]
    begin[slots] = end
    return Members(node, begin, groups.ids)


@kernel
def largest_tie(u, others):
    """Return the largest tie of one node with some others; vectorised."""
    largest = np.uint64(0)
    for k in range(len(others)):
        hashed = hash64(u, others[k])
        largest = hashed if hashed > largest else largest
    return int(largest >> np.uint64(64 - TIE_BITS))


@kernel
def pair_tie(members, a, b, enough):
    """Return the tie of two clusters, or any value above `enough` that shows it to be larger."""
    node, begin, _ = members
    if begin[b + 1] - begin[b] < begin[a + 1] - begin[a]:
        a, b = b, a
    others = node[begin[b] : begin[b + 1]]
    largest = -1
    for k in range(begin[a], begin[a + 1]):
        largest = max(largest, largest_tie(node[k], others))
        if largest > enough or largest == LARGEST_TIE:
            break
    return largest


@kernel
def prefers(members, slot, new, old, old_tie):
    """Whether a cluster prefers `new` to `old` at equal W; return that, and the tie of the preferred one.

    `old_tie` is the tie with `old`, -1 if it is not known yet.
    """
    if old_tie < 0:
        old_tie = pair_tie(members, slot, old, LARGEST_TIE)
    tie = pair_tie(members, slot, new, old_tie)
    if tie != old_tie:
        return (True, tie) if tie < old_tie else (False, old_tie)
    _, begin, ids = members
    new_size, old_size = begin[new + 1] - begin[new], begin[old + 1] - begin[old]
    if new_size != old_size:
        return new_size < old_size, tie
    first, second = hash64(ids[slot], ids[new]), hash64(ids[slot], ids[old])
    if first != second:
        return first < second, tie
    return ids[new] < ids[old], tie
