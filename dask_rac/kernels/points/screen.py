"""From float32 products to the few clusters that may be near enough.

With x the rows of a screen, in units in which the largest value is about 1, W is at most a limit T if and only if

    ward       |x_B|^2 / 2 - x_A . x_B - T/4 1/b   <=  T/4 1/a - |x_A|^2 / 2
    squares    (|x_B|^2 + v_B) / 2 - x_A . x_B     <=  (T - |x_A|^2 - v_A) / 2
    cosines    the same with 2 T
    products   - x_A . x_B                         <=  T

that is `half[B] - product - factor[A] * inverse[B] <= limit[A]`. All this is rounded. A product of d terms is off by
at most (d + 2) u |x_A| |x_B|, with u = 2^-24, as its terms are rounded as well; the other operations by a few u times
what they add. As |x_A| |x_B| is at most (|x_A|^2 + |x_B|^2) / 2, one half of the error is taken off `half[B]`, the
other is added to `limit[A]`: whoever is within the limit passes, and distant outliers make nobody else's error larger.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.points.weights import COSINES, PRODUCTS, WARD

UNIT = 2.0**-24
TINY = 2.0**-120  # more than all that is lost to underflow, where the largest value is about 1


@inlined
def round_up(x):
    """Return a float32 that is no less."""
    return np.nextafter(np.float32(x), np.float32(np.inf))


@kernel
def show(code, centroids, frame, screen, i) -> None:
    """Write the row of a slot as products see it."""
    mean, size, spread = centroids
    centre, scale = frame.centre, frame.scale
    own, row = mean[i], screen.row[i]
    square = 0.0
    for k in range(len(row)):
        x = (own[k] - centre[k]) * scale
        row[k] = x
        square += x * x
    screen.square[i] = square
    half = 0.0 if code == PRODUCTS else 0.5 * square
    half += 0.0 if code in (PRODUCTS, WARD) else 0.5 * scale * scale * spread[i]
    half -= 0.5 * frame.slack * square + 8.0 * UNIT * half
    screen.half[i] = np.nextafter(np.float32(half), np.float32(-np.inf))
    screen.inverse[i] = round_up(1.0 / size[i]) if code == WARD else 0.0


@kernel
def show_rows(code, centroids, frame, screen) -> None:
    """Write the rows of all slots."""
    for i in range(len(centroids.size)):
        show(code, centroids, frame, screen, i)


@kernel
def limits_of(state, i, weight):
    """Return the factor and the limit of a slot for which no W above `weight` matters."""
    code, (_, size, spread), frame, screen, _, _ = state
    if weight == np.inf:
        return np.float32(0.0), np.float32(np.inf)
    unit = frame.scale * frame.scale
    square = screen.square[i]
    most, more = weight * unit, 0.5 * frame.slack * square + TINY
    if code == PRODUCTS:
        return np.float32(0.0), round_up(most + more + 8.0 * UNIT * abs(most))
    if code == WARD:
        factor = 0.25 * most * (1.0 + 16.0 * UNIT)
        return round_up(factor), round_up(factor / size[i] - 0.5 * square + more + 4.0 * UNIT * square)
    most = 2.0 * most if code == COSINES else most
    half = 0.5 * (square + unit * spread[i])
    return np.float32(0.0), round_up(0.5 * most * (1.0 + 8.0 * UNIT) - half + more + 4.0 * UNIT * half)


@kernel
def range_of(state, i, j, product):
    """Return what W of two slots is at least and at most, as their product shows."""
    code, (_, size, spread), frame, screen, _, _ = state
    unit = frame.scale * frame.scale
    both = screen.square[i] + screen.square[j]
    off = frame.slack * both + 2.0 * TINY
    if code == PRODUCTS:
        return -(product + 0.5 * off) / unit, -(product - 0.5 * off) / unit
    square = both - 2.0 * np.float64(product)
    low, high = max(0.0, square - off) / unit, (square + off) / unit
    if code == WARD:
        both = 2.0 * (size[i] * size[j]) / (size[i] + size[j])
        return both * low, both * high
    both = spread[i] + spread[j]
    both -= 2.0 * UNIT * both
    off = 4.0 * UNIT * both
    return (0.5 * (low + both), 0.5 * (high + both + off)) if code == COSINES else (low + both, high + both + off)


@kernel
def any_near(product, half, inverse, factor, limit):
    """Whether any of some products may be within the limit; branchless, so that it compiles to SIMD."""
    near = np.int32(0)
    for c in range(len(product)):
        near += np.int32(half[c] - product[c] - factor * inverse[c] <= limit)
    return near > 0
