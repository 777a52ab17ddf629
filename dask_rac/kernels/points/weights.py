"""W from centroids, and what it can become when clusters merge.

With a, b, z the sizes, c the centroids and v the mean squared distances to them:

    ward                 2 a b / (a + b) |c_A - c_B|^2
    squared distances    |c_A - c_B|^2 + v_A + v_B, the mean over all pairs of nodes
    cosines              half of that, as vectors have length 1
    inner products       - c_A . c_B

Sums of squares have no terms that cancel, and both clusters get the same bits.

If A and B merge at W = h, everybody else Z has

    ward                 W(AB, Z) = ((a + z) W(A, Z) + (b + z) W(B, Z) - z h) / (a + b + z)
    the others           W(AB, Z) = (a W(A, Z) + b W(B, Z)) / (a + b)

so that bounds of W(A, Z) and W(B, Z) give one of W(AB, Z): `merged_bound`.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.vectors.pairs import dense_inner, dense_square

WARD, SQUARES, COSINES, PRODUCTS = range(4)

SURE = 2.0**-40  # fraction of W that covers the rounding of sums


@kernel
def weigh(code, centroids, i, j):
    """Return W of two slots."""
    mean, size, spread = centroids
    if code == PRODUCTS:
        return -dense_inner(mean[i], mean[j])
    square = dense_square(mean[i], mean[j])
    if code == WARD:
        return 2.0 * (size[i] * size[j]) / (size[i] + size[j]) * square
    square += spread[i] + spread[j]
    return 0.5 * square if code == COSINES else square


@inlined
def merged_bound(code, first, second, height, least):
    """Return the bound of a merged cluster; each part is given by its size and its bound, `least` is a size.

    For ward nobody else has fewer nodes than `least`, and bounds below the height are raised to it: W is no less.
    """
    a, low = first
    b, high = second
    if code != WARD:
        return (a * low + b * high) / (a + b)
    low, high = max(low, height), max(high, height)
    return ((a * low + b * high) + least * ((low - height) + high)) / (a + b + least)


@inlined
def floor_of(code, bound, size, frame, rounding):
    """Return what W, rounded, cannot be below if it is at least `bound` without rounding.

    A mean may be off by `rounding` radii for each of two clusters: distances may be less by twice that.
    """
    if bound == np.inf:
        return bound
    off = 2.0 * rounding * frame.radius
    if code == PRODUCTS:
        return bound - off * frame.radius
    most = 2.0 * size if code == WARD else 1.0  # W over the squared distance
    return bound - (2.0 * off * np.sqrt(most * max(bound, 0.0)) + most * off * off) - SURE * abs(bound)
