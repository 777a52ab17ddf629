"""W of two clusters from the edges folded between them: one code for each linkage and `missing`."""

import numpy as np

from dask_rac.kernels.jit import inlined

MEAN_PRESENT = 0  # average, missing pairs ignored
MEAN_ALL = 1  # average, missing pairs weigh 0
MEAN_FILLED = 2  # average, missing pairs weigh `fill`
MEAN_FULL = 3  # average, missing pairs are infinitely far
HALF_FILLED = 4  # weighted, missing pairs weigh `fill`; the weight of an entry is W itself
SQUARES_FULL = 5  # ward, of squared weights; no pair is missing
MAX_PRESENT = 6  # complete, missing pairs ignored
MAX_FILLED = 7  # complete, missing pairs weigh `fill`
MAX_FULL = 8  # complete, missing pairs are infinitely far


@inlined
def is_mean(code):
    """Whether parallel edges are summed; otherwise the largest is kept."""
    return code <= SQUARES_FULL


@inlined
def linkage_weight(rule, weight, count, pairs):
    """Return W, where `pairs` is the number of node pairs between the two clusters."""
    if rule.code == MEAN_ALL:
        return weight / pairs
    if rule.code == MEAN_PRESENT:
        return weight / count
    if rule.code == MAX_PRESENT or rule.code == HALF_FILLED:
        return weight
    if count == pairs:
        return weight / pairs if rule.code <= MEAN_FULL else weight
    if rule.code == MEAN_FILLED:
        return (weight + (pairs - count) * rule.fill) / pairs
    if rule.code == MAX_FILLED:
        return rule.fill
    return np.inf


@inlined
def mean_of_parts(sums, found, parts, fill):
    """Return W by weighted linkage of two clusters with 1, 2 or 4 pairs of parts: their mean, `fill` where no edge is.

    `sums` are AC + BD and AD + BC, `found` the number of edges in each: the same from both ends, and so is W.
    """
    if parts == 1:
        return sums[0]
    first = sums[0] + (parts // 2 - found[0]) * fill
    second = sums[1] + (parts // 2 - found[1]) * fill
    return (first + second) / parts


@inlined
def mean_with_fill(weight, fill, times):
    """Return W by weighted linkage after so many merges with clusters that have no edge."""
    for _ in range(times):
        mean = (weight + fill) / 2
        if mean == weight:
            break
        weight = mean
    return weight
