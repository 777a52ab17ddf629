"""Lists of nearest neighbours: united, and turned into edges."""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.pairs import Points, weigh


@inlined
def _insert(neighbour, weight, at, j, value):
    """Put a neighbour into a list in order, of which `at` are there before the place that is given up."""
    while at > 0 and (weight[at - 1] > value or (weight[at - 1] == value and neighbour[at - 1] > j)):
        weight[at], neighbour[at] = weight[at - 1], neighbour[at - 1]
        at -= 1
    weight[at], neighbour[at] = value, j


@kernel
def rank_candidates(points: Points, rows, candidates, k: int, metric: int, out) -> None:
    """The k nearest of some candidates of each row, by weight and then by id, the row itself not among them.

    `candidates` is where those of each row begin, and their ids; ids below 0 stand for nobody.
    """
    start, other = candidates
    found, neighbour, weight = out
    for row in range(len(rows)):
        i, kept = rows[row], 0
        for e in range(start[row], start[row + 1]):
            j = other[e]
            if j < 0 or j == i:
                continue
            value = weigh(points, i, points, j, metric)
            at = kept
            if kept == k:
                at -= 1
                if value > weight[row, at] or (value == weight[row, at] and j > neighbour[row, at]):
                    continue
            else:
                kept += 1
            _insert(neighbour[row], weight[row], at, j, value)
        found[row] = kept


@kernel
def unite_lists(best, more, k: int) -> None:
    """Put further neighbours of every row into its list of the k nearest so far, by weight and then by id.

    `best` is the number, ids and weights of each row; `more` where those of each row begin, ids and weights, in order.
    """
    found, neighbour, weight = best
    start, other, value = more
    for row in range(len(found)):
        for e in range(start[row], start[row + 1]):
            at = found[row]
            if at == k:
                at -= 1
                if value[e] > weight[row, at] or (value[e] == weight[row, at] and other[e] > neighbour[row, at]):
                    break
            else:
                found[row] += 1
            _insert(neighbour[row], weight[row], at, other[e], value[e])


@kernel
def mark_returned(neighbour, weight, first: int, bounds, returned) -> None:
    """Whether each neighbour has the row among its own k nearest, by the weight and the id of everybody's last one."""
    reach, last = bounds
    for row in range(neighbour.shape[0]):
        i = first + row
        for e in range(neighbour.shape[1]):
            j, w = neighbour[row, e], weight[row, e]
            returned[row, e] = w < reach[j] or (w == reach[j] and i <= last[j])


@kernel
def mark_listed(neighbour, returned) -> None:
    """Whether each neighbour has the row in its list, by looking there; ids below 0 stand for nobody."""
    for i in range(neighbour.shape[0]):
        for e in range(neighbour.shape[1]):
            j = neighbour[i, e]
            listed = False
            if j >= 0:
                for f in range(neighbour.shape[1]):
                    listed |= neighbour[j, f] == i
            returned[i, e] = listed


@kernel
def pick_edges(neighbour, returned, first: int, mutual: bool, picked) -> int:
    """Mark the neighbours that give an edge, each edge at one of its ends; gives how many there are."""
    count = 0
    for row in range(neighbour.shape[0]):
        i = first + row
        for e in range(neighbour.shape[1]):
            j = neighbour[row, e]
            both = returned[row, e]
            here = j >= 0 and ((j > i and both) if mutual else (j > i or not both))
            picked[row, e] = here
            count += here
    return count


@kernel
def join_ends(source, target, parent) -> None:
    """Unite the components of both ends of every edge; the smallest node stands for a component."""
    for e in range(len(source)):
        i, j = source[e], target[e]
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        while parent[j] != j:
            parent[j] = parent[parent[j]]
            j = parent[j]
        if i < j:
            parent[j] = i
        elif j < i:
            parent[i] = j


@kernel
def component_sizes(parent, size) -> None:
    """The number of nodes of each component, at the node that stands for it."""
    for node in range(len(parent)):
        root = parent[node]
        while parent[root] != root:
            root = parent[root]
        parent[node] = root
        size[root] += 1


def new_parents(nodes: int) -> np.ndarray:
    """Every node a component by itself."""
    return np.arange(nodes, dtype=np.int32 if nodes < 2**31 else np.int64)
