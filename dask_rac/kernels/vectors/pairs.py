"""The weight of two vectors: sums in float64, in the same order from both ends, so that both get the same bits."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.jit import inlined, kernel

EUCLIDEAN, SQUARED, COSINE, INNER, MANHATTAN = range(5)

CANCELS = 0.25  # share of the squared norms below which a squared distance cannot be computed from the product


class Points(NamedTuple):
    """Vectors, dense or sparse; the arrays of the other form are empty. For cosines they have length 1."""

    dense: NDArray[np.floating]
    start: NDArray[np.int64]
    """Where the entries of each sparse vector begin, and the end."""
    term: NDArray[np.int32]
    """The dimension of each entry, ascending within a vector."""
    value: NDArray[np.float64]
    square: NDArray[np.float64]
    """The squared norm of each sparse vector."""


@kernel
def weigh(own: Points, i: int, others: Points, j: int, metric: int):
    """Return the weight of a pair, smaller for nearer ones: similarities are negated.

    1 - cosine is computed as half the squared distance of vectors of length 1: nothing cancels, and equal vectors get
    exactly 0.
    """
    sparse = len(own.start) > 1
    if metric == INNER:
        return -(_sparse_inner(own, i, others, j) if sparse else dense_inner(own.dense[i], others.dense[j]))
    if metric == MANHATTAN:
        return _dense_manhattan(own.dense[i], others.dense[j])
    if sparse:
        return of_square(_from_product(own, i, others, j, _sparse_inner(own, i, others, j)), metric)
    return of_square(dense_square(own.dense[i], others.dense[j]), metric)


@inlined
def of_square(square, metric):
    """Convert a squared distance to the weight."""
    if metric == COSINE:
        return 0.5 * square
    return np.sqrt(square) if metric == EUCLIDEAN else square


@kernel
def weigh_pairs(own: Points, others: Points, pairs, metric: int, weight) -> None:
    """Write the weights of pairs of positions."""
    rows, places = pairs
    for e in range(len(rows)):
        weight[e] = weigh(own, rows[e], others, places[e], metric)


@kernel
def weigh_later(own: Points, others: Points, ids, begin, metric: int, weight) -> None:
    """Write the weights of vectors with all others that come after each of them.

    `ids` are the ids of the first vector, of the first other vector, and one past the last; `begin` is where the
    weights of each vector begin.
    """
    first, start, stop = ids
    line = np.zeros(1 + max(last_term(own), last_term(others)), np.float64)
    for row in range(len(begin)):
        i = first + row
        if len(own.start) == 1:
            for j in range(max(start, i + 1), stop):
                weight[begin[row] + j - i - 1] = weigh(own, row, others, j - start, metric)
            continue
        for e in range(own.start[row], own.start[row + 1]):
            line[own.term[e]] = own.value[e]
        low = max(start, i + 1)
        found = weight[begin[row] + low - i - 1 : begin[row] + max(low, stop) - i - 1]
        for c in range(len(found)):
            found[c] = line_inner(line, others, low - start + c)
        of_products(own, row, others, (low - start, 1), metric, found)
        for e in range(own.start[row], own.start[row + 1]):
            line[own.term[e]] = 0.0


@kernel
def last_term(points: Points):
    """Return the largest dimension of an entry, -1 if there are none."""
    last = -1
    for e in range(len(points.term)):
        last = max(last, points.term[e])
    return last


@kernel
def line_inner(line, others: Points, j: int):
    """Return the inner product of an expanded vector and a sparse one; zeros add nothing, so the bits are the same."""
    total = 0.0
    for f in range(others.start[j], others.start[j + 1]):
        total += line[others.term[f]] * others.value[f]
    return total


@kernel
def dense_square(x, y):
    """Return the squared distance; four sums, as a single one would be bound by the latency of additions."""
    a = b = c = d = 0.0
    n = len(x)
    whole = n - n % 4
    for t in range(0, whole, 4):
        p = np.float64(x[t]) - np.float64(y[t])
        q = np.float64(x[t + 1]) - np.float64(y[t + 1])
        r = np.float64(x[t + 2]) - np.float64(y[t + 2])
        s = np.float64(x[t + 3]) - np.float64(y[t + 3])
        a += p * p
        b += q * q
        c += r * r
        d += s * s
    for t in range(whole, n):
        p = np.float64(x[t]) - np.float64(y[t])
        a += p * p
    return (a + b) + (c + d)


@kernel
def dense_inner(x, y):
    """Return the inner product."""
    a = b = c = d = 0.0
    n = len(x)
    whole = n - n % 4
    for t in range(0, whole, 4):
        a += np.float64(x[t]) * np.float64(y[t])
        b += np.float64(x[t + 1]) * np.float64(y[t + 1])
        c += np.float64(x[t + 2]) * np.float64(y[t + 2])
        d += np.float64(x[t + 3]) * np.float64(y[t + 3])
    for t in range(whole, n):
        a += np.float64(x[t]) * np.float64(y[t])
    return (a + b) + (c + d)


@kernel
def _dense_manhattan(x, y):
    """Return the sum of absolute differences."""
    a = b = c = d = 0.0
    n = len(x)
    whole = n - n % 4
    for t in range(0, whole, 4):
        a += abs(np.float64(x[t]) - np.float64(y[t]))
        b += abs(np.float64(x[t + 1]) - np.float64(y[t + 1]))
        c += abs(np.float64(x[t + 2]) - np.float64(y[t + 2]))
        d += abs(np.float64(x[t + 3]) - np.float64(y[t + 3]))
    for t in range(whole, n):
        a += abs(np.float64(x[t]) - np.float64(y[t]))
    return (a + b) + (c + d)


@kernel
def of_products(own: Points, i: int, others: Points, run, metric: int, line) -> None:
    """Convert the products of a sparse vector with a run of others, its first one and its step, to the weights.

    A squared distance that cancels is computed from differences. Bundles are passed on only then: to pass one for each
    pair takes fifty times as long as all the rest.
    """
    first, step = run
    square, norm = others.square, own.square[i]
    for c in range(len(line)):
        if metric == INNER:
            line[c] = -line[c]
        else:
            j = first + step * c
            apart = norm + square[j]
            found = apart - 2.0 * line[c]
            if found < CANCELS * apart:
                found = _sparse_differences(own, i, others, j)
            line[c] = of_square(found, metric)


@inlined
def _from_product(own, i, others, j, product):
    """Return the squared distance of two sparse vectors from their product, or from differences if that cancels."""
    apart = own.square[i] + others.square[j]
    square = apart - 2.0 * product
    return _sparse_differences(own, i, others, j) if square < CANCELS * apart else square


@kernel
def _sparse_differences(own: Points, i: int, others: Points, j: int):
    """Return the squared distance of two sparse vectors, summed in ascending order of dimension."""
    e, f = own.start[i], others.start[j]
    e_end, f_end = own.start[i + 1], others.start[j + 1]
    total = 0.0
    while e < e_end and f < f_end:
        s, t = own.term[e], others.term[f]
        p = (own.value[e] if s <= t else 0.0) - (others.value[f] if t <= s else 0.0)
        e += s <= t
        f += t <= s
        total += p * p
    for rest in range(e, e_end):
        total += own.value[rest] * own.value[rest]
    for rest in range(f, f_end):
        total += others.value[rest] * others.value[rest]
    return total


@kernel
def _sparse_inner(own: Points, i: int, others: Points, j: int):
    """Return the inner product of two sparse vectors, summed in ascending order of dimension."""
    e, f = own.start[i], others.start[j]
    e_end, f_end = own.start[i + 1], others.start[j + 1]
    total = 0.0
    while e < e_end and f < f_end:
        s, t = own.term[e], others.term[f]
        if s == t:
            total += own.value[e] * others.value[f]
        e += s <= t
        f += t <= s
    return total
