"""Groups of nodes at distance 0 from each other: their merges, without a triangle.

W is 0 for all pairs of such clusters by every linkage, so the rest of the order decides (`kernels.order`). A group of
up to `MOST` nodes merges in that order, by rounds of reciprocal pairs, as the rounds on a triangle would merge it. This
takes all pairs of the group. Larger ones merge neighbours by node, round by round: a tree among equal points has no
meaning, and a million copies of one point have too many pairs.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.forest import lighter
from dask_rac.kernels.jit import kernel
from dask_rac.kernels.order import breaks_tie, edge_tie

MOST = 256  # nodes of a group that is merged in the one order


class GroupMerges(NamedTuple):
    """Merges of groups, one group after the other."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    size: NDArray[np.int64]
    round: NDArray[np.int32]
    last: NDArray[np.int64]  # the largest node of both clusters


class Room(NamedTuple):
    """Room for the clusters of one group."""

    tie: NDArray[np.int32]  # of each two clusters
    ids: NDArray[np.int64]
    size: NDArray[np.int64]
    last: NDArray[np.int64]
    nearest: NDArray[np.int64]
    live: NDArray[np.int64]  # places of the clusters that are left, ascending


@kernel
def merge_groups(member, begin, merges, span) -> None:
    """Write the merges of a range of groups; those of group g follow g fewer merges than there are nodes before it."""
    tie, columns = np.empty((MOST, MOST), np.int32), np.empty((5, MOST), np.int64)
    room = Room(tie, columns[0], columns[1], columns[2], columns[3], columns[4])
    for g in range(span[0], span[1]):
        nodes = member[begin[g] : begin[g + 1]]
        if len(nodes) <= MOST:
            merge_in_order(nodes, room, merges, begin[g] - g)
        else:
            merge_neighbours(nodes, merges, begin[g] - g)


@kernel
def merge_in_order(nodes, room, merges, at) -> None:
    """Merge a small group by rounds of reciprocal pairs; write its merges from place `at` on."""
    tie, ids, size, last, nearest, live = room
    count = len(nodes)
    for i in range(count):
        ids[i], size[i], last[i], live[i] = nodes[i], 1, nodes[i], i
        for j in range(i):
            tie[i, j] = tie[j, i] = edge_tie(nodes[i], nodes[j])
    round_ = 0
    while count > 1:
        round_ += 1
        for k in range(count):
            nearest[live[k]] = nearest_of(room, count, live[k])
        for k in range(count):
            i = live[k]
            j = nearest[i]
            if i < j and nearest[j] == i:
                fold_ties(room, count, i, j)
                merges.left[at], merges.right[at] = min(ids[i], ids[j]), max(ids[i], ids[j])
                ids[i], size[i], last[i] = merges.left[at], size[i] + size[j], max(last[i], last[j])
                merges.size[at], merges.round[at], merges.last[at] = size[i], round_, last[i]
                size[j] = 0
                at += 1
        kept = 0
        for k in range(count):
            live[kept] = live[k]
            kept += size[live[k]] > 0
        count = kept


@kernel
def nearest_of(room, count, i):
    """Return the cluster that comes first for cluster `i`."""
    best = -1
    for k in range(count):
        j = room.live[k]
        if j == i:
            continue
        tie, lowest = room.tie[i, j], room.tie[i, best]
        if best < 0 or tie < lowest or (tie == lowest and breaks_tie(room.ids, room.size, i, j, best)):
            best = j
    return best


@kernel
def fold_ties(room, count, i, j) -> None:
    """Give cluster `i` the ties of its union with `j`: the largest of both."""
    tie = room.tie
    for k in range(count):
        c = room.live[k]
        tie[i, c] = tie[c, i] = max(tie[i, c], tie[j, c])


@kernel
def merge_neighbours(nodes, merges, at) -> None:
    """Merge a large group into a balanced tree; write its merges from place `at` on."""
    width, round_ = 1, 0
    while width < len(nodes):
        round_ += 1
        for i in range(0, len(nodes) - width, 2 * width):
            end = min(i + 2 * width, len(nodes))
            merges.left[at], merges.right[at], merges.size[at] = nodes[i], nodes[i + width], end - i
            merges.round[at], merges.last[at] = round_, nodes[end - 1]
            at += 1
        width *= 2


@kernel
def span_equals(member, begin, tree, span) -> None:
    """Write the spanning trees of a range of groups, in the order of edges of `kernels.forest`; large groups: a path.

    Edges are placed as the merges of `merge_groups` are.
    """
    reach, joined = np.empty(MOST, np.int64), np.empty(MOST, np.bool_)
    for g in range(span[0], span[1]):
        nodes, at = member[begin[g] : begin[g + 1]], begin[g] - g
        if len(nodes) <= MOST:
            span_in_order(nodes, reach, joined, tree, at)
        else:
            for k in range(len(nodes) - 1):
                tree[0][at + k], tree[1][at + k] = nodes[k], nodes[k + 1]


@kernel
def span_in_order(nodes, reach, joined, tree, at) -> None:
    """Write the spanning tree of a small group by Prim's algorithm."""
    source, target = tree
    count = len(nodes)
    for k in range(count):
        reach[k], joined[k] = nodes[0], k == 0
    for edge in range(count - 1):
        best = -1
        for k in range(count):
            if not joined[k] and (best < 0 or lighter(0.0, nodes[k], reach[k], 0.0, nodes[best], reach[best])):
                best = k
        source[at + edge], target[at + edge] = nodes[best], reach[best]
        joined[best] = True
        for k in range(count):
            if not joined[k] and lighter(0.0, nodes[k], nodes[best], 0.0, nodes[k], reach[k]):
                reach[k] = nodes[best]
