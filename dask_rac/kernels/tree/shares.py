"""The share that each node has in its flat cluster by weighted linkage: half of a cluster is each of its two parts."""

from dask_rac.kernels.jit import kernel


@kernel
def halve_shares(left, right, label, share) -> None:
    """Pass the share of each cluster on to its two parts, from the last merge to the first.

    Merges between nodes of two labels do not count. `share` is 1 for each node at first; a cluster has that of its
    smallest node.
    """
    for k in range(len(left) - 1, -1, -1):
        if label[left[k]] == label[right[k]]:
            share[left[k]] *= 0.5
            share[right[k]] = share[left[k]]
