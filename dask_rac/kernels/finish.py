"""The finisher: sequential exact HAC on what the rounds leave.

1. An edge lies in a heap under the key it had when it was put there. By reducibility that key is a lower bound
   of what the edge has become, so a merge changes nothing in the heap: an edge is looked at when it is on top.
2. A key is out of date exactly when one of its two clusters has grown, that is when their size has.
3. Of two parallel edges the one with the smaller key stays, so 1 holds for what they are together.
4. The cluster with fewer entries moves into the other, entry by entry: O(E log E) moves in all. Edges name
   their two clusters as they are now; nothing has to be searched for.
5. `slot_edge` finds the edge of a pair. Pairs of clusters that are gone stay there until it is built anew.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.order import hash64
from dask_rac.kernels.rule import is_mean, linkage_weight


@kernel
def list_edges(rows, ends, weight, count, tie):
    """Write every edge of `rows` once, from its smaller end; returns their number."""
    start, stop, neighbour, row_weight, row_count, row_tie = rows
    found = 0
    for u in range(len(start)):
        for e in range(start[u], stop[u]):
            if u < neighbour[e]:
                ends[found, 0], ends[found, 1] = u, neighbour[e]
                weight[found], tie[found] = row_weight[e], row_tie[e]
                count[found] = row_count[e] if len(row_count) > 0 else 1
                found += 1
    return found


@inlined
def comes_first(a, b, keys):
    """Whether edge `a` leaves the heap before edge `b`: the order of `order.py`, as of when they were put there."""
    key, key_tie, key_size, key_hash = keys
    if key[a] != key[b]:
        return key[a] < key[b]
    if key_tie[a] != key_tie[b]:
        return key_tie[a] < key_tie[b]
    if key_size[a] != key_size[b]:
        return key_size[a] < key_size[b]
    if key_hash[a] != key_hash[b]:
        return key_hash[a] < key_hash[b]
    return a < b


@inlined
def sift_down(heap, at, used, keys):
    """Move the edge at `at` of the heap down to its place."""
    edge = heap[at]
    while 2 * at + 1 < used:
        child = 2 * at + 1
        if child + 1 < used and comes_first(heap[child + 1], heap[child], keys):
            child += 1
        if not comes_first(heap[child], edge, keys):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = edge


@inlined
def find_slot(slot_pair, a, b):
    """The slot of pair `a, b`, or the empty one where it would go, and the pair as one number."""
    pair = np.int64(min(a, b)) << 32 | np.int64(max(a, b))
    mask = len(slot_pair) - 1
    slot = np.int64((np.uint64(pair) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while slot_pair[slot] != pair and slot_pair[slot] != -1:
        slot = (slot + 1) & mask
    return slot, pair


@inlined
def fill_slots(slot_pair, slot_edge, ends, alive):
    """Enter the pairs of the living edges; returns their number."""
    slot_pair[:] = -1
    filled = 0
    for e in range(len(alive)):
        if alive[e]:
            slot, pair = find_slot(slot_pair, ends[e, 0], ends[e, 1])
            slot_pair[slot], slot_edge[slot] = pair, e
            filled += 1
    return filled


@kernel
def finish(ids, size, edges, rule, merges):
    """Merge in the order of `order.py` until no edge is left below the ceiling; returns the number of merges.

    `edges` is `ends, weight, count, tie`, which are used up, as are `ids` and `size`.
    """
    ends, weight, count, tie = edges
    left, right, height, merged_size = merges
    total, means = len(weight), is_mean(rule.code)
    heap, key, key_tie = np.arange(total), np.empty(total), tie.copy()
    key_size, key_hash = np.empty(total, np.int64), np.empty(total, np.uint64)
    keys = key, key_tie, key_size, key_hash
    alive = np.ones(total, np.bool_)
    # Entry 2e of the lists is edge e as seen from ends[e, 0], entry 2e + 1 as seen from ends[e, 1].
    head, following = np.full(len(ids), -1, np.int64), np.empty(2 * total, np.int64)
    entries = np.zeros(len(ids), np.int64)
    capacity = 16
    while capacity < 3 * total:
        capacity *= 2
    slot_pair, slot_edge = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    filled = fill_slots(slot_pair, slot_edge, ends, alive)
    for e in range(total):
        a, b = ends[e, 0], ends[e, 1]
        following[2 * e], head[a] = head[a], 2 * e
        following[2 * e + 1], head[b] = head[b], 2 * e + 1
        entries[a] += 1
        entries[b] += 1
        key[e] = linkage_weight(rule, weight[e], count[e], np.float64(size[a]) * size[b])
        key_size[e], key_hash[e] = size[a] + size[b], hash64(ids[a], ids[b])
    for at in range(total // 2 - 1, -1, -1):
        sift_down(heap, at, total, keys)
    used, found = total, 0
    while used > 0:
        e = heap[0]
        if key[e] > rule.ceiling or key[e] == np.inf:
            break
        a, b = ends[e, 0], ends[e, 1]
        if not alive[e]:
            used -= 1
            heap[0] = heap[used]
            sift_down(heap, 0, used, keys)
            continue
        if key_size[e] != size[a] + size[b]:
            key[e] = linkage_weight(rule, weight[e], count[e], np.float64(size[a]) * size[b])
            key_tie[e], key_size[e], key_hash[e] = tie[e], size[a] + size[b], hash64(ids[a], ids[b])
            sift_down(heap, 0, used, keys)
            continue
        if entries[a] < entries[b]:
            a, b = b, a
        left[found], right[found] = min(ids[a], ids[b]), max(ids[a], ids[b])
        height[found], merged_size[found] = key[e], size[a] + size[b]
        ids[a], size[a] = left[found], merged_size[found]
        found += 1
        alive[e] = False
        at = head[b]
        while at >= 0:
            after, moved = following[at], at >> 1
            if alive[moved]:
                ends[moved, at & 1] = a
                slot, pair = find_slot(slot_pair, a, ends[moved, 1 - (at & 1)])
                if slot_pair[slot] == pair:
                    kept, gone = slot_edge[slot], moved
                    if comes_first(moved, kept, keys):
                        kept, gone = gone, kept
                    alive[gone] = False
                    weight[kept] = weight[kept] + weight[gone] if means else max(weight[kept], weight[gone])
                    count[kept] += count[gone]
                    tie[kept] = max(tie[kept], tie[gone])
                    slot_edge[slot] = kept
                else:
                    slot_pair[slot], slot_edge[slot] = pair, moved
                    filled += 1
                if alive[moved]:
                    following[at], head[a] = head[a], at
                    entries[a] += 1
            at = after
        if 2 * filled > capacity:
            filled = fill_slots(slot_pair, slot_edge, ends, alive)
    return found
