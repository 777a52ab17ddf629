"""The finisher: sequential exact HAC on what the rounds leave.

1. An edge is in the heap under the key it had when it was pushed. By reducibility that key is a lower bound of
   its current key, so a merge changes nothing in the heap: a key is updated when its edge reaches the top.
2. A key is out of date exactly when one of its two clusters has grown, that is when the sum of their sizes has.
3. Of two parallel edges the one with the smaller key stays, so 1 holds for the combined edge.
4. The cluster with fewer entries moves into the other, entry by entry: O(E log E) moves in all. Edges always
   name their two current clusters, so no search for them is needed.
5. `slots` maps a pair to its edge. Pairs of merged clusters stay there until the table is refilled.

By weighted linkage a merge with a cluster that lacks an edge changes W as well, to the mean with `fill`. That would
mean every entry of the larger cluster, so an edge keeps the number of merges of its two ends that its weight
reflects, and catches up when it is used. Such a mean is no smaller than before, so 1 holds.

Data used together is stored together: an edge's ends with its list entries, its weight with its key.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.order import hash64
from dask_rac.kernels.rows.table import first_slot
from dask_rac.kernels.rule import HALF_FILLED, is_mean, linkage_weight, mean_with_fill

KEY, WEIGHT, COUNT = 0, 1, 2  # columns of `values`, one row per edge
REFLECTED = COUNT  # by weighted linkage nothing is counted but the merges of both ends that the weight reflects
FOLLOWING = 2  # `links` has the two ends, then for each end the next entry in the list of its cluster


@kernel
def list_edges(rows, links, values, tie):
    """Write every edge of `rows` once, from its smaller end; return their number."""
    start, stop, neighbour, weight, count, row_tie = rows
    found = 0
    for u in range(len(start)):
        for e in range(start[u], stop[u]):
            if u < neighbour[e]:
                links[found, 0], links[found, 1], tie[found] = u, neighbour[e], row_tie[e]
                values[found, WEIGHT], values[found, COUNT] = weight[e], count[e] if len(count) > 0 else 1
                found += 1
    return found


@inlined
def goes_first(a, b, pushed):
    """Whether edge `a` comes before `b` at equal weight: the order of `order.py`, as of when they were pushed."""
    tie, size, pair_hash = pushed
    if tie[a] != tie[b]:
        return tie[a] < tie[b]
    if size[a] != size[b]:
        return size[a] < size[b]
    if pair_hash[a] != pair_hash[b]:
        return pair_hash[a] < pair_hash[b]
    return a < b


@kernel
def sift_down(heap, heap_key, at, used, pushed):
    """Move the edge at `at` down to its position in a 4-ary heap."""
    edge, key = heap[at], heap_key[at]
    while 4 * at + 1 < used:
        least = 4 * at + 1
        low = heap_key[least]
        for child in range(4 * at + 2, min(4 * at + 5, used)):
            if heap_key[child] < low or (heap_key[child] == low and goes_first(heap[child], heap[least], pushed)):
                least, low = child, heap_key[child]
        if key < low or (key == low and goes_first(edge, heap[least], pushed)):
            break
        heap[at], heap_key[at] = heap[least], low
        at = least
    heap[at], heap_key[at] = edge, key


@kernel
def make_heap(heap, heap_key, used, pushed):
    """Arrange the first `used` edges as a heap."""
    for at in range((used - 2) // 4, -1, -1):
        sift_down(heap, heap_key, at, used, pushed)


@kernel
def drop_dead(heap, heap_key, used, alive):
    """Keep the live ones of the first `used` edges; return their number."""
    living = 0
    for at in range(used):
        if alive[heap[at]]:
            heap[living], heap_key[living] = heap[at], heap_key[at]
            living += 1
    return living


@inlined
def find_slot(slots, a, b):
    """Return the slot of pair `a, b`, or the empty slot where it would go, and the pair as one number."""
    pair = np.int64(min(a, b)) << 32 | np.int64(max(a, b))
    mask = len(slots) - 1
    slot = first_slot(pair, mask)
    while slots[slot, 0] != pair and slots[slot, 0] != -1:
        slot = (slot + 1) & mask
    return slot, pair


@kernel
def fill_slots(slots, links, alive):
    """Fill the table with the pairs of the live edges; return their number."""
    slots[:, 0] = -1
    filled = 0
    for e in range(len(alive)):
        if alive[e]:
            slot, pair = find_slot(slots, links[e, 0], links[e, 1])
            slots[slot, 0], slots[slot, 1] = pair, e
            filled += 1
    return filled


@inlined
def catch_up(values, e, merges, fill):
    """Bring the weight of an edge up to the given number of merges of its ends, by weighted linkage; return it."""
    values[e, WEIGHT] = mean_with_fill(values[e, WEIGHT], fill, merges - np.int64(values[e, REFLECTED]))
    values[e, REFLECTED] = merges
    return values[e, WEIGHT]


@kernel
def finish(ids, size, edges, rule, merges):
    """Merge in the order of `order.py` until no edge is left within the ceiling; return the number of merges.

    `edges` is what `list_edges` wrote; it is overwritten, as are `ids` and `size`.
    """
    links, values, tie = edges
    left, right, height, merged_size = merges
    total, means, halves = len(tie), is_mean(rule.code), rule.code == HALF_FILLED
    grown = np.zeros(len(ids) if halves else 0, np.int64)  # merges of each cluster
    heap, heap_key = np.arange(total).astype(links.dtype), np.empty(total)
    pushed_tie, pushed_size, pushed_hash = tie.copy(), np.empty(total, np.int64), np.empty(total, np.uint64)
    pushed = pushed_tie, pushed_size, pushed_hash
    alive = np.ones(total, np.bool_)
    # Entry 2e of the lists is edge e as seen from its first end, entry 2e + 1 as seen from its second.
    head, entries = np.full(len(ids), -1, np.int64), np.zeros(len(ids), np.int64)
    moving = np.empty(2 * total, np.int64)
    for e in range(total):
        a, b = links[e, 0], links[e, 1]
        links[e, FOLLOWING], links[e, FOLLOWING + 1] = head[a], head[b]
        head[a], head[b] = 2 * e, 2 * e + 1
        entries[a] += 1
        entries[b] += 1
        heap_key[e] = linkage_weight(rule, values[e, WEIGHT], values[e, COUNT], np.float64(size[a]) * size[b])
        values[e, KEY] = heap_key[e]
        pushed_size[e], pushed_hash[e] = size[a] + size[b], hash64(ids[a], ids[b])
        if halves:
            values[e, REFLECTED] = 0
    capacity = 16
    while capacity < 2 * total:
        capacity *= 2
    slots = np.empty((capacity, 2), np.int64)
    filled = fill_slots(slots, links, alive)
    make_heap(heap, heap_key, total, pushed)
    used, dead, found = total, 0, 0
    while used > 0 and heap_key[0] <= rule.ceiling and heap_key[0] < np.inf:
        e = heap[0]
        a, b = links[e, 0], links[e, 1]
        if not alive[e]:
            used -= 1
            dead -= 1
            heap[0], heap_key[0] = heap[used], heap_key[used]
            sift_down(heap, heap_key, 0, used, pushed)
            continue
        if pushed_size[e] != size[a] + size[b]:
            if halves:
                catch_up(values, e, grown[a] + grown[b], rule.fill)
            heap_key[0] = linkage_weight(rule, values[e, WEIGHT], values[e, COUNT], np.float64(size[a]) * size[b])
            values[e, KEY] = heap_key[0]
            pushed_tie[e], pushed_size[e], pushed_hash[e] = tie[e], size[a] + size[b], hash64(ids[a], ids[b])
            sift_down(heap, heap_key, 0, used, pushed)
            continue
        if entries[a] < entries[b]:
            a, b = b, a
        left[found], right[found] = min(ids[a], ids[b]), max(ids[a], ids[b])
        height[found], merged_size[found] = heap_key[0], size[a] + size[b]
        ids[a], size[a] = left[found], merged_size[found]
        found += 1
        alive[e] = False
        dead += 1
        at, moves = head[b], 0
        while at >= 0:
            if alive[at >> 1]:
                moving[moves] = at
                moves += 1
            at = links[at >> 1, FOLLOWING + (at & 1)]
        for k in range(moves):
            at = moving[k]
            moved, side = at >> 1, at & 1
            c = links[moved, 1 - side]
            links[moved, side] = a
            slot, pair = find_slot(slots, a, c)
            if halves:
                catch_up(values, moved, grown[b] + grown[c], rule.fill)
            if slots[slot, 0] != pair:
                slots[slot, 0], slots[slot, 1] = pair, moved
                filled += 1
                if halves:  # what is left to reflect is the mean with `a`, which has no edge
                    values[moved, REFLECTED] = grown[a] + grown[c]
            else:
                kept, gone = slots[slot, 1], moved
                if values[moved, KEY] < values[kept, KEY] or (
                    values[moved, KEY] == values[kept, KEY] and goes_first(moved, kept, pushed)
                ):
                    kept, gone = gone, kept
                alive[gone] = False
                dead += 1
                if halves:
                    other = catch_up(values, slots[slot, 1], grown[a] + grown[c], rule.fill)
                    values[kept, WEIGHT] = (values[moved, WEIGHT] + other) / 2
                    values[kept, REFLECTED] = grown[a] + 1 + grown[c]
                elif means:
                    values[kept, WEIGHT] += values[gone, WEIGHT]
                else:
                    values[kept, WEIGHT] = max(values[kept, WEIGHT], values[gone, WEIGHT])
                if not halves:
                    values[kept, COUNT] += values[gone, COUNT]
                tie[kept] = max(tie[kept], tie[gone])
                slots[slot, 1] = kept
            if alive[moved]:
                links[moved, FOLLOWING + side], head[a] = head[a], at
                entries[a] += 1
        if halves:
            grown[a] += 1
        if 4 * filled > 3 * capacity:  # one merge fills a quarter at most, so there is always an empty slot
            filled = fill_slots(slots, links, alive)
        if 2 * dead > used:  # cheaper than popping the dead edges one by one
            used, dead = drop_dead(heap, heap_key, used, alive), 0
            make_heap(heap, heap_key, used, pushed)
    return found
