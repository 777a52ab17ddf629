"""Lifetimes: from the merge that creates a cluster to the merge that ends it."""

import numpy as np

from dask_rac.kernels.jit import kernel


@kernel
def follow(order, left, right, size, last, lives):
    """Process the merges in order; `last` starts at -1 for each node.

    `lives` is filled by position in the order: the position of the merge that ends the cluster created there, or the
    number of merges if none does; and the sizes of its two parts, the smaller first.
    """
    end, small, large = lives
    for k in range(len(order)):
        a, b = left[order[k]], right[order[k]]
        one = _take(order, size, last, end, a, k)
        other = _take(order, size, last, end, b, k)
        small[k], large[k] = min(one, other), max(one, other)
        end[k] = len(order)
        last[a] = k


@kernel
def _take(order, size, last, end, node, place):
    """End the cluster of a node at position `place`, and return its size."""
    before = last[node]
    if before < 0:
        return 1
    end[before] = place
    return size[order[before]]


@kernel
def find_largest(by_size, born, ended, chosen, count):
    """Find the largest clusters at each cut: positions into `chosen`, one row per cut, and how many into `count`.

    `by_size` lists positions from the largest cluster to the smallest; the cluster at position `p` exists at the cuts
    from `born[p]` up to but excluding `ended[p]`. Full cuts are skipped, so the work is that of visiting
    every cluster once.
    """
    cuts, most = chosen.shape
    after = np.arange(cuts + 1)
    full = 0
    for p in by_size:
        cut = _next(after, born[p])
        while cut < ended[p]:
            chosen[cut, count[cut]] = p
            count[cut] += 1
            if count[cut] == most:
                after[cut] = cut + 1
                full += 1
            cut = _next(after, cut + 1)
        if full == cuts:
            return


@kernel
def _next(after, cut):
    """Return the first cut from this one on that is not full."""
    found = cut
    while after[found] != found:
        found = after[found]
    while after[cut] != found:
        after[cut], cut = found, after[cut]
    return found
