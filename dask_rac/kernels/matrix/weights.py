"""What an entry of the triangle is for each linkage, and how it becomes W.

1. An entry is a function of the two clusters: the sum of the distances between them (average), of the squared distances
   (ward), the largest (complete), or the weighted mean (weighted). It does not depend on the order of merges, but for
   the last bits of sums.
2. Each pair has one entry, seen from its upper slot, so both clusters get the same bits.
3. The entry of a dead slot is infinite in all rows above it, and so is its W: scans need not know which slots live.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel

MEAN, LARGEST, WARD, WEIGHTED = range(4)

LOWER_BITS = np.int64(2**63 - 1)


@inlined
def combine(code, x, y):
    """Return the entry of a third cluster with the union of two; for weighted linkage it is yet to be halved."""
    return max(x, y) if code == LARGEST else x + y


@inlined
def weigh(code, entry, upper, lower):
    """Return W of two clusters; each is given by its size and its inner sum over its size, the upper slot first."""
    if code == MEAN:
        return entry / (upper[0] * lower[0])
    if code == WARD:
        return 2.0 * ((entry - upper[1] * lower[0]) - lower[1] * upper[0]) / (upper[0] + lower[0])
    return entry


@kernel
def weigh_block(code, entries, size, inner, upper, out) -> None:
    """Write W of the cluster `upper` with several lower slots; loops this plain are vectorised."""
    a, u = upper
    if code == MEAN:
        for k in range(len(entries)):
            out[k] = entries[k] / (a * size[k])
    elif code == WARD:
        for k in range(len(entries)):
            out[k] = 2.0 * ((entries[k] - u * size[k]) - inner[k] * a) / (a + size[k])
    else:
        for k in range(len(entries)):
            out[k] = entries[k]


@kernel
def least(weights):
    """Return the least of some weights.

    A minimum of floats is not vectorised, as it would have to respect NaN; that of the integers of the same order is.
    """
    bits = weights.view(np.int64)
    lowest = LOWER_BITS
    for k in range(len(bits)):
        ordered = bits[k] ^ ((bits[k] >> 63) & LOWER_BITS)
        lowest = ordered if ordered < lowest else lowest
    room = np.empty(1, np.int64)
    room[0] = lowest ^ ((lowest >> 63) & LOWER_BITS)
    return room.view(np.float64)[0]


@kernel
def multiply_sizes(size, rows, entries) -> None:
    """Make sums over all pairs of nodes of the weights of slots with equal nodes; `entries` are those of some rows."""
    at = 0
    for s in range(rows[0], rows[1]):
        for t in range(s):
            entries[at] *= size[s] * size[t]
            at += 1
