"""All pairs against merges: every total of a merge is that of contiguous places, as every cluster is an interval.

The leaves are ordered as `audit.py` has them. From one leaf, the pairs of a merge above it are those with the leaves of
the other side of that merge. So a row of weights, in the order of leaves, is a few runs: no pair needs a search.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.arrays import Ids
from dask_rac.kernels.audit import EPS, ROUNDINGS, TINY, WRONG_HEIGHT, joins
from dask_rac.kernels.jit import inlined, kernel

SUM, SQUARES, HALVES, LARGEST, LEAST = range(5)  # what the total of a merge is, of the weights of its pairs
WARD, MEANS, PRODUCTS = range(3)  # how heights follow from centres: by ward, as means of squares, or of products
SHARES = 1100  # halvings after which nothing is left of a weight, and a few more
MARGIN = 4.0  # times the bound of rounding errors that a height may be off


class Climb(NamedTuple):
    """The merges as intervals of leaves, and which merge comes next above each."""

    first: Ids  # of each leaf: the merge that has it, the number of merges if none has
    above: Ids  # of each merge: the next one, the number of merges if there is none
    low: Ids  # where the interval of the left cluster begins
    middle: Ids  # where that of the right one does
    high: Ids  # where it ends
    level: Ids  # how many merges lie above each


class Plan(NamedTuple):
    """How lines of weights are added to the totals of merges."""

    kind: int
    climb: Climb
    levels: NDArray[np.int64]  # how many merges lie above each leaf
    shares: NDArray[np.float64]  # what is left of 1 after so many halvings
    times: NDArray[np.float64]  # how many equal leaves each stands for in a sum; empty if each is a single one


@kernel
def climb_merges(merges, fault, position, size, climb):
    """Find the intervals of merges; `size` is 1 for each node. Returns the number of pairs that they join."""
    left, right, _, _ = merges
    first, above, low, middle, high, level = climb
    end, joined = len(left), 0.0
    newest = np.full(len(size), -1, np.int64)
    first[:] = end
    above[:] = end
    for i in range(end):
        low[i] = middle[i] = high[i] = level[i] = 0
        if joins(fault[i]):
            a, b = left[i], right[i]
            for c in (a, b):
                if newest[c] < 0:
                    first[position[c]] = i
                else:
                    above[newest[c]] = i
            low[i], middle[i] = position[a], position[b]
            high[i] = position[b] + size[b]
            joined += np.float64(size[a]) * size[b]
            size[a] += size[b]
            newest[a] = i
    for i in range(end - 1, -1, -1):
        level[i] = level[above[i]] + 1 if above[i] < end else 0
    return joined


@inlined
def sum_of(line, kind):
    """Return the sum of weights, or of their squares; four sums, as a single one waits for each addition."""
    a = b = c = d = 0.0
    whole = len(line) - len(line) % 4
    for k in range(0, whole, 4):
        p, q, r, s = line[k], line[k + 1], line[k + 2], line[k + 3]
        if kind == SQUARES:
            p, q, r, s = p * p, q * q, r * r, s * s
        a += p
        b += q
        c += r
        d += s
    for k in range(whole, len(line)):
        a += line[k] * line[k] if kind == SQUARES else line[k]
    return (a + b) + (c + d)


@inlined
def sum_times(line, times, kind):
    """Return the sum of weights, or of their squares, each taken so many times."""
    total = 0.0
    for k in range(len(line)):
        total += times[k] * (line[k] * line[k] if kind == SQUARES else line[k])
    return total


@inlined
def largest_of(line, sign):
    """Return the largest weight, or the largest negated one; NaN, an invalid weight, stays."""
    largest = -np.inf
    for k in range(len(line)):
        w = sign * line[k]
        largest = w if (w > largest) | np.isnan(w) else largest
    return largest


@inlined
def _halves(line, levels, rest, shares):
    """Return the sum of what is left of weights that are halved with every merge on their way."""
    total = 0.0
    for k in range(len(line)):
        total += line[k] * shares[min(levels[k] + rest, SHARES - 1)]
    return total


@kernel
def plan_lines(kind, climb, times):
    """Return what is needed to add lines; `times` as in `Plan`."""
    first, _, _, _, _, level = climb
    levels, shares = np.zeros(len(first), np.int64), np.zeros(SHARES)
    for leaf in range(len(first)):
        if first[leaf] < len(level):
            levels[leaf] = level[first[leaf]] + 1
    for k in range(SHARES):
        shares[k] = math.ldexp(1.0, -k)
    return Plan(kind, climb, levels, shares, times)


@kernel
def take_run(plan, line, low, high, rest):
    """Return the total of a run of weights; `rest` are the halvings beside those by the levels of their leaves."""
    run = line[low:high]
    if plan.kind >= LARGEST:
        return largest_of(run, 1.0 if plan.kind == LARGEST else -1.0)
    if plan.kind == HALVES:
        return _halves(run, plan.levels[low:high], rest, plan.shares)
    return sum_times(run, plan.times[low:high], plan.kind) if len(plan.times) else sum_of(run, plan.kind)


@kernel
def add_line(plan, line, leaf, behind, totals) -> None:
    """Add the weights of a leaf with those before it, in the order of leaves, to all merges above it.

    With `behind` the line also has the weights with the leaves behind it, and they are added as well.
    """
    first, above, low, middle, high, level = plan.climb
    end, merge = len(above), first[leaf]
    while merge < end:
        on_right = leaf >= middle[merge]
        if on_right or behind:
            begin, stop = (low[merge], middle[merge]) if on_right else (middle[merge], high[merge])
            total = take_run(plan, line, begin, stop, plan.levels[leaf] - 2 * level[merge] - 2)
            if plan.kind < LARGEST:
                totals[merge] += total * plan.times[leaf] if len(plan.times) and plan.kind != HALVES else total
            elif total > totals[merge] or np.isnan(total):
                totals[merge] = total
        merge = above[merge]


@kernel
def add_rows(plan, entry, span, totals) -> None:
    """Add rows of the triangle of leaves: row `s` has the weights of leaf `s` with all leaves before it."""
    for s in range(span[0], span[1]):
        at = s * (s - 1) // 2 - span[0] * (span[0] - 1) // 2
        add_line(plan, entry[at : at + s], s, False, totals)


@kernel
def add_scattered(plan, entry, span, place, totals) -> None:
    """Add rows of the triangle of nodes in any order; `place` is the leaf of each slot."""
    line = np.full(len(place), -np.inf if plan.kind == LARGEST else np.inf if plan.kind == LEAST else 0.0)
    for s in range(span[0], span[1]):
        at = s * (s - 1) // 2 - span[0] * (span[0] - 1) // 2
        for t in range(s):
            line[place[t]] = entry[at + t]
        add_line(plan, line, place[s], True, totals)


@kernel
def add_differences(block, merges, fault, products, apart) -> None:
    """Add, for some dimensions, the squared distance of the two centres of each merge, or their product.

    `block` holds the vectors, which are used up: a row becomes the sum of its cluster.
    """
    left, right, _, _ = merges
    size = np.ones(len(block), np.float64)
    for i in range(len(left)):
        if not joins(fault[i]):
            continue
        a, b = left[i], right[i]
        x, y, total = 1.0 / size[a], 1.0 / size[b], 0.0
        for k in range(block.shape[1]):
            if products:
                total += (block[a, k] * x) * (block[b, k] * y)
            else:
                difference = block[a, k] * x - block[b, k] * y
                total += difference * difference
            block[a, k] += block[b, k]
        apart[i] += total
        size[a] += size[b]


@kernel
def expect_heights(merges, fault, apart, norm, rule, expected) -> None:
    """Write the height that follows from the centres of each merge, in squares for ward, and by how much it may be off.

    `norm` is the length of each vector, measured from where centres are; `rule` is `WARD`, `MEANS` or
    `PRODUCTS`, a factor of all heights, and the dimensions.
    """
    left, right, _, _ = merges
    kind, factor, dimensions = rule
    height, slack = expected
    nodes = len(norm)
    size, spread, reach, depth = np.ones(nodes), np.zeros(nodes), norm.copy(), np.zeros(nodes)
    for i in range(len(left)):
        if not joins(fault[i]):
            continue
        a, b = left[i], right[i]
        both = size[a] + size[b]
        steps = (depth[a] + depth[b] + dimensions + ROUNDINGS) * EPS
        if kind == PRODUCTS:
            height[i] = factor * apart[i]
            slack[i] = MARGIN * abs(factor) * steps * reach[a] * reach[b] + TINY
        else:
            # A run may have added up all pairs instead: what it took away again is at most twice what is spread.
            moved = 2.0 * np.sqrt(apart[i]) * (reach[a] + reach[b]) + steps * (reach[a] + reach[b]) ** 2
            wide = apart[i] + 2.0 * (spread[a] + spread[b])
            scale = factor * (2.0 * size[a] * size[b] / both if kind == WARD else 1.0)
            height[i] = scale * (apart[i] if kind == WARD else apart[i] + spread[a] + spread[b])
            slack[i] = MARGIN * scale * steps * (wide + moved) + TINY
            share = size[a] * size[b] / (both * both)
            spread[a] = (size[a] * spread[a] + size[b] * spread[b]) / both + share * apart[i]
        reach[a] = (size[a] * reach[a] + size[b] * reach[b]) / both
        depth[a] = max(depth[a], depth[b]) + 1.0
        size[a] = both


@kernel
def compare_expected(merges, expected, rule, live, fault):
    """Find the merges whose height is not what is expected, as `audit.compare_heights` does; `rule.scale` is the sign.

    Squares are expected for ward, where `live.inner` has an item for each node.
    """
    left, right, height, _ = merges
    _, top, slacks, inner = live
    wanted, allowed = expected
    squares = len(inner) > 0
    worst, first, found = 0.0, -1, np.nan
    for i in range(len(left)):
        w = np.nan
        if joins(fault[i]):
            a, b, h = left[i], right[i], rule.scale * height[i]
            w = wanted[i]
            slack = max(allowed[i], slacks[a] if h == top[a] else 0.0, slacks[b] if h == top[b] else 0.0)
            error = abs(w - h * h) if squares else abs(w - h)
            if not error <= slack and fault[i] == 0:
                fault[i] = WRONG_HEIGHT
            nothing = max(abs(w), h * h if squares else abs(h)) <= slack  # rounding cannot tell it from 0
            w = np.sqrt(max(w, 0.0)) if squares else w
            if abs(w - h) > 0 and not nothing:
                worst = max(worst, abs(w - h) / max(abs(w), abs(h)))
            top[a], slacks[a] = h, slack
        if fault[i] != 0 and first < 0:
            first, found = i, rule.scale * w + 0.0
    return worst, first, found
