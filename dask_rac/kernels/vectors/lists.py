"""Lists of nearest neighbours: combine them, and turn them into edges."""

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.union import find_root
from dask_rac.kernels.vectors.pairs import Points, weigh


@inlined
def _insert(neighbour, weight, at, j, value):
    """Insert a neighbour into a sorted list, of which the first `at` entries are kept."""
    while at > 0 and (weight[at - 1] > value or (weight[at - 1] == value and neighbour[at - 1] > j)):
        weight[at], neighbour[at] = weight[at - 1], neighbour[at - 1]
        at -= 1
    weight[at], neighbour[at] = value, j


@kernel
def rank_candidates(points: Points, rows, candidates, k: int, metric: int, out) -> None:
    """Write the k nearest candidates of each row, by weight and then by id, without the row itself.

    `candidates` is where those of each row begin, and their ids; ids below 0 are skipped.
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
    """Add further neighbours of every row to its list of the k nearest so far, by weight and then by id.

    `best` is the number, the ids and the weights of each row; `more` is where those of each row begin, their ids and
    their weights, sorted.
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
    """Mark each neighbour that has the row among its own k nearest, by weight and id of the last of these k."""
    reach, last = bounds
    for row in range(neighbour.shape[0]):
        i = first + row
        for e in range(neighbour.shape[1]):
            j, w = neighbour[row, e], weight[row, e]
            returned[row, e] = w < reach[j] or (w == reach[j] and i <= last[j])


@kernel
def mark_listed(neighbour, returned) -> None:
    """Mark each neighbour that has the row in its list, by searching that list; ids below 0 are skipped."""
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
    """Mark the neighbours that become an edge, each edge at one of its ends; return how many there are."""
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
    """Unite the components of both ends of every edge; the root of a component is its smallest node.

    At first, `parent` has every node as its own.
    """
    for e in range(len(source)):
        i, j = source[e], target[e]
        i = find_root(parent, i)
        j = find_root(parent, j)
        if i < j:
            parent[j] = i
        elif j < i:
            parent[i] = j


@kernel
def component_sizes(parent, size) -> None:
    """Count the nodes of each component at its root, and point every node there; `join_ends` has filled `parent`."""
    for node in range(len(parent)):
        root = parent[parent[node]]  # parents are smaller, so this one has been pointed at its root
        parent[node] = root
        size[root] += 1
