"""Walks over all clusters of a tree: to which branch each belongs, and which nodes joined first."""

from dask_rac.kernels.jit import kernel


@kernel
def inherit(end, mark):
    """Give each cluster without a mark, which is -1, that of the cluster it merges into; roots keep theirs."""
    for k in range(len(end) - 1, -1, -1):
        if mark[k] < 0 and end[k] < len(end):
            mark[k] = mark[end[k]]


@kernel
def find_first_nodes(parts, mark, above, seen, chosen):
    """Find the nodes that join first in each wanted cluster: into `chosen`, one row per cluster, filled with -1.

    `parts` are the smallest nodes of the two parts of each merge, in order; `mark` is the innermost wanted cluster
    around a merge, `above` the next one around a wanted cluster, -1 for none; `seen` starts as false for each node.
    A cluster has all nodes of those in it, so a walk outwards ends at the first that is full: the work is that of
    visiting every merge once.
    """
    left, right = parts
    for k in range(len(left)):
        for node in (left[k], right[k]):
            if not seen[node]:
                seen[node] = True
                cluster = mark[k]
                while cluster >= 0 and chosen[cluster, -1] < 0:
                    place = 0
                    while chosen[cluster, place] >= 0:
                        place += 1
                    chosen[cluster, place] = node
                    cluster = above[cluster]
