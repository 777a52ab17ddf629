"""Clusters and edges as the finisher sees them: W of an edge, and how it looks from one of its ends.

Among the edges of one cluster the order by W does not depend on the size of that cluster. So what an edge looks like
from a cluster (`seen_from`) is W without that size: it stays as it is while the cluster grows, and changes only with
the other end.
"""

from math import ldexp

import numpy as np

from dask_rac.kernels.jit import inlined
from dask_rac.kernels.rule import (
    HALF_FILLED,
    MAX_FILLED,
    MAX_FULL,
    MAX_PRESENT,
    MEAN_ALL,
    MEAN_FILLED,
    MEAN_FULL,
    MEAN_PRESENT,
    linkage_weight,
    mean_with_fill,
)

# Columns of `groups`. A row begins at START, holds LENGTH edges and has room for ROOM; it has CHUNKS, as a negative
# number before they are cut, and 0 if it is scanned. By weighted linkage a cluster has GROWN in so many merges, and
# the bounds of a hub have been SCALED for so many of them.
START, LENGTH, ROOM, CHUNKS, SIZE, DEGREE, GROWN, SCALED = range(8)


@inlined
def seen_from(rule, weight, count, own, other, shift):
    """Return a number that orders the edges of a cluster of size `own` as W does and changes only with the other end.

    By weighted linkage `shift` is the merges of the other end, and those by which bounds have been scaled.
    """
    if rule.code == MEAN_ALL:
        return weight / other
    if rule.code == MEAN_PRESENT:
        return weight / count
    if rule.code == MAX_PRESENT:
        return weight
    if rule.code == MEAN_FILLED:
        return (weight - count * rule.fill) / other
    if rule.code == HALF_FILLED:
        return ldexp(weight - rule.fill, int(count - shift))
    if count == np.float64(own) * other:
        return weight / other if rule.code == MEAN_FULL else weight
    return rule.fill if rule.code == MAX_FILLED else np.inf


@inlined
def never_again(code):
    """Whether two clusters of which a pair is missing never merge."""
    return code in (MEAN_FULL, MAX_FULL)


@inlined
def catch_up(values, fields, e, merges, fill):
    """Bring the weight of an edge up to the given number of merges of its ends, by weighted linkage; return it."""
    reflected = fields.shape[1] - 2
    values[e, 0] = mean_with_fill(values[e, 0], fill, merges - np.int64(fields[e, reflected]))
    fields[e, reflected] = merges
    return values[e, 0]


@inlined
def weigh(values, fields, e, groups, rule):
    """Return W of the two ends of an edge."""
    first = fields.shape[1] - 4
    a, b = fields[e, first], fields[e, first + 1]
    if rule.code == HALF_FILLED:
        return catch_up(values, fields, e, groups[a, GROWN] + groups[b, GROWN], rule.fill)
    pairs = np.float64(groups[a, SIZE]) * groups[b, SIZE]
    return linkage_weight(rule, values[e, 0], fields[e, first + 2], pairs)


@inlined
def other_end(fields, e, x):
    """Return the cluster at the other end of an edge, -1 if `x` is at neither."""
    first = fields.shape[1] - 4
    lo, hi = np.int64(fields[e, first]), np.int64(fields[e, first + 1])
    return hi if lo == x else (lo if hi == x else np.int64(-1))


@inlined
def look(x, values, fields, e, groups, rule):
    """Return how an edge is seen from its end `x`."""
    first, c = fields.shape[1] - 4, other_end(fields, e, x)
    shift = groups[c, GROWN] + groups[x, SCALED] if rule.code == HALF_FILLED else np.int64(0)
    return seen_from(rule, values[e, 0], fields[e, first + 2], groups[x, SIZE], groups[c, SIZE], shift)


@inlined
def drop_edge(fields, e, groups):
    """Let an edge die."""
    first = fields.shape[1] - 4
    groups[fields[e, first], DEGREE] -= 1
    groups[fields[e, first + 1], DEGREE] -= 1
    fields[e, first], fields[e, first + 1] = -1, -1
