"""The order in which pairs of clusters merge, in the rounds and in the finisher.

Pairs are compared by `(W, tie, |A| + |B|, hash64(lo, hi), lo, hi)`, smallest first.

1. `tie` is the largest `edge_tie` over the edges between the two clusters. It is random, so a graph with
   equal weights merges a constant fraction of its clusters each round. It never decreases when clusters
   merge.
2. The size of the union grows strictly when either side merges. With 1 this makes the whole key
   reducible, `key(A + B, C) >= min(key(A, C), key(B, C))`, also among equal weights and where one of the
   two edges is missing. Without it, rounds and sequential HAC would differ on ties.
3. The key depends only on the two sets of nodes and is the same from both ends, so the smallest edge is
   always reciprocal and every round merges something.
"""

import numpy as np

from dask_rac.kernels.jit import inlined

TIE_BITS = 16


@inlined
def hash64(a, b):
    """Return 64 well-mixed bits for an unordered pair of ids."""
    lo = np.uint64(min(a, b))
    hi = np.uint64(max(a, b))
    x = lo * np.uint64(0x9E3779B97F4A7C15) + (hi ^ np.uint64(0x2545F4914F6CDD1D)) * np.uint64(0xC2B2AE3D27D4EB4F)
    x = (x ^ (x >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(29))


@inlined
def edge_tie(a, b):
    """Return the tie of one edge: the upper bits of its hash."""
    return np.uint16(hash64(a, b) >> np.uint64(64 - TIE_BITS))


@inlined
def breaks_tie(ids, size, row, a, b):
    """Whether `row` prefers cluster `a` to `b` at equal weight and equal tie."""
    if size[a] != size[b]:
        return size[a] < size[b]
    first, second = hash64(ids[row], ids[a]), hash64(ids[row], ids[b])
    if first != second:
        return first < second
    return ids[a] < ids[b]
