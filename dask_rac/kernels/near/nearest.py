"""The nearest of a cluster, as far as the known node pairs decide it.

The key of an entry is that of its pair if all node pairs are known, and otherwise not above it: W is at least what the
value gives, the tie is at least that of the known node pairs, and the rest of the key does not depend on weights. So
the entry with the smallest key of a row is the nearest cluster for certain, if it is exact and below the radius.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.matrix.weights import MEAN
from dask_rac.kernels.order import breaks_tie


@inlined
def slot_of(neighbour):
    """Return the slot of an entry, exact or not."""
    return neighbour if neighbour >= 0 else ~neighbour


@inlined
def height_of(code, value, a, b):
    """Return W of a value, or the least that W can be; `a` and `b` are the sizes of the two clusters."""
    return value / (a * b) if code == MEAN else value


@kernel
def find_nearest(code, arena, rows, field, i, nearest) -> None:
    """Set the nearest of a slot; it has none unless that is certain."""
    (neighbour, value, tie), (ids, size, radius, _) = arena, field
    first, last = rows.start[i], rows.start[i] + rows.length[i]
    a, best, at = size[i], np.inf, -1
    for e in range(first, last):
        s = slot_of(neighbour[e])
        w = height_of(code, value[e], a, size[s])
        if w < best:
            best, at = w, e
        elif w > best or at < 0:
            continue
        elif tie[e] < tie[at] or (tie[e] == tie[at] and breaks_tie(ids, size, i, s, slot_of(neighbour[at]))):
            at = e
    certain = at >= 0 and neighbour[at] >= 0 and best < radius[i]
    nearest.slot[i] = neighbour[at] if certain else -1
    nearest.seen[i] = slot_of(neighbour[at]) if at >= 0 else -1
    nearest.height[i] = best


@kernel
def find_all(code, arena, rows, field, nearest, span) -> None:
    """Set the nearest of a range of slots."""
    for i in range(span[0], span[1]):
        find_nearest(code, arena, rows, field, i, nearest)
