"""The minimum spanning tree of all pairs, by Prim's algorithm: single linkage needs nothing else of the triangle.

Edges are in the order of `kernels.forest`, so the tree is unique. Hence the edges of the whole tree are among those of
the trees of parts that cover all pairs: slots are cut into groups, a thread spans the pairs of two groups, or of one,
and `unite_spans` goes through all edges found, from the lightest on. A slot may have several nodes: then the edge of
two slots is the lightest of those between their nodes, all of which weigh the same.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.forest import lighter
from dask_rac.kernels.jit import inlined, kernel, prefetch_read
from dask_rac.kernels.matrix.weights import least
from dask_rac.kernels.union import find_root

UNREACHED, JOINED = -1, -2  # in place of a link
DENSE = 8  # slots that have joined the tree are taken off the list once they are one in so many
AHEAD = 16  # entries between prefetching and reading: below the diagonal each is on another page


class Rest(NamedTuple):
    """The slots that are not in the tree yet, ascending."""

    slot: NDArray[np.int64]
    reach: NDArray[np.float64]  # the weight of its lightest edge to the tree
    link: NDArray[np.int64]  # the slot in the tree at the other end of that edge


@kernel
def span_groups(entry, members, groups, tree):
    """Write the spanning tree of the pairs between two groups of slots, or within one; return its edges.

    `groups` are the first and the last slot of each, the lower group first; `tree` gets slots and weights. `members`
    are those of `ties.py`.
    """
    first, last, second, end = groups
    apart = first != second
    source, target, weight = tree
    slots = last - first + (end - second if apart else 0)
    rest = Rest(np.empty(slots, np.int64), np.full(slots, np.inf), np.full(slots, UNREACHED))
    for k in range(slots):
        rest.slot[k] = first + k if k < last - first else second + k - (last - first)
    rest.link[0] = JOINED
    new, found, joined, listed = rest.slot[0], 0, 1, slots
    while True:
        middle = np.searchsorted(rest.slot[:listed], last) if apart else listed
        below = new < last
        reach_rest(entry, members, rest, new, (middle if apart and below else 0, middle if not below else listed))
        at = next_of(members, rest, listed)
        if at < 0:
            return found
        new = rest.slot[at]
        source[found], target[found], weight[found] = new, rest.link[at], rest.reach[at]
        found += 1
        rest.link[at], rest.reach[at] = JOINED, np.inf
        joined += 1
        if DENSE * joined > listed:
            listed, joined = close_up(rest, listed), 0


@kernel
def reach_rest(entry, members, rest, new, span) -> None:
    """Compare the entries of the newest slot of the tree with what the listed ones of `span` were reached by."""
    slot, reach, link = rest
    row = new * (new - 1) // 2
    middle = span[0] + np.searchsorted(slot[span[0] : span[1]], new)
    for k in range(span[0], middle):
        w = entry[row + slot[k]]
        if w <= reach[k] and link[k] != JOINED and (w < reach[k] or nearer(members, slot[k], new, link[k])):
            reach[k], link[k] = w, new
    # The newest slot may be listed still; its entry with itself would be beyond its row, for the last beyond the end.
    for k in range(middle + (middle < span[1] and slot[middle] == new), span[1]):
        if k + AHEAD < span[1]:
            prefetch_read(entry, slot[k + AHEAD] * (slot[k + AHEAD] - 1) // 2 + new)
        w = entry[slot[k] * (slot[k] - 1) // 2 + new]
        if w <= reach[k] and link[k] != JOINED and (w < reach[k] or nearer(members, slot[k], new, link[k])):
            reach[k], link[k] = w, new


@kernel
def next_of(members, rest, listed):
    """Return the place of the slot that joins the tree next, -1 if none is left."""
    slot, reach, link = rest
    low, at = least(reach[:listed]), -1
    for k in range(listed):
        if reach[k] == low and link[k] >= 0 and (at < 0 or leads(members, (slot[k], link[k]), (slot[at], link[at]))):
            at = k
    return at


@kernel
def close_up(rest, listed):
    """Take the slots that have joined off the list; return the number of the others."""
    kept = 0
    for k in range(listed):
        if rest.link[k] != JOINED:
            rest.slot[kept], rest.reach[kept], rest.link[kept] = rest.slot[k], rest.reach[k], rest.link[k]
            kept += 1
    return kept


@kernel
def lightest_edge(members, a, b):
    """Return the nodes of the lightest edge between two slots, all of which weigh the same."""
    node, begin, _ = members
    u, v = node[begin[a]], node[begin[b]]
    for k in range(begin[a], begin[a + 1]):
        for m in range(begin[b], begin[b + 1]):
            if lighter(0.0, node[k], node[m], 0.0, u, v):
                u, v = node[k], node[m]
    return u, v


@inlined
def leads(members, edge, other):
    """Whether the edge of two slots comes before that of two others with the same weight."""
    u, v = lightest_edge(members, edge[0], edge[1])
    other_u, other_v = lightest_edge(members, other[0], other[1])
    return lighter(0.0, u, v, 0.0, other_u, other_v)


@inlined
def nearer(members, slot, new, old):
    """Whether the edge to `new` comes before that to `old`, of equal weight."""
    return old < 0 or leads(members, (slot, new), (slot, old))


@kernel
def name_ends(members, tree) -> None:
    """Replace the slots of edges by the nodes of the lightest edge between them."""
    source, target, _ = tree
    for e in range(len(source)):
        source[e], target[e] = lightest_edge(members, source[e], target[e])


@kernel
def unite_spans(order, tree, forest, ceiling, merges):
    """Write the merges of the tree among the given edges, taken in `order`, lightest first; return their number.

    `forest` is the parent of each node, and the number of nodes below each root. `order` ends up with the edges of the
    tree.
    """
    source, target, weight = tree
    left, right, height, merged_size = merges
    parent, size = forest
    found = 0
    for k in range(len(order)):
        e = order[k]
        if weight[e] > ceiling:
            break
        a, b = find_root(parent, source[e]), find_root(parent, target[e])
        if a == b:
            continue
        if b < a:
            a, b = b, a
        parent[b] = a
        size[a] += size[b]
        left[found], right[found], height[found], merged_size[found] = a, b, weight[e], size[a]
        order[found] = e
        found += 1
    return found
