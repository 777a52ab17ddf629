"""The small hash table in which a row is gathered: open addressing, emptied after each row."""

import numpy as np

from dask_rac.kernels.jit import inlined

CACHED = 2**18  # slots


@inlined
def table_size(entries):
    """Return the number of slots for a row of `entries` entries: a power of two, with few collisions.

    A table beyond the caches is missed wherever one looks, so that more slots would only take memory.
    """
    slots = 16
    while slots < min(4 * entries, max(2 * entries, CACHED)):
        slots *= 2
    return slots


@inlined
def first_slot(key, mask):
    """Return the slot at which the search for a key starts."""
    return np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask


@inlined
def find_slot(slots, a, b):
    """Return the slot of a pair in a table of pairs, or the empty one where it would go; and the pair as one number."""
    pair = np.int64(min(a, b)) << 32 | np.int64(max(a, b))
    mask = len(slots) - 1
    slot = first_slot(pair, mask)
    while slots[slot, 0] != pair and slots[slot, 0] != -1:
        slot = (slot + 1) & mask
    return slot, pair
