"""Match: find the reciprocal pairs of a round, record their merges, and tell whose nearest must be searched for."""

import numpy as np

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.matrix.weights import WARD


@kernel
def match(triangle, groups, found, ceiling):
    """Find all reciprocal pairs; return their number, and how many slots must be searched for."""
    nearest, partner = groups.nearest, found.partner
    pairs = searches = 0
    for s in range(len(nearest)):
        partner[s] = -1
    for s in range(len(nearest)):
        t = nearest[s]
        if triangle.start[s] >= 0 and t > s and nearest[t] == s and groups.height[s] <= ceiling:
            found.lower[pairs], found.upper[pairs] = s, t
            partner[s], partner[t] = t, s
            pairs += 1
    for s in range(len(nearest)):
        if triangle.start[s] < 0:
            continue
        if partner[s] > s or (partner[s] < 0 and nearest[s] >= 0 and partner[nearest[s]] >= 0):
            found.search[searches] = s
            searches += 1
    return pairs, searches


@kernel
def unite(code, triangle, groups, found, pairs, merges) -> None:
    """Make each pair one cluster in its lower slot, and write the merges; entries are not folded yet."""
    entry, start = triangle
    ids, size, within, inner, _, height, head, tail = groups
    left, right, merge_height, merge_size = merges
    for k in range(pairs):
        c, d = found.lower[k], found.upper[k]
        left[k], right[k] = min(ids[c], ids[d]), max(ids[c], ids[d])
        merge_height[k], merge_size[k] = height[c], size[c] + size[d]
        if code == WARD:
            within[c] += within[d] + entry[start[d] + c]
            inner[c] = within[c] / (size[c] + size[d])
        ids[c], size[c] = left[k], size[c] + size[d]
        found.after[tail[c]] = head[d]
        tail[c] = tail[d]


@kernel
def live_slots(triangle, found):
    """Return the slots whose rows go on after this round."""
    live = np.empty(len(triangle.start), np.int64)
    count = 0
    for s in range(len(live)):
        if triangle.start[s] >= 0 and not 0 <= found.partner[s] < s:
            live[count] = s
            count += 1
    return live[:count]


@kernel
def end_pairs(triangle, groups, found, pairs) -> None:
    """Let the upper slots of pairs be dead."""
    for k in range(pairs):
        d = found.upper[k]
        triangle.start[d], groups.nearest[d], groups.height[d] = -1, -1, -np.inf
