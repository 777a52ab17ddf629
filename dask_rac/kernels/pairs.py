"""What two vectors weigh: sums in float64, in one order from both ends, so that no bit depends on who asks."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.jit import inlined, kernel

EUCLIDEAN, SQUARED, COSINE, INNER, MANHATTAN = range(5)

CANCELS = 0.25  # of both squared norms: what is nearer is not told by products


class Points(NamedTuple):
    """Some vectors, dense or sparse; what they are not is empty. For cosines they have a length of 1."""

    dense: NDArray[np.floating]
    start: NDArray[np.int64]
    """Where the entries of each sparse vector begin, and the end."""
    term: NDArray[np.int32]
    """The dimension of each entry, ascending in a vector."""
    value: NDArray[np.float64]
    square: NDArray[np.float64]
    """The squared norm of each sparse vector."""


@kernel
def weigh(own: Points, i: int, others: Points, j: int, metric: int):
    """The weight of a pair, near ones smallest: similarities are negative.

    1 - cosine is half the squared distance of vectors of length 1: nothing cancels, and equal ones are at 0.
    """
    sparse = len(own.start) > 1
    if metric == INNER:
        return -(_sparse_inner(own, i, others, j) if sparse else _dense_inner(own.dense[i], others.dense[j]))
    if metric == MANHATTAN:
        return _dense_manhattan(own.dense[i], others.dense[j])
    if sparse:
        return _of_square(_from_product(own, i, others, j, _sparse_inner(own, i, others, j)), metric)
    return _of_square(_dense_square(own.dense[i], others.dense[j]), metric)


@inlined
def _of_square(square, metric):
    """The weight that comes from a squared distance."""
    if metric == COSINE:
        return 0.5 * square
    return np.sqrt(square) if metric == EUCLIDEAN else square


@kernel
def weigh_pairs(own: Points, others: Points, pairs, metric: int, weight) -> None:
    """The weights of pairs of places."""
    rows, places = pairs
    for e in range(len(rows)):
        weight[e] = weigh(own, rows[e], others, places[e], metric)


@kernel
def weigh_later(own: Points, others: Points, ids, begin, metric: int, weight) -> None:
    """The weights of some vectors and those others that come after each of them.

    `ids` are those of the first vector, of the first other one, and beyond the last; `begin` says where those of each
    vector begin.
    """
    first, start, stop = ids
    line = np.zeros(1 + max(_last_term(own), _last_term(others)), np.float64)
    for row in range(len(begin)):
        i = first + row
        if len(own.start) == 1:
            for j in range(max(start, i + 1), stop):
                weight[begin[row] + j - i - 1] = weigh(own, row, others, j - start, metric)
            continue
        for e in range(own.start[row], own.start[row + 1]):
            line[own.term[e]] = own.value[e]
        for j in range(max(start, i + 1), stop):
            product = _line_inner(line, others, j - start)
            if metric == INNER:
                weight[begin[row] + j - i - 1] = -product
            else:
                square = _from_product(own, row, others, j - start, product)
                weight[begin[row] + j - i - 1] = _of_square(square, metric)
        for e in range(own.start[row], own.start[row + 1]):
            line[own.term[e]] = 0.0


@kernel
def _last_term(points: Points):
    """The largest dimension of an entry, -1 without any."""
    last = -1
    for e in range(len(points.term)):
        last = max(last, points.term[e])
    return last


@kernel
def _line_inner(line, others: Points, j: int):
    """The inner product of a vector that lies open and a sparse one: zeros add nothing, so it is the same."""
    total = 0.0
    for f in range(others.start[j], others.start[j + 1]):
        total += line[others.term[f]] * others.value[f]
    return total


@kernel
def _dense_square(x, y):
    """The squared distance; four sums, as one would wait for itself."""
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
def _dense_inner(x, y):
    """The inner product."""
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
    """The sum of all differences."""
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


@inlined
def _from_product(own, i, others, j, product):
    """The squared distance of two sparse vectors by their product; of near ones, where that cancels, by differences."""
    apart = own.square[i] + others.square[j]
    square = apart - 2.0 * product
    return _sparse_differences(own, i, others, j) if square < CANCELS * apart else square


@kernel
def _sparse_differences(own: Points, i: int, others: Points, j: int):
    """The squared distance of two sparse vectors, their entries met in ascending order of dimension."""
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
    """The inner product of two sparse vectors, the products added in ascending order of dimension."""
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
