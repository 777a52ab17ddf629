"""Distances that were given, square or condensed, into the triangle that `triangle.py` describes."""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.vectors.triangle import row_start

LARGEST = np.finfo(np.float64).max
BLOCK = 64  # rows and columns compared at a time: one side is read across its rows


@inlined
def _is_bad(value):
    """Whether a value is not a distance; branchless, so that it compiles to SIMD."""
    return np.int64(1) - (np.int64(value >= 0.0) & np.int64(value <= LARGEST))


@kernel
def take_upper(rows, out) -> int:
    """Write the distances right of the diagonal to `out`, and return how many values are not valid there or on it.

    `rows` begins with the first column on the diagonal; `out` holds exactly these rows of the triangle.
    """
    height, width = rows.shape
    bad = np.int64(0)
    for row in range(height):
        slot = width - 1 - row
        at = row_start(slot) - row_start(width - height)
        bad += rows[row, row] != 0.0
        for t in range(slot):
            value = rows[row, width - 1 - t]
            out[at + t] = value
            bad += _is_bad(value)
    return int(bad)


@kernel
def compare_lower(rows, corner, nodes: int, triangle, tolerance: float):
    """Compare the distances left of the diagonal with those of the triangle.

    `corner` is the row and column of the first value. Return how many values are not valid, the largest difference, how
    many pairs differ by more than the tolerance, and the first of these, the smaller node first (`nodes` if none does).
    """
    first_row, first_column = corner
    height, width = rows.shape
    bad, unequal, largest = np.int64(0), np.int64(0), 0.0
    first = nodes, nodes
    for start in range(0, width, BLOCK):
        for begin in range(0, height, BLOCK):
            for column in range(start, min(start + BLOCK, width)):
                j = first_column + column
                at = row_start(nodes - 1 - j) + nodes - 1
                for row in range(max(begin, j + 1 - first_row), min(begin + BLOCK, height)):
                    i = first_row + row
                    value = rows[row, column]
                    bad += _is_bad(value)
                    apart = abs(value - triangle[at - i])
                    largest = max(largest, apart)
                    if apart > tolerance:
                        unequal += 1
                        if j < first[0] or (j == first[0] and i < first[1]):
                            first = j, i
    return bad, largest, unequal, first


@kernel
def take_reversed(values, out) -> int:
    """Write values from the last to the first, and return how many are not valid distances."""
    bad = np.int64(0)
    for t in range(len(values)):
        value = values[len(values) - 1 - t]
        out[t] = value
        bad += _is_bad(value)
    return int(bad)
