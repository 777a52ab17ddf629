"""Equal vectors: a hash for each, and whether two have the same values.

Values are taken as they are compared: as float64, divided by the length of the vector for cosines; minus zero is zero,
and so is a value that a sparse vector does not have.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel

LANES = 4  # hashes of every fourth value: a single one would be bound by the latency of multiplications


@inlined
def _mixed(state, bits):
    """Return 64 bits that depend on all bits before and on these."""
    state = (state ^ bits) * np.uint64(0x9E3779B97F4A7C15)
    return state ^ (state >> np.uint64(29))


@kernel
def hash_dense(vectors, lengths, hashes) -> None:
    """Write a hash of each vector; `lengths` are the norms by which they are divided for cosines, else empty."""
    dimensions = vectors.shape[1]
    whole = dimensions - dimensions % LANES
    values = np.empty(dimensions, np.float64)
    bits = values.view(np.uint64)
    for row in range(len(vectors)):
        for k in range(dimensions):
            x = np.float64(vectors[row, k])
            values[k] = (x / lengths[row] if len(lengths) else x) + 0.0
        a, b, c, d = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
        for k in range(0, whole, LANES):
            a, b = _mixed(a, bits[k]), _mixed(b, bits[k + 1])
            c, d = _mixed(c, bits[k + 2]), _mixed(d, bits[k + 3])
        for k in range(whole, dimensions):
            a = _mixed(a, bits[k])
        hashes[row] = _mixed(_mixed(_mixed(a, b), c), d)


@kernel
def hash_sparse(entries, lengths, hashes) -> None:
    """Write a hash of each sparse vector; `entries` are where each begins, dimensions and values."""
    start, term, value = entries
    room = np.empty(1, np.float64)
    bits = room.view(np.uint64)
    for row in range(len(start) - 1):
        state = np.uint64(1)
        for e in range(start[row], start[row + 1]):
            if value[e] != 0:
                x = np.float64(value[e])
                room[0] = x / lengths[row] if len(lengths) else x
                state = _mixed(_mixed(state, np.uint64(term[e])), bits[0])
        hashes[row] = state


@kernel
def same_dense(vectors, lengths, first, same) -> None:
    """Tell of each vector whether it equals the one in the place `first`."""
    for row in range(len(vectors)):
        other = first[row]
        equal = True
        for k in range(vectors.shape[1]):
            x, y = np.float64(vectors[row, k]), np.float64(vectors[other, k])
            if len(lengths):
                x, y = x / lengths[row], y / lengths[other]
            if x != y:
                equal = False
                break
        same[row] = equal


@kernel
def same_sparse(entries, lengths, first, same) -> None:
    """Tell of each sparse vector whether it equals the one in the place `first`."""
    start, term, value = entries
    for row in range(len(start) - 1):
        other = first[row]
        e, f, equal = start[row], start[other], True
        while equal:
            while e < start[row + 1] and value[e] == 0:
                e += 1
            while f < start[other + 1] and value[f] == 0:
                f += 1
            if e == start[row + 1] or f == start[other + 1]:
                equal = e == start[row + 1] and f == start[other + 1]
                break
            x, y = np.float64(value[e]), np.float64(value[f])
            if len(lengths):
                x, y = x / lengths[row], y / lengths[other]
            equal = term[e] == term[f] and x == y
            e += 1
            f += 1
        same[row] = equal
