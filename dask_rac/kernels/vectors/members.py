"""What new vectors are to flat clusters, from the weight of each with every member.

A table has a row for each new vector and a column for each cluster, and holds the least weight with a member, the
largest, or the sum of all. Members come in the order of their nodes, and each row belongs to one thread, so that the
sums do not depend on how vectors are cut into blocks.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.vectors.lanes import LANES
from dask_rac.kernels.vectors.pairs import Points, last_term, line_inner, of_products
from dask_rac.kernels.vectors.triangle import PANEL_VALUES, weigh_line

LEAST, LARGEST, SUM = range(3)


@inlined
def fold_member(code, row, c, weight, share):
    """Add the weight of a member of cluster `c` to a row of a table."""
    if code == SUM:
        row[c] += share * weight
    elif (code == LEAST and weight < row[c]) or (code == LARGEST and weight > row[c]):
        row[c] = weight


@kernel
def fold_dense(own, others, metric: int, members, table, span) -> None:
    """Fold the weights of dense vectors `[lo, hi)` with all others into their rows of a table.

    `members` is how weights are folded, and the cluster and the share of each of the others; those of no cluster have
    a cluster below 0.
    """
    code, cluster, share = members
    lo, hi = span
    count, dimensions = others.shape
    width = LANES * max(1, PANEL_VALUES // (LANES * dimensions))
    panels = np.zeros((width // LANES, dimensions * LANES), np.float64)
    line, rest = np.empty(width, np.float64), np.empty(width, np.float64)
    for begin in range(0, count, width):
        end = min(begin + width, count)
        for j in range(begin, end):
            panel, lane = divmod(j - begin, LANES)
            for k in range(dimensions):
                panels[panel, lane + LANES * k] = others[j, k]
        for i in range(lo, hi):
            weigh_line(own, i, panels, metric, line[: end - begin], rest)
            row = table[i]
            for j in range(begin, end):
                if cluster[j] >= 0:
                    fold_member(code, row, cluster[j], line[j - begin], share[j])


@kernel
def fold_sparse(own: Points, others: Points, metric: int, members, table, span) -> None:
    """Fold the weights of sparse vectors with all others, as `fold_dense` does."""
    code, cluster, share = members
    line = np.zeros(1 + max(last_term(own), last_term(others)), np.float64)
    weights = np.zeros(len(others.start) - 1, np.float64)
    for i in range(span[0], span[1]):
        row = table[i]
        for e in range(own.start[i], own.start[i + 1]):
            line[own.term[e]] = own.value[e]
        for j in range(len(weights)):
            weights[j] = line_inner(line, others, j) if cluster[j] >= 0 else 0.0
        of_products(own, i, others, (0, 1), metric, weights)
        for j in range(len(weights)):
            if cluster[j] >= 0:
                fold_member(code, row, cluster[j], weights[j], share[j])
        for e in range(own.start[i], own.start[i + 1]):
            line[own.term[e]] = 0.0


@kernel
def fold_given(weights, members, table, span) -> None:
    """Fold weights that are given, one row per new vector and one column per node, into rows of a table."""
    code, cluster, share = members
    for i in range(span[0], span[1]):
        row = table[i]
        for j in range(len(cluster)):
            if cluster[j] >= 0:
                fold_member(code, row, cluster[j], weights[i, j], share[j])


@kernel
def add_members(others, cluster, share, total) -> None:
    """Add the share of each vector to the total of its cluster."""
    for j in range(len(others)):
        c = cluster[j]
        if c >= 0:
            for k in range(others.shape[1]):
                total[c, k] += share[j] * others[j, k]


@kernel
def add_spreads(others, cluster, share, centre, spread) -> None:
    """Add the share of the squared distance of each vector from the centre of its cluster."""
    for j in range(len(others)):
        c = cluster[j]
        if c >= 0:
            square = 0.0
            for k in range(others.shape[1]):
                apart = others[j, k] - centre[c, k]
                square += apart * apart
            spread[c] += share[j] * square
