"""Match: find the pairs of a round, record their merges, and unite the clusters."""

import numpy as np

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.matrix.weights import LARGEST, MEAN


@kernel
def match(nearest, live, ceiling, found):
    """Find all clusters that are each other's nearest for certain; return the number of pairs."""
    slot, _, height = nearest
    lower, upper, partner = found
    pairs = 0
    for k in range(len(live)):
        partner[live[k]] = -1
    for k in range(len(live)):
        i = live[k]
        j = slot[i]
        if j > i and slot[j] == i and height[i] <= ceiling:
            lower[pairs], upper[pairs] = i, j
            partner[i], partner[j] = j, i
            pairs += 1
    return pairs


@kernel
def unite(code, field, height, found, pairs, merges) -> None:
    """Let the lower slot of each pair have both clusters, and write the merges; the rows are not folded yet.

    The radius of the two together: whoever has an entry to neither is at least as far from each as its radius. So W is
    at least the mean of the two, or for complete linkage the larger one. A mean that is rounded up is no bound, so it
    is never taken above the larger one: then radii that are all the same stay so.
    """
    _, size, radius, within = field
    left, right, merge_height, merge_size = merges
    for k in range(pairs):
        i, j = found.lower[k], found.upper[k]
        left[k], right[k] = field.ids[i], field.ids[j]
        merge_height[k], merge_size[k] = height[i], size[i] + size[j]
        within[i] += within[j]
        size[i] += size[j]
        larger = max(radius[i], radius[j])
        if code == LARGEST:
            radius[i] = larger
        elif code == MEAN:
            radius[i] = min(larger, within[i] / size[i])
        else:
            radius[i] = min(larger, 0.5 * (radius[i] + radius[j]))


@kernel
def go_on(live, partner):
    """Return the slots that go on after a round."""
    after = np.empty(len(live), np.int64)
    count = 0
    for k in range(len(live)):
        i = live[k]
        if not 0 <= partner[i] < i:
            after[count] = i
            count += 1
    return after[:count]


@kernel
def follow(partner, label, share) -> None:
    """Give rows the slot that their cluster has after a round, and halve what those of merged clusters count for."""
    for k in range(len(label)):
        i = label[k]
        j = partner[i]
        if j >= 0:
            share[k] *= 0.5
            label[k] = min(i, j)
