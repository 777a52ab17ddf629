"""Counts of classes in clusters, merge by merge: what all flat cuts share with known classes, in one pass.

The labelled nodes are listed class by class, and within a class in the order of leaves, where every cluster is an
interval. Hence the nodes of a class that are in one cluster are a run of that list, and a merge changes a class only if
it closes the gap between two of its runs. Each gap is closed by one merge, the lowest above the nodes on both sides, so
there are fewer closings than nodes, and no table of counts is needed: the lengths of runs are the counts.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.arrays import Ids
from dask_rac.kernels.jit import inlined, kernel

LEAST = 1e-22  # a probability below this, relative to the largest one, changes no sum
REACH = 10.1  # standard deviations after which a probability is that small


class Runs(NamedTuple):
    """Nodes of one class in one cluster, as runs in the list of labelled nodes."""

    first: Ids  # of each merge: the first of the gaps that it closes, -1 if none
    after: Ids  # of each gap: the next one that the same merge closes, -1 if none
    end: Ids  # at both ends of a run: where its other end is


class Totals(NamedTuple):
    """Running sums over clusters, and what rounding has taken from those that are not whole."""

    whole: NDArray[np.int64]  # pairs of one class in one cluster, pairs in one cluster
    real: NDArray[np.float64]  # by column: n log n of a class in a cluster, of a cluster, chance, purity; then errors


class Sums(NamedTuple):
    """The running sums after each merge of a span."""

    pairs: NDArray[np.int64]  # of one class in one cluster
    together: NDArray[np.int64]  # in one cluster, of any class
    joint: NDArray[np.float64]  # n log n over classes in clusters
    own: NDArray[np.float64]  # n log n over clusters
    chance: NDArray[np.float64]  # expected mutual information, if a table of it is given


@kernel
def list_members(leaf, code, start, member):
    """List the nodes of each class in the order of leaves; `start`, where each class begins, becomes where it ends."""
    for p in range(len(leaf)):
        u = leaf[p]
        c = code[u]
        if c >= 0:
            member[start[c]] = u
            start[c] += 1


@kernel
def chain_gaps(merge, first, after):
    """Chain the gaps that each merge closes, from the merge of each gap; `first` and `after` start at -1."""
    for gap in range(len(merge) - 1, -1, -1):
        if merge[gap] < len(first):
            after[gap] = first[merge[gap]]
            first[merge[gap]] = gap


@inlined
def n_log_n(n):
    """Return n log n."""
    return n * np.log(n) if n > 1 else 0.0


@inlined
def add(real, at, value):
    """Add to a running sum, and what is lost by rounding to its error."""
    total = real[0, at]
    new = total + value
    real[1, at] += (total - new) + value if abs(total) >= abs(value) else (value - new) + total
    real[0, at] = new


@kernel
def follow_classes(left, right, runs, count, totals, sums):
    """Process merges in order; `count`, the labelled nodes of each cluster, and `totals` go on where they were.

    `runs.first` holds these merges only. `sums.chance` starts as what each merge adds to the expected mutual
    information.
    """
    first, after, end = runs
    whole, real = totals
    pairs, together, joint, own, chance = sums
    for k in range(len(left)):
        a, b = np.int64(count[left[k]]), np.int64(count[right[k]])
        count[left[k]] = a + b
        if a > 0 and b > 0:
            whole[1] += a * b
            add(real, 1, n_log_n(a + b) - n_log_n(a) - n_log_n(b))
            add(real, 2, chance[k])
        gap = first[k]
        while gap >= 0:
            begin, stop = end[gap], end[gap + 1]
            one, other = np.int64(gap - begin + 1), np.int64(stop - gap)
            whole[0] += one * other
            add(real, 0, n_log_n(one + other) - n_log_n(one) - n_log_n(other))
            add(real, 3, one * other * ((one + other) / (a + b)))
            end[begin], end[stop] = stop, begin
            gap = after[gap]
        pairs[k], together[k] = whole
        joint[k], own[k], chance[k] = real[0, 0] + real[1, 0], real[0, 1] + real[1, 1], real[0, 2] + real[1, 2]


@kernel
def joined_pairs(end, start, pairs):
    """Count the pairs of each class that are in one run; `start` says where each class begins and the last one ends."""
    for c in range(len(pairs)):
        at = start[c]
        while at < start[c + 1]:
            length = end[at] - at + 1
            pairs[c] += length * (length - 1) // 2
            at += length


@kernel
def part_sizes(left, right, count, one, other):
    """Write the labelled nodes of both sides of each merge; `count` goes on where it was."""
    for k in range(len(left)):
        one[k], other[k] = count[left[k]], count[right[k]]
        count[left[k]] += count[right[k]]


@kernel
def count_terms(size, class_size, total):
    """Return how many terms `expect` adds up, at most."""
    terms = 0.0
    for s in range(len(size)):
        for c in range(len(class_size)):
            a, b, n = np.float64(size[s]), np.float64(class_size[c]), np.float64(total)
            spread = np.sqrt(a * (b / n) * (1 - a / n) * (1 - b / n))
            terms += min(a, b, n - a, n - b, 2 * REACH * (spread + REACH)) + 1
    return terms


@kernel
def expect(size, class_size, times, total, expected):
    """Find what a cluster of each size adds to the mutual information expected if nodes were shuffled.

    How many of its nodes are in a class of `class_size`, of which there are `times`, follows the hypergeometric
    distribution. From its mode the probabilities fall in both directions, each by a ratio to the one before, until they
    no longer count; dividing by their sum makes them probabilities, without factorials, whose logarithms round.
    """
    n = np.float64(total)
    for s in range(len(size)):
        a, value = np.float64(size[s]), 0.0
        for c in range(len(class_size)):
            b = np.float64(class_size[c])
            least, most = max(0.0, a + b - n), min(a, b)
            mode = min(max(np.floor((a + 1) * (b + 1) / (n + 2)), least), most)
            ratio = n / (a * b)
            mass, mean = 1.0, mode * np.log(mode * ratio) if mode > 0 else 0.0
            x, p = mode, 1.0
            while x < most and p > LEAST:
                p *= (a - x) * (b - x) / ((x + 1) * (n - a - b + x + 1))
                x += 1
                mass += p
                mean += p * x * np.log(x * ratio)
            x, p = mode, 1.0
            while x > least and p > LEAST:
                p *= x * (n - a - b + x) / ((a - x + 1) * (b - x + 1))
                x -= 1
                mass += p
                mean += p * x * np.log(x * ratio) if x > 0 else 0.0
            value += times[c] * (mean / mass)
        expected[s] = value / n
