"""Unite: find the reciprocal pairs of a round, record their merges, and make each pair one cluster."""

import numpy as np

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.matrix.ties import Members
from dask_rac.kernels.points.arrays import Match
from dask_rac.kernels.points.screen import show
from dask_rac.kernels.points.weights import PRODUCTS, merged_bound
from dask_rac.kernels.vectors.pairs import dense_square


@kernel
def match(centroids, groups, ceiling):
    """Find all reciprocal pairs and whose nearest must be found again; also return the fewest nodes of a cluster."""
    size, nearest, height = centroids.size, groups.nearest, groups.height
    slots = len(nearest)
    lower, upper = np.empty(slots, np.int64), np.empty(slots, np.int64)
    search, partner = np.empty(slots, np.int64), np.full(slots, -1)
    pairs, least = 0, np.inf
    for s in range(slots):
        if size[s] > 0.0:
            least = min(least, size[s])
            t = nearest[s]
            if t > s and nearest[t] == s and height[s] <= ceiling:
                lower[pairs], upper[pairs] = s, t
                partner[s], partner[t] = t, s
                pairs += 1
    searches = 0
    for s in range(slots):
        if partner[s] > s or (partner[s] < 0 and nearest[s] >= 0 and partner[nearest[s]] >= 0):
            search[searches] = s
            searches += 1
    return Match(lower[:pairs], upper[:pairs], search[:searches], partner), least


@kernel
def unite(state, found, least, merges, span) -> None:
    """Make a range of the pairs one cluster each, in the lower slot, and write their merges; lists are left as is."""
    code, centroids, frame, screen, lists, groups = state
    mean, size, spread = centroids
    ids, nearest, height, root, head, tail, after = groups
    left, right, merge_height, merge_size = merges
    bound, half = lists.bound, screen.half
    for k in range(span[0], span[1]):
        i, j = found.lower[k], found.upper[k]
        a, b = size[i], size[j]
        left[k], right[k], merge_height[k], merge_size[k] = ids[i], ids[j], height[i], a + b
        bound[i] = merged_bound(code, (a, bound[i]), (b, bound[j]), height[i], least)
        own, other = mean[i], mean[j]
        if code != PRODUCTS:
            apart = (a / (a + b)) * (b / (a + b)) * dense_square(own, other)
            spread[i] = (a * spread[i] + b * spread[j]) / (a + b) + apart
        for t in range(len(own)):
            own[t] = (a * own[t] + b * other[t]) / (a + b)
        size[i], size[j] = a + b, 0.0
        nearest[j], height[j], half[j], root[j] = -1, np.inf, np.inf, i
        after[tail[i]] = head[j]
        tail[i] = tail[j]
        show(code, centroids, frame, screen, i)


@kernel
def flatten(root) -> None:
    """Let every slot know its live slot, after a round in which live slots have become part of others."""
    for s in range(len(root)):
        root[s] = root[root[s]]


@kernel
def link_members(member, begin):
    """Return the first and the last node of each cluster, and after each node the next one of its cluster."""
    slots = len(begin) - 1
    head, tail, after = np.empty(slots, np.int64), np.empty(slots, np.int64), np.full(len(member), -1)
    for s in range(slots):
        head[s], tail[s] = member[begin[s]], member[begin[s + 1] - 1]
        for k in range(begin[s], begin[s + 1] - 1):
            after[member[k]] = member[k + 1]
    return head, tail, after


@kernel
def list_members(centroids, groups):
    """List the nodes of all clusters; dead slots have none."""
    size, after, head = centroids.size, groups.after, groups.head
    slots = len(size)
    node, begin = np.empty(len(after), np.int64), np.empty(slots + 1, np.int64)
    end = 0
    for s in range(slots):
        begin[s] = end
        u = head[s] if size[s] > 0.0 else -1
        while u >= 0:
            node[end] = u
            end += 1
            u = after[u]
    begin[slots] = end
    return Members(node, begin, groups.ids)


@kernel
def close_up(state):
    """Move the live slots to the front, in place; return their number."""
    _, (mean, size, spread), _, screen, lists, groups = state
    row, half, inverse, square = screen
    entry, count, bound = lists
    ids, nearest, height, root, head, tail, _ = groups
    slots, live = len(size), 0
    place = np.empty(slots, np.int32)
    for s in range(slots):
        place[s] = live
        live += size[s] > 0.0
    for s in range(slots):
        if size[s] == 0.0:
            continue
        t = place[s]
        for k in range(count[s]):
            entry[t, k] = place[root[entry[s, k]]]
        near = nearest[s]
        mean[t], row[t] = mean[s], row[s]
        size[t], spread[t], half[t], inverse[t], square[t] = size[s], spread[s], half[s], inverse[s], square[s]
        count[t], bound[t], ids[t], height[t], head[t], tail[t] = (
            count[s],
            bound[s],
            ids[s],
            height[s],
            head[s],
            tail[s],
        )
        nearest[t] = place[near] if near >= 0 else near
    for t in range(live):
        root[t] = t
    return live
