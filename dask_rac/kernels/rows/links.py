"""Edges as the finisher holds them: a record for each, and a table that finds the edge of a pair.

Everything about an edge is in one record, so that an edge costs one cache miss: its weight, its two ends (the smaller
first, -1 once it is dead), its count, its tie. By weighted linkage nothing is counted but the merges of both ends that
the weight reflects. A record with 4-byte ids has 32 bytes, 8 of them unused, so that none lies in two cache lines.

A slot of the table holds an edge and some bits of the hash of its pair: most slots are told apart without a look at
the records. A slot is never emptied. An edge that another cluster has taken over is in two slots, and its ends say
which of them counts; the table is filled again when it is three quarters full.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.arrays import Ids
from dask_rac.kernels.jit import inlined, kernel, prefetch_write

RECORD, LINE = 32, 64  # bytes
EDGE_BITS = 40  # of a slot; the others but the sign hold bits of the hash
HASH_STEPS = 53  # bits of a hash that choose a slot
AHEAD = 16  # edges for which memory is prefetched


class Links(NamedTuple):
    """All edges, and the table of their pairs."""

    values: NDArray[np.float64]  # the same memory as `fields`; column 0 is the weight
    fields: Ids  # the last four columns are the two ends, the count and the tie
    slots: NDArray[np.int64]


def empty_links(edges: int, ids: np.dtype[np.signedinteger]) -> Links:
    """Return room for edges, with an empty table."""
    columns = max(5, RECORD // ids.itemsize)
    room = np.empty(edges * columns + LINE // ids.itemsize, ids)
    first = -room.ctypes.data % LINE // ids.itemsize
    fields = room[first : first + edges * columns].reshape(edges, columns)
    return Links(fields.view(np.float64), fields, np.empty(2 * edges + 16, np.int64))


@kernel
def list_edges(rows, links, scale, counted):
    """Write every edge of `rows` once, in order of its two ends, whatever the order within rows."""
    start, stop, neighbour, weight, count, tie = rows
    values, fields, _ = links
    first = fields.shape[1] - 4
    place = np.zeros(len(start) + 1, np.int64)
    for u in range(len(start)):
        later = 0
        for e in range(start[u], stop[u]):
            later += neighbour[e] > u
        place[u + 1] = place[u] + later
    for u in range(len(start)):
        for e in range(start[u], stop[u]):
            v = neighbour[e]
            if v < u:
                at = place[v]
                place[v] += 1
                fields[at, first], fields[at, first + 1], fields[at, first + 3] = v, u, tie[e]
                fields[at, first + 2] = (count[e] if len(count) > 0 else 1) if counted else 0
                values[at, 0] = scale * weight[e]


@inlined
def pair_hash(a, b):
    """Return the hash of an unordered pair of positions: its upper bits choose the slot."""
    pair = np.uint64(min(a, b)) << np.uint64(32) | np.uint64(max(a, b))
    return np.int64((pair * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - HASH_STEPS))


@inlined
def slot_of(hashed, slots):
    """Return the slot at which the search for a pair starts."""
    return np.int64(np.float64(hashed) * (np.float64(slots) / 2.0**HASH_STEPS))


@inlined
def entry_of(edge, hashed):
    """Return what the slot of an edge holds."""
    return (hashed & ((1 << (63 - EDGE_BITS)) - 1)) << EDGE_BITS | edge


@inlined
def edge_of(entry):
    """Return the edge that a slot holds."""
    return entry & ((1 << EDGE_BITS) - 1)


@inlined
def find_place(slots, fields, a, b):
    """Return the slot with the edge of a pair, -1 if there is none."""
    first = fields.shape[1] - 4
    hashed = pair_hash(a, b)
    lo, hi = min(a, b), max(a, b)
    wanted = entry_of(0, hashed) >> EDGE_BITS
    slot, found = slot_of(hashed, len(slots)), np.int64(-1)
    while slots[slot] >= 0:
        if slots[slot] >> EDGE_BITS == wanted:
            e = edge_of(slots[slot])
            if fields[e, first] == lo and fields[e, first + 1] == hi:
                found = slot
                break
        slot = slot + 1 if slot + 1 < len(slots) else 0
    return found


@inlined
def put_edge(slots, a, b, edge):
    """Enter an edge into the next free slot of its pair."""
    hashed = pair_hash(a, b)
    slot = slot_of(hashed, len(slots))
    while slots[slot] >= 0:
        slot = slot + 1 if slot + 1 < len(slots) else 0
    slots[slot] = entry_of(edge, hashed)


@inlined
def replace_edge(slots, place, edge):
    """Let a slot hold another edge of the same pair.

    In a slot of its own it would come after all edges that the pair has had: two hubs may fold one for each leaf.
    """
    slots[place] = slots[place] & ~np.int64((1 << EDGE_BITS) - 1) | edge


@kernel
def fill_slots(slots, fields):
    """Fill the table with the live edges; return their number."""
    first, filled = fields.shape[1] - 4, 0
    slots[:] = -1
    for e in range(len(fields)):
        if e + AHEAD < len(fields):
            later = e + AHEAD
            prefetch_write(slots, slot_of(pair_hash(fields[later, first], fields[later, first + 1]), len(slots)))
        if fields[e, first] >= 0:
            put_edge(slots, fields[e, first], fields[e, first + 1], e)
            filled += 1
    return filled
