"""From products of vectors to candidates: find the few pairs of a tile that may matter by their scores.

A score costs one float32 product and differs from the true value by at most its slack; smaller means nearer. Each row
keeps on a shelf the candidates that may be among its k nearest. It weighs them only at the end, or when the shelf is
full of scores too close to decide. So what is dropped is certainly farther, and weights are never float32 results.

Places must come in ascending order: of equally near candidates, the first on the shelf are then the ones to keep.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.vectors.pairs import COSINE, EUCLIDEAN, INNER, SQUARED, Points, weigh

CHUNK = 64  # scores compared at a time


class Shelf(NamedTuple):
    """The candidates of every row of a span."""

    points: Points
    half: NDArray[np.floating]
    """What is added to the negated product to give a score: half the squared norm for distances, else 0."""
    base: NDArray[np.float64]
    """What converts a weight to a score: the squared norm for distances, else 0."""
    slack: NDArray[np.floating]
    """How far scores of a row may be from the true value."""
    limit: NDArray[np.floating]
    """The largest score of a row that may still matter."""
    held: NDArray[np.int32]
    """How many candidates a row has."""
    score: NDArray[np.floating]
    place: NDArray[np.int32]


@kernel
def score_of(weight: float, base: float, metric: int) -> float:
    """Convert a weight to a score."""
    if metric == EUCLIDEAN:
        return 0.5 * (weight * weight - base)
    if metric == SQUARED:
        return 0.5 * (weight - base)
    return weight - 1.0 if metric == COSINE else weight


@kernel
def set_limits(shelf: Shelf, reach, more: float, metric: int) -> None:
    """Set the limit of each row to the score of its reach, plus its slack and `more`."""
    for row in range(len(reach)):
        if reach[row] < np.inf:
            score = score_of(reach[row], shelf.base[row], metric) + shelf.slack[row] + more
            shelf.limit[row] = np.nextafter(shelf.limit.dtype.type(score), shelf.limit.dtype.type(np.inf))


@kernel
def scan(product, at, own: Shelf, others: Shelf, k: int, metric: int) -> int:
    """Put the pairs of a tile that may matter on the shelves of both sides; return how many had to be weighed.

    `at` is the first row of each side, and whether both sides are the same: then each pair is taken once, above the
    diagonal.
    """
    first_row, first_place, same = at
    weighed, columns, room = 0, product.shape[1], own.score.shape[1]
    scratch = np.empty(room, np.float64)
    half, limit, held, score, place = own.half, own.limit, own.held, own.score, own.place
    other_held, other_score, other_place = others.held, others.score, others.place
    halves, limits = others.half[first_place : first_place + columns], others.limit[first_place : first_place + columns]
    for row in range(product.shape[0]):
        i = first_row + row
        begin = max(0, i + 1 - first_place) if same else 0
        for chunk in range(begin, columns, CHUNK):
            end = min(chunk + CHUNK, columns)
            if not _any_near(product[row, chunk:end], halves[chunk:end], limits[chunk:end], limit[i], half[i]):
                continue
            for c in range(chunk, end):
                p, j = product[row, c], first_place + c
                if halves[c] - p <= limit[i]:
                    count = held[i]
                    score[i, count], place[i, count] = halves[c] - p, j
                    held[i] = count + 1
                    if count + 1 == room:
                        weighed += _clear(own, i, others.points, k, metric, scratch)
                if half[i] - p <= limits[c]:
                    count = other_held[j]
                    other_score[j, count], other_place[j, count] = half[i] - p, i
                    other_held[j] = count + 1
                    if count + 1 == room:
                        weighed += _clear(others, j, own.points, k, metric, scratch)
    return weighed


@kernel
def _any_near(line, halves, limits, limit, half):
    """Whether any score of a line may matter to either side; branchless, so that it compiles to SIMD."""
    near = np.int32(0)
    for c in range(len(line)):
        near += np.int32((halves[c] - line[c] <= limit) | (half - line[c] <= limits[c]))
    return near > 0


@kernel
def _clear(shelf, row, others, k, metric, scratch):
    """Remove from a full shelf what cannot be among the k nearest; return how many candidates were weighed."""
    count = shelf.held[row]
    score, place, slack = shelf.score[row], shelf.place[row], shelf.slack[row]
    for e in range(count):
        scratch[e] = score[e]
    kth = smallest(scratch, count, k)
    if slack == 0:  # scores are exact, and later candidates lose ties
        _keep(shelf, row, score, kth, k)
        shelf.limit[row] = np.nextafter(shelf.limit.dtype.type(kth), shelf.limit.dtype.type(-np.inf))
        return 0
    limit = min(np.float64(shelf.limit[row]), kth + 2.0 * slack)
    kept = 0
    for e in range(count):
        if score[e] <= limit:
            score[kept], place[kept] = score[e], place[e]
            kept += 1
    shelf.held[row] = kept
    shelf.limit[row] = limit
    if 4 * kept <= 3 * count:
        return 0
    weight = np.empty(kept, np.float64)
    for e in range(kept):
        weight[e] = weigh(shelf.points, row, others, place[e], metric)
        scratch[e] = weight[e]
    kth = smallest(scratch, kept, k)
    for e in range(kept):
        score[e] = score_of(weight[e], shelf.base[row], metric)
    _keep(shelf, row, weight, kth, k)
    shelf.limit[row] = min(np.float64(shelf.limit[row]), score_of(kth, shelf.base[row], metric) + slack)
    if kth == 0 and metric != INNER:
        shelf.limit[row] = -np.inf  # nothing can be nearer
    return kept


@kernel
def _keep(shelf, row, key, kth, k):
    """Keep the k candidates with the smallest keys; of equal keys, those that came first."""
    count = shelf.held[row]
    score, place = shelf.score[row], shelf.place[row]
    equal = k
    for e in range(count):
        equal -= key[e] < kth
    kept = 0
    for e in range(count):
        if key[e] > kth or (key[e] == kth and equal == 0):
            continue
        equal -= key[e] == kth
        score[kept], place[kept] = score[e], place[e]
        kept += 1
    shelf.held[row] = kept


@kernel
def smallest(values, count, k):
    """Return the k-th smallest, counted from 1, of the first `count` values, which are reordered."""
    low, high, wanted = 0, count - 1, k - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if wanted <= j:
            high = j
        elif wanted >= i:
            low = i
        else:
            break
    return values[wanted]


@kernel
def _last_limit(shelf, row, k, scratch):
    """Return the largest score on a shelf that may be among the k nearest."""
    count = shelf.held[row]
    if count <= k:
        return np.inf
    for e in range(count):
        scratch[e] = shelf.score[row, e]
    return smallest(scratch, count, k) + 2.0 * shelf.slack[row]


@kernel
def settle(shelf: Shelf, others: Points, first: int, k: int, metric: int, out) -> None:
    """Weigh the candidates of every row and keep the k nearest, by weight and then by id.

    `out` is the number, the ids and the weights of each row, then its bound: the weight and the id of the last of its
    k nearest elsewhere; anything beyond is dropped. Place 0 is id `first`.
    """
    found, neighbour, weight, reach, last = out
    room = shelf.score.shape[1]
    ids, key = np.empty(room, np.int64), np.empty(room, np.float64)
    for row in range(len(shelf.held)):
        limit = _last_limit(shelf, row, k, key)
        kept = 0
        for e in range(shelf.held[row]):
            if shelf.score[row, e] > limit:
                continue
            value, j = weigh(shelf.points, row, others, shelf.place[row, e], metric), first + shelf.place[row, e]
            if value > reach[row] or (value == reach[row] and j > last[row]):
                continue
            at = kept
            while at > 0 and (key[at - 1] > value or (key[at - 1] == value and ids[at - 1] > j)):
                key[at], ids[at] = key[at - 1], ids[at - 1]
                at -= 1
            key[at], ids[at] = value, j
            kept += 1
        kept = min(kept, k)
        found[row] = kept
        for e in range(kept):
            neighbour[row, e], weight[row, e] = ids[e], key[e]


@kernel
def count_near(product, at, own: Shelf, others: Shelf) -> int:
    """Count the pairs of a tile that may be within the limit of their row; for one side with itself, each once."""
    first_row, first_place, same = at
    halves = others.half[first_place : first_place + product.shape[1]]
    total = 0
    for row in range(product.shape[0]):
        begin = max(0, first_row + row + 1 - first_place) if same else 0
        total += _count_below(product[row, begin:], halves[begin:], own.limit[first_row + row])
    return total


@kernel
def _count_below(line, halves, limit):
    """Count the scores of a line within a limit."""
    near = np.int64(0)
    for c in range(len(line)):
        near += halves[c] - line[c] <= limit
    return near


@kernel
def take_near(product, at, own: Shelf, others: Shelf, pairs) -> None:
    """Write the places of the pairs that `count_near` counted."""
    first_row, first_place, same = at
    rows, places = pairs
    halves, limits = others.half, own.limit
    taken = 0
    for row in range(product.shape[0]):
        limit = limits[first_row + row]
        begin = max(0, first_row + row + 1 - first_place) if same else 0
        for c in range(begin, product.shape[1]):
            if halves[first_place + c] - product[row, c] <= limit:
                rows[taken], places[taken] = first_row + row, first_place + c
                taken += 1
