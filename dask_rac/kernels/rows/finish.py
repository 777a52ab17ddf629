"""The finisher: sequential exact HAC on what the rounds leave.

1. From any cluster to its nearest, from there to the nearest of that, and so on: by the order of `order.py` each step
   is to a smaller key, so the walk ends at two clusters that are each other's nearest. They merge, whatever else may
   be nearer elsewhere: that is the theorem of the rounds. The walk goes on from where it came from, as a merge
   elsewhere brings nobody nearer. So a merge takes three searches at most, and there is no heap of all edges.
2. The cluster with fewer edges moves into the other one, edge by edge: O(E log E) moves in all.
3. Of two parallel edges the one stays that the third cluster has seen nearer, so that the bounds of its row hold.

By weighted linkage a merge with a cluster that lacks an edge changes W as well, to the mean with `fill`. That would
mean every edge of the larger cluster, so an edge keeps the number of merges of its two ends that its weight
reflects, and catches up when it is used.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel, prefetch_read
from dask_rac.kernels.order import breaks_tie
from dask_rac.kernels.rows.hubs import cut_row, search_hub, update_row
from dask_rac.kernels.rows.links import edge_of, fill_slots, find_place, pair_hash, put_edge, replace_edge, slot_of
from dask_rac.kernels.rows.lists import lay_rows, make_room, scan_row
from dask_rac.kernels.rows.seen import (
    CHUNKS,
    DEGREE,
    GROWN,
    LENGTH,
    SCALED,
    SIZE,
    START,
    catch_up,
    drop_edge,
    look,
    never_again,
    other_end,
    seen_from,
    weigh,
)
from dask_rac.kernels.rule import HALF_FILLED, is_mean

RECORD, SLOT, PARALLEL = 24, 16, 8  # how many edges ahead memory is prefetched: the edge, its slot, what the slot holds


@inlined
def name_ends(fields, e, a, b):
    """Let an edge be between two clusters."""
    first = fields.shape[1] - 4
    fields[e, first], fields[e, first + 1] = min(a, b), max(a, b)


@inlined
def fold_edge(values, fields, rule, kept, gone):
    """Fold the second of two parallel edges into the first one."""
    first = fields.shape[1] - 4
    if rule.code == HALF_FILLED:
        values[kept, 0] = (values[kept, 0] + values[gone, 0]) / 2
    else:
        if is_mean(rule.code):
            values[kept, 0] += values[gone, 0]
        else:
            values[kept, 0] = max(values[kept, 0], values[gone, 0])
        fields[kept, first + 2] += fields[gone, first + 2]
    fields[kept, first + 3] = max(fields[kept, first + 3], fields[gone, first + 3])
    fields[gone, first], fields[gone, first + 1] = -1, -1


@kernel
def move_edges(a, b, lists, links, rule):
    """Move the edges of cluster `b` to `a`, before their sizes change; return the number of slots filled."""
    _, groups, edges, _, _ = lists
    values, fields, slots = links
    flat, width = fields.reshape(fields.size), fields.shape[1]
    first, halves = width - 4, rule.code == HALF_FILLED
    at, filled, hub = groups[a, START] + groups[a, LENGTH], 0, groups[a, CHUNKS] > 0
    both = groups[a, SIZE] + groups[b, SIZE]
    stop = groups[b, START] + groups[b, LENGTH]
    for i in range(groups[b, START], stop):
        if i + RECORD < stop and edges[i + RECORD] >= 0:
            prefetch_read(flat, np.int64(edges[i + RECORD]) * width)
        if i + SLOT < stop and edges[i + SLOT] >= 0:
            c = other_end(fields, edges[i + SLOT], b)
            if c >= 0:
                prefetch_read(slots, slot_of(pair_hash(a, c), len(slots)))
        if i + PARALLEL < stop and edges[i + PARALLEL] >= 0:
            c = other_end(fields, edges[i + PARALLEL], b)
            if c >= 0:
                entry = slots[slot_of(pair_hash(a, c), len(slots))]
                if entry >= 0:
                    prefetch_read(flat, edge_of(entry) * width)
        e = np.int64(edges[i])
        if e < 0:
            continue
        c = other_end(fields, e, b)
        if c < 0:
            continue
        if halves:
            catch_up(values, fields, e, groups[b, GROWN] + groups[c, GROWN], rule.fill)
        place = find_place(slots, fields, a, c)
        if place < 0:
            if never_again(rule.code):
                drop_edge(fields, e, groups)
                continue
            name_ends(fields, e, a, c)
            if halves:  # what is left to reflect is the mean with `a`, which has no edge
                fields[e, first + 2] = groups[a, GROWN] + groups[c, GROWN]
            put_edge(slots, a, c, e)
            filled += 1
            groups[a, DEGREE] += 1
            edges[at] = e
            at += 1
            continue
        other = edge_of(slots[place])
        kept, gone = other, e
        if groups[c, CHUNKS] > 0:
            near, far = look(c, values, fields, other, groups, rule), look(c, values, fields, e, groups, rule)
            if far < near or (far == near and fields[e, first + 3] < fields[other, first + 3]):
                kept, gone = e, other
        seen = look(a, values, fields, other, groups, rule) if hub else 0.0
        if halves:
            catch_up(values, fields, other, groups[a, GROWN] + groups[c, GROWN], rule.fill)
            fields[kept, first + 2] = groups[a, GROWN] + 1 + groups[c, GROWN]
        fold_edge(values, fields, rule, kept, gone)
        groups[c, DEGREE] -= 1
        groups[b, DEGREE] -= 1
        if kept == e:
            name_ends(fields, e, a, c)
            replace_edge(slots, place, e)
        again = kept == e
        if hub and not again:
            shift = groups[c, GROWN] + groups[a, SCALED]
            again = seen_from(rule, values[kept, 0], fields[kept, first + 2], both, groups[c, SIZE], shift) < seen
        if again:
            edges[at] = kept
            at += 1
    groups[a, LENGTH] = at - groups[a, START]
    groups[b, LENGTH], groups[b, CHUNKS] = 0, 0
    return filled


@inlined
def is_nearer(e, than, x, lists, links, rule):
    """Whether one edge of a cluster comes before another one."""
    ids, groups, _, _, _ = lists
    values, fields, _ = links
    last, size = fields.shape[1] - 1, groups[:, SIZE]
    w, other = weigh(values, fields, e, groups, rule), weigh(values, fields, than, groups, rule)
    c, d = other_end(fields, e, x), other_end(fields, than, x)
    tie, its = fields[e, last], fields[than, last]
    return w < other or (w == other and (tie < its or (tie == its and breaks_tie(ids, size, x, c, d))))


@kernel
def count_degrees(size, fields):
    """Return the columns of all clusters, of these sizes, with the number of their edges."""
    groups = np.zeros((8, len(size)), np.int64).T
    groups[:, SIZE] = size
    first = fields.shape[1] - 4
    for e in range(len(fields)):
        groups[fields[e, first], DEGREE] += 1
        groups[fields[e, first + 1], DEGREE] += 1
    return groups


@kernel
def finish(laid, filled, links, rule, merges):
    """Merge until no edge is left within the ceiling; return the number of merges.

    `laid` is what `lay_rows` made of `links`, which `list_edges` wrote, and `filled` what `fill_slots` returned. All of
    it is overwritten.
    """
    left, right, height, merged_size = merges
    values, fields, slots = links
    lists, end = laid
    ids, groups = lists.ids, lists.groups
    n = len(ids)
    walk, through = np.empty(n + 1, ids.dtype), np.empty(n + 1, fields.dtype)  # clusters, the edges between them
    found = 0
    for begin in range(n):
        steps = 0
        while groups[begin, DEGREE] > 0 or steps > 0:
            if steps == 0:
                walk[0], through[0], steps = begin, -1, 1
            x, came = np.int64(walk[steps - 1]), np.int64(through[steps - 1])
            if groups[x, CHUNKS] == 0:
                e, w = scan_row(x, lists, links, rule)
            else:
                if groups[x, CHUNKS] < 0:
                    cut_row(x, lists, links, rule)
                e, w = search_hub(x, lists, links, rule)
            near = e >= 0 and w <= rule.ceiling and w < np.inf
            if came < 0 and not near:
                break
            if came < 0 or (near and e != came and is_nearer(e, came, x, lists, links, rule)):
                walk[steps], through[steps] = other_end(fields, e, x), e
                steps += 1
                continue
            a, b = x, np.int64(walk[steps - 2])
            steps -= 2
            if groups[a, DEGREE] < groups[b, DEGREE] or (groups[a, DEGREE] == groups[b, DEGREE] and a > b):
                a, b = b, a
            left[found], right[found] = min(ids[a], ids[b]), max(ids[a], ids[b])
            height[found], merged_size[found] = (
                weigh(values, fields, came, groups, rule),
                groups[a, SIZE] + groups[b, SIZE],
            )
            drop_edge(fields, came, groups)
            more = groups[b, DEGREE]
            if more > 0:
                if 4 * (filled + more) > 3 * len(slots):
                    filled = fill_slots(slots, fields)
                after = make_room(a, more, end, lists, links)
                if after < 0:
                    needed = groups[a, DEGREE] + more
                    lists, end = lay_rows(ids, groups, fields, needed, lists.edges, lists.bounds)
                    after = make_room(a, more, end, lists, links)
                end = after
            before = groups[a, LENGTH]
            filled += move_edges(a, b, lists, links, rule) if more > 0 else 0
            ids[a], groups[a, SIZE] = left[found], merged_size[found]
            groups[b, DEGREE] = 0
            groups[a, GROWN] += rule.code == HALF_FILLED
            found += 1
            if groups[a, CHUNKS] > 0:
                update_row(a, before, lists, links, rule)
    return found
