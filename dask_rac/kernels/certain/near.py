"""The near pairs of clusters among the entries of some rows of a triangle."""

import numpy as np

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.matrix.weights import MEAN


@kernel
def take_near_clusters(code, entries, size, rows, radius):
    """Return the slots and the entries of the pairs whose W is at most `radius`; `size` is that of each slot."""
    count = 0
    for taking in range(2):
        slots, others = np.empty(count * taking, np.int64), np.empty(count * taking, np.int64)
        taken = np.empty(count * taking, np.float64)
        at = found = 0
        for s in range(rows[0], rows[1]):
            line = entries[at : at + s]
            for t in range(s):
                near = (line[t] / (size[s] * size[t]) if code == MEAN else line[t]) <= radius
                if taking and near:
                    slots[found], others[found], taken[found] = s, t, line[t]
                found += near
            at += s
        count = found
    return slots, others, taken
