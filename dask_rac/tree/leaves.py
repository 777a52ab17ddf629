"""The nodes as leaves, in an order where every cluster is an interval: what finds the merge that joins two nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.ids import IdType, cluster_id_dtype
from dask_rac.kernels import audit as kernels
from dask_rac.kernels.arrays import Ids, Merges
from dask_rac.kernels.tree.merges import join_sizes


def ordered_leaves(n_nodes: int, merges: Merges) -> kernels.Leaves:
    """Return the leaves of merges that are known to be sound, each after those below it."""
    size: Ids = np.ones(n_nodes, cluster_id_dtype(n_nodes))
    join_sizes(merges.left, merges.right, size)
    placed = place_leaves(n_nodes, merges, np.zeros(len(merges.left), np.uint8), size)
    del size
    return table_leaves(*placed)


def place_leaves(n_nodes: int, merges: Merges, faults: NDArray[np.uint8], size: Ids) -> tuple[Ids, Ids]:
    """Return the place of each node and the merges between places; `size`, as all merges left it, is used up."""
    ids = cluster_id_dtype(n_nodes)
    blocks = max(1, -(-n_nodes // kernels.BLOCK))
    position, gap = np.empty(n_nodes, ids), _aligned(blocks * kernels.BLOCK, ids)
    kernels.place_leaves(merges, faults, size, position, gap)
    return position, gap.reshape(blocks, kernels.BLOCK)


def table_leaves(position: Ids, gap: Ids) -> kernels.Leaves:
    """Return the leaves with a table of the last merge in many blocks."""
    level = np.log2(np.maximum(1, np.arange(len(gap)))).astype(np.uint8)
    return kernels.Leaves(position, gap, _last_in_blocks(gap), level)


def _aligned(length: int, dtype: IdType) -> Ids:
    """Return an uninitialized array whose blocks are aligned as kernels expect."""
    spare = kernels.BLOCK_BYTES // dtype.itemsize
    room = np.empty(length + spare, dtype)
    start = -room.ctypes.data % kernels.BLOCK_BYTES // room.itemsize
    return room[start : start + length]


def _last_in_blocks(gap: Ids) -> Ids:
    """Return the last merge in the 1, 2, 4, ... blocks that begin with each block, concatenated."""
    rows = [gap.max(axis=1)]
    step = 1
    while 2 * step <= len(gap):
        wider = rows[-1].copy()
        np.maximum(wider[:-step], rows[-1][step:], out=wider[:-step])
        rows.append(wider)
        step *= 2
    return np.concatenate(rows)
