"""Assign each edge to the merge that joins its two nodes, then recompute every height from these edges.

The leaves are ordered so that every cluster is an interval that starts with its id. Between two adjacent leaves lies
one merge. A merge above another comes after it, so the lowest merge above two leaves is the last of those between
them: a range maximum, taken from the two blocks at the ends and from a table over the blocks in between.

By weighted linkage an edge counts for half as much with every merge between it and the merge that joins it. The number
of these merges is the difference of levels, where the level of a node or a merge is the number of merges above it.
By ward linkage the edges inside a cluster are those of all merges below it, so their squares add up on the way.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.arrays import Ids, Rule
from dask_rac.kernels.jit import inlined, kernel, prefetch_read, prefetch_write
from dask_rac.kernels.rule import HALF_FILLED, SQUARES_FULL, is_mean, linkage_weight

NO_PAIR = 1  # not two valid ids in ascending order
GONE = 2  # one of the clusters has already merged into another
NO_HEIGHT = 3  # NaN or infinite
BEYOND = 4  # above the ceiling
NEARER = 5  # lower than a merge below it
WRONG_SIZE = 6
NO_EDGE = 7
MISSING_PAIR = 8  # a pair has no edge, and missing pairs are infinitely far
TOO_MANY = 9  # more edges than pairs
WRONG_HEIGHT = 10
LACKS_PAIR = 11  # a pair has no edge, and the linkage needs all pairs
NO_RATIO = 12  # not from 1 to 1 + epsilon
BEYOND_RATIO = 13  # a cluster was nearer than the ratio says

BLOCK = 32  # gaps scanned together: two cache lines
BLOCK_BYTES = 128  # blocks must be aligned to this, or they span three lines: twice the time in large graphs
BATCH = 32  # edges whose memory is prefetched before any of it is read
AHEAD = 16  # edges between prefetching a tally and adding to it

# All weights have the same sign, so the sums of k weights in any two orders differ by less than k eps of the sum.
# Filling in missing pairs and dividing, here and in the run, add less than four eps. For subnormal numbers eps is not
# a bound, hence TINY. A billion edges in one merge may thus hide an error in the 7th digit, a million in the 10th.
EPS, ROUNDINGS, TINY = 2.0**-52, 4.0, 2.0**-1070

# Weighted: a run rounds twice at most with each merge on the way, so the merges on the longest way are added to k. The
# weight of an edge is halved exactly while it is normal; a result below that is off by LEAST at most. What is missing
# of 1 is exact as long as no edge counts for less than the last of the BITS of 1, and else off by k eps.
LEAST, BITS = 2.0**-1074, 52.0

# Ward, in squared units: W is what is left of the squares between two clusters after parts of those inside them are
# taken away. So its error is bounded by k eps of the sum of all three, at most twice the squares between them, and not
# by k eps of W; k is the number of pairs in the union. For wide clusters near each other that is many times more.


class Levels(NamedTuple):
    """How many merges lie above, for weighted linkage."""

    node: Ids
    merge: Ids  # the last one for edges that no merge joins


class Leaves(NamedTuple):
    """The nodes in leaf order."""

    position: Ids  # of each node
    gap: Ids  # one row per block: the merge between a position and the next; at the end of a tree, the number of merges
    table: Ids  # for j = 0, 1, ...: the last merge in the `2**j` blocks that start at each block
    level: NDArray[np.uint8]  # the largest such j for a number of blocks


class Leeway(NamedTuple):
    """How a run may have come to other heights than those that follow from its edges."""

    inexact: float  # the relative error that weights had in sums, if it computed them in another way than exactly
    raised: bool  # whether a merge that came out below another one below it has the height of that


class Live(NamedTuple):
    """What is known of each cluster while the merges are processed in order."""

    size: Ids  # starts at 1; negated once the cluster has merged into another
    height: NDArray[np.float64]  # of its last merge, as a distance; starts at -inf
    slack: NDArray[np.float64]  # by how much rounding may have moved that height, by ward its square; starts at 0
    inner: NDArray[np.float64]  # by ward the squares inside, by weighted linkage the levels; starts at 0, else empty


@inlined
def joins(fault):
    """Whether a merge joins two clusters, whether or not its height is right."""
    return fault != NO_PAIR and fault != GONE


@kernel
def check_merges(merges, rule, live, fault):
    """Find the faults that can be seen without the edges."""
    left, right, height, union = merges
    size, top, _, _ = live
    for i in range(len(left)):
        a, b, h = left[i], right[i], rule.scale * height[i]
        if not 0 <= a < b < len(size):
            fault[i] = NO_PAIR
            continue
        if size[a] < 0 or size[b] < 0:
            fault[i] = GONE
            continue
        if not np.isfinite(h):
            fault[i] = NO_HEIGHT
        elif h > rule.ceiling:
            fault[i] = BEYOND
        elif h < max(top[a], top[b]):
            fault[i] = NEARER
        elif size[a] + size[b] != union[i]:
            fault[i] = WRONG_SIZE
        size[a] += size[b]
        size[b] = -size[b]
        top[a] = h


@kernel
def place_leaves(merges, fault, size, position, gap):
    """Order the leaves from the last merge to the first; resets `size`, as `check_merges` left it, to its start."""
    left, right, _, _ = merges
    gap[:] = len(left)
    end = 0
    for u in range(len(size)):
        if size[u] > 0:
            position[u] = end
            end += size[u]
    for i in range(len(left) - 1, -1, -1):
        if joins(fault[i]):
            a, b = left[i], right[i]
            size[a] += size[b]
            size[b] = -size[b]
            position[b] = position[a] + size[a]
            gap[position[b] - 1] = i


@kernel
def find_merges(source, target, leaves, end, found):
    """Find the merge that joins the nodes of each edge; `end` for self loops and for nodes in different trees.

    Returns the self loops, the edges between different trees, and the first edge with an invalid node, -1 if none.
    """
    position, gap, table, level = leaves
    flat, blocks = gap.reshape(-1), len(level)
    none = gap.dtype.type(0)
    first, last = np.empty(BATCH, np.int64), np.empty(BATCH, np.int64)
    loops, unjoined = 0, 0
    for start in range(0, len(source), BATCH):
        stop = min(start + BATCH, len(source))
        for e in range(start, stop):
            u, v = source[e], target[e]
            if not (0 <= u < len(position) and 0 <= v < len(position)):
                return loops, unjoined, e
            p, q = np.int64(position[u]), np.int64(position[v])
            lo, hi = min(p, q), max(p, q) - 1
            first[e - start], last[e - start] = lo, hi
            low, high = lo // BLOCK, hi // BLOCK
            for half in (0, BLOCK // 2):
                prefetch_read(flat, low * BLOCK + half)
                prefetch_read(flat, high * BLOCK + half)
            if high - low > 1:
                row = np.int64(level[high - low - 1])
                prefetch_read(table, row * blocks + low + 1)
                prefetch_read(table, row * blocks + high - (1 << row))
        for e in range(start, stop):
            ahead = min(e + BATCH, len(source) - 1)
            prefetch_read(position, source[ahead])
            prefetch_read(position, target[ahead])
            lo, hi = first[e - start], last[e - start]
            if hi < lo:
                found[e] = end
                loops += 1
                continue
            low, high = lo // BLOCK, hi // BLOCK
            low_from, low_to = np.int32(lo - low * BLOCK), np.int32(min(hi - low * BLOCK, BLOCK))
            high_from, high_to = np.int32(max(lo - high * BLOCK, 0)), np.int32(hi - high * BLOCK)
            merge = none
            # Both blocks in full, as SIMD: a loop over only the gaps in between mispredicts a branch on every edge.
            for k in range(BLOCK):
                j = np.int32(k)
                x, y = gap[low, k], gap[high, k]
                x = x if (j >= low_from) & (j <= low_to) else none
                y = y if (j >= high_from) & (j <= high_to) else none
                merge = max(merge, x, y)
            if high - low > 1:
                row = np.int64(level[high - low - 1])
                merge = max(merge, table[row * blocks + low + 1], table[row * blocks + high - (1 << row)])
            found[e] = merge
            unjoined += merge == end
    return loops, unjoined, -1


@kernel
def tally_edges(found, weight, rule, width, tally):
    """Add each weight to its merge, as a sum or a maximum; if `width` is 2, also count it."""
    means = is_mean(rule.code)
    for e in range(len(found)):
        prefetch_write(tally, width * found[min(e + AHEAD, len(found) - 1)])
        at, w = width * found[e], rule.scale * weight[e]
        if means:
            tally[at] += w
        else:
            tally[at] = w if w > tally[at] or np.isnan(w) else tally[at]
        if width == 2:
            tally[at + 1] += 1


@kernel
def find_levels(merges, fault, levels):
    """Count the merges above every node and merge."""
    left, right, _, _ = merges
    node, merge = levels
    node[:] = 0
    merge[:] = 0
    for i in range(len(left) - 1, -1, -1):
        if joins(fault[i]):
            a, b = left[i], right[i]
            merge[i] = node[a]
            node[a] += 1
            node[b] = node[a]


@kernel
def find_halvings(source, target, found, levels, halvings):
    """Count the merges between each edge and the merge that joins it; 0 if none does."""
    node, merge = levels
    end = len(merge) - 1
    for e in range(len(source)):
        halvings[e] = node[source[e]] + node[target[e]] - 2 * merge[found[e]] - 2 if found[e] < end else 0


@kernel
def tally_halves(found, weight, halvings, rule, tally):
    """Add to each merge what its edges count for: of their weights, and of 1; and their number."""
    for e in range(len(found)):
        prefetch_write(tally, 3 * found[min(e + AHEAD, len(found) - 1)])
        at, halved = 3 * found[e], -int(halvings[e])
        tally[at] += math.ldexp(rule.scale * weight[e], halved)
        tally[at + 1] += math.ldexp(1.0, halved)
        tally[at + 2] += 1


@inlined
def mean_height(rule, total, count, pairs):
    """Return W from the sum or the largest of all weights, and how far rounding may have moved it."""
    w = linkage_weight(rule, total, count, pairs)
    if w == np.inf or not is_mean(rule.code):
        return w, 0.0
    absolute = Rule(rule.code, abs(rule.fill), rule.ceiling, rule.scale)
    return w, (count + ROUNDINGS) * EPS * linkage_weight(absolute, abs(total), count, pairs) + TINY


@inlined
def weighted_height(rule, total, mass, count, levels):
    """Return W by weighted linkage from what the edges count for, and how far rounding may have moved it.

    `mass` is what they count for of 1, as if it were 1 where no pair is missing.
    """
    absent = max(0.0, 1.0 - mass)
    fill = rule.fill if absent > 0 else 0.0
    steps = count + levels
    slack = (steps + ROUNDINGS) * EPS * (abs(total) + absent * abs(fill)) + steps * LEAST + TINY
    return total + absent * fill, slack + (count * EPS * abs(fill) if levels > BITS else 0.0)


@inlined
def ward_height(total, inner, sizes):
    """Return the square of W by ward linkage from the squares between and inside two clusters, and its slack."""
    a, b = np.float64(sizes[0]), np.float64(sizes[1])
    inside = inner[0] * (b / a) + inner[1] * (a / b)
    pairs = (a + b) * (a + b - 1) / 2
    slack = (pairs + ROUNDINGS) * EPS * (total + inside) * 2 / (a + b)
    return 2 * (total - inside) / (a + b), slack + TINY


@kernel
def compare_heights(merges, tally, rule, live, fault, leeway):
    """Find the merges whose height does not follow from their edges.

    Returns the largest relative error, the first merge with a fault, and the height that follows from its edges; -1
    and NaN if there is none.
    """
    left, right, height, _ = merges
    size, top, slacks, inner = live
    width, squares = len(tally) // (len(left) + 1), rule.code == SQUARES_FULL
    worst, first, expected = 0.0, -1, np.nan
    for i in range(len(left)):
        w = np.nan
        if joins(fault[i]):
            a, b, h = left[i], right[i], rule.scale * height[i]
            pairs = np.float64(size[a]) * size[b]
            total, count = tally[width * i], tally[width * (i + 1) - 1] if width > 1 else 1.0
            why, slack = 0, 0.0
            if count == 0 or total == -np.inf:
                why = NO_EDGE
            elif count > pairs:
                why = TOO_MANY
            elif count < pairs and np.isnan(rule.fill):
                why = LACKS_PAIR
            else:
                if squares:
                    w, slack = ward_height(total, (inner[a], inner[b]), (size[a], size[b]))
                elif rule.code == HALF_FILLED:
                    mass = tally[width * i + 1] if count < pairs else 1.0
                    w, slack = weighted_height(rule, total, mass, count, inner[a] + inner[b])
                else:
                    w, slack = mean_height(rule, total, count, pairs)
                slack += leeway.inexact * abs(w)
                w = max(w, top[a], top[b]) if leeway.raised else w
                if w == np.inf:
                    why = MISSING_PAIR
                else:
                    # A merge that rounding put below one of its children was raised to the height of that child.
                    if slack > 0:
                        slack = max(slack, slacks[a] if h == top[a] else 0.0, slacks[b] if h == top[b] else 0.0)
                    error = abs(w - h * h) if squares else abs(w - h)
                    if not error <= slack + (ROUNDINGS * EPS * h * h if squares else 0.0):
                        why = WRONG_HEIGHT
                    w = np.sqrt(max(w, 0.0)) if squares else w
                    if abs(w - h) > 0:
                        worst = max(worst, abs(w - h) / max(abs(w), abs(h)))
            if fault[i] == 0:
                fault[i] = why
            size[a] += size[b]
            top[a], slacks[a] = h, slack
            if squares:
                inner[a] += inner[b] + total
            elif rule.code == HALF_FILLED:
                inner[a] = max(inner[a], inner[b]) + 1
        if fault[i] != 0 and first < 0:
            first, expected = i, rule.scale * w + 0.0  # turns -0.0 into 0.0
    return worst, first, expected
