"""Merges done again in their order, to see that nobody was nearer to their clusters than they say.

Every cluster has a heap of its edges, the nearest on top. A merge of u and v says that nobody is nearer to either than
a bound: whatever edge on top of their heaps may be nearer is weighed anew, until none is left or one truly is.

1. What an edge is pushed with is how near it may be at most. By reducibility that holds until it is weighed anew,
   whatever merges at its other end.
2. Where absent pairs have a weight f, W to each neighbour changes with every merge of a cluster: `W(u, c) = f -
   near(u, c) / |u|`, where `near` is the sum over the edges of f less their weight, divided by `|c|`. That is kept, as
   it does not change while u merges with clusters that have no edge to c: a hub need not weigh all its edges anew.
3. The cluster with fewer edges moves into the other, edge by edge: O(E log E) moves in all. Of two edges that become
   one, that with the nearer key stands for both at the other end, where 1 holds for their mean; at this end it is
   weighed anew, as the two together may be nearer by 2.
4. An edge in a heap that another one stands for is dropped when it comes up.

Sums have other rounding errors than those of the run, so each edge counts as farther by as much as these may be.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.arrays import Ids
from dask_rac.kernels.audit import EPS, ROUNDINGS
from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.rows.table import find_slot
from dask_rac.kernels.rule import MAX_FILLED, MAX_FULL, MEAN_ALL, MEAN_FILLED, MEAN_FULL, MEAN_PRESENT


class Links(NamedTuple):
    """Edges between clusters, one row each."""

    ends: Ids  # the places of its two clusters
    weight: NDArray[np.float64]  # the sum or the largest of what is folded into it, as a distance
    folded: Ids  # how many it is made of
    stands: Ids  # for each end the item of the heap that stands for it
    alive: NDArray[np.bool_]


class Heaps(NamedTuple):
    """A pairing heap per cluster, of items that are edges as seen from one end: two for each edge."""

    key: NDArray[np.float64]  # how near the other end may be at most; the largest is on top
    child: Ids  # the first item below it; -1 if there is none
    beside: Ids  # the next item below the same one
    edge: Ids
    top: Ids  # of each cluster; -1 if it has no edge
    items: Ids  # in the heap of each cluster


@inlined
def is_filled_mean(code):
    """Whether absent pairs count in a mean."""
    return code in (MEAN_ALL, MEAN_FILLED)


@inlined
def nearness(rule, weight, count, sizes):
    """Return how near an edge is, in the unit of `reach`; minus infinity if it never merges."""
    if is_filled_mean(rule.code):
        slack = (count + ROUNDINGS) * EPS * (abs(weight) + count * abs(rule.fill))
        return (count * rule.fill - weight - slack) / sizes[1]
    if rule.code == MEAN_PRESENT:
        return -(weight + (count + ROUNDINGS) * EPS * abs(weight)) / count
    if count < np.float64(sizes[0]) * sizes[1]:
        if rule.code == MEAN_FULL or rule.code == MAX_FULL:
            return -np.inf
        if rule.code == MAX_FILLED:
            return -rule.fill
    if rule.code == MEAN_FULL:
        return -(weight + (count + ROUNDINGS) * EPS * abs(weight)) / count
    return -weight


@inlined
def reach(rule, bound, size):
    """Return what `nearness` may be at most for a cluster of this size to which nobody is nearer than the bound."""
    if is_filled_mean(rule.code):
        slack = 2 * ROUNDINGS * EPS * max(abs(rule.fill), abs(bound))
        return (rule.fill - bound + slack) * size
    return -bound + 2 * ROUNDINGS * EPS * abs(bound)


@inlined
def meld(key, child, beside, a, b):
    """Join two heaps; return the top."""
    if a < 0:
        return b
    if b < 0:
        return a
    if key[b] > key[a]:
        a, b = b, a
    beside[b] = child[a]
    child[a] = b
    return a


@inlined
def below(key, child, beside, item):
    """Take the top off a heap; return the next top."""
    left, done = np.int64(child[item]), np.int64(-1)
    child[item] = -1
    while left >= 0:
        one, other = left, np.int64(beside[left])
        beside[one] = -1
        left = np.int64(-1)
        if other >= 0:
            left = np.int64(beside[other])
            beside[other] = -1
        one = np.int64(meld(key, child, beside, one, other))
        beside[one] = done
        done = one
    top = np.int64(-1)
    while done >= 0:
        following = np.int64(beside[done])
        beside[done] = -1
        top = np.int64(meld(key, child, beside, top, done))
        done = following
    return top


@kernel
def first_heaps(links, heaps, rule, slots):
    """Push each edge on the heaps of its two ends, which are single nodes; return how many pairs are in the table."""
    ends, weight, folded, stands, alive = links
    key, child, beside, edge, top, items = heaps
    ones = np.float64(1), np.float64(1)
    slots[:, 0] = -1
    for e in range(len(alive)):
        for side in range(2):
            item, u = 2 * e + side, ends[e, side]
            stands[e, side], edge[item] = item, e
            key[item] = nearness(rule, weight[e], np.float64(folded[e]), ones)
            child[item] = beside[item] = -1
            top[u] = meld(key, child, beside, top[u], item)
            items[u] += 1
        slot, pair = find_slot(slots, ends[e, 0], ends[e, 1])
        slots[slot, 0], slots[slot, 1] = pair, e
    return len(alive)


@kernel
def is_nearest(u, limit, links, heaps, rule, size):
    """Whether nothing in the heap of a cluster is nearer than a limit, weighing anew what may be."""
    ends, weight, folded, stands, alive = links
    key, child, beside, edge, top, items = heaps
    while top[u] >= 0 and key[top[u]] > limit:
        item = top[u]
        top[u] = below(key, child, beside, item)
        e = edge[item]
        side = 0 if ends[e, 0] == u else 1
        if not alive[e] or stands[e, side] != item:
            items[u] -= 1
            continue
        sizes = np.float64(size[u]), np.float64(size[ends[e, 1 - side]])
        key[item] = nearness(rule, weight[e], np.float64(folded[e]), sizes)
        if key[item] == -np.inf:
            items[u] -= 1
            continue
        top[u] = meld(key, child, beside, top[u], item)
        if key[item] > limit:
            return False
    return True


@kernel
def move_edges(both, links, heaps, rule, size, slots):
    """Move the edges of the second cluster to the first, which has the size of both; return how many pairs are new."""
    u, v = both
    ends, weight, folded, stands, alive = links
    key, child, beside, edge, top, items = heaps
    largest = rule.code > MEAN_FULL
    gained = 0
    item = last = np.int64(top[v])
    top[v], items[v] = -1, 0
    while item >= 0:
        # The items below are appended to those that are left: the heap becomes a list while it is read.
        if child[item] >= 0:
            beside[last] = child[item]
            child[item] = -1
            while beside[last] >= 0:
                last = np.int64(beside[last])
        following = np.int64(beside[item])
        beside[item] = -1
        e = edge[item]
        side = 0 if ends[e, 0] == v else 1
        if alive[e] and stands[e, side] == item:
            c = ends[e, 1 - side]
            slot, pair = find_slot(slots, u, c)
            if slots[slot, 0] != pair:
                slots[slot, 0], slots[slot, 1] = pair, e
                gained += 1
                ends[e, side] = u
            else:
                kept = slots[slot, 1]
                own = 0 if ends[kept, 0] == u else 1
                weight[kept] = max(weight[kept], weight[e]) if largest else weight[kept] + weight[e]
                folded[kept] += folded[e]
                alive[e] = False
                other = stands[e, 1 - side]
                if key[other] > key[stands[kept, 1 - own]]:
                    stands[kept, 1 - own], edge[other] = other, kept
                stands[kept, own], edge[item] = item, kept
                e = kept
            key[item] = nearness(rule, weight[e], np.float64(folded[e]), (np.float64(size[u]), np.float64(size[c])))
            if key[item] > -np.inf:
                top[u] = meld(key, child, beside, top[u], item)
                items[u] += 1
        item = following
    return gained


@kernel
def refill(slots, links):
    """Fill the table with the pairs of the live edges; return their number."""
    ends, _, _, _, alive = links
    slots[:, 0] = -1
    filled = 0
    for e in range(len(alive)):
        if alive[e]:
            slot, pair = find_slot(slots, ends[e, 0], ends[e, 1])
            slots[slot, 0], slots[slot, 1] = pair, e
            filled += 1
    return filled


@kernel
def replay(merges, bounds, links, heaps, rule, slots):
    """Do the merges again, but those whose bound is NaN; return which of them had a cluster nearer than that."""
    left, right, _, _ = merges
    top, items = heaps.top, heaps.items
    nearer = np.zeros(len(left), np.bool_)
    size, place = np.ones(len(top), np.int64), np.arange(len(top))
    filled = first_heaps(links, heaps, rule, slots)
    for i in range(len(left)):
        if np.isnan(bounds[i]):
            continue
        u, v = place[left[i]], place[right[i]]
        for one in (u, v):
            nearer[i] |= not is_nearest(one, reach(rule, bounds[i], size[one]), links, heaps, rule, size)
        if items[u] < items[v]:
            u, v = v, u
        slot, pair = find_slot(slots, u, v)
        if slots[slot, 0] == pair:
            links.alive[slots[slot, 1]] = False
        size[u] += size[v]
        place[left[i]] = u
        filled += move_edges((u, v), links, heaps, rule, size, slots)
        if 4 * filled > 3 * len(slots):
            filled = refill(slots, links)
    return nearer
