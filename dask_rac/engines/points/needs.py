"""What the points engine holds in memory: numbers in, numbers out."""

from __future__ import annotations

import math

from dask_rac.base.errors import ResourceError
from dask_rac.base.text import size_text
from dask_rac.engines.contract import Limits
from dask_rac.kernels.points.search import SHELF
from dask_rac.vectors.sources.opening import VectorSource

VALUE_BYTES = 12  # a mean in float64, and what products see of it in float32
NODE_BYTES = 300  # whatever the dimensions: a cluster, a pair, a merge
ENTRY_BYTES = 4  # of a list
NEAR_BYTES = 28  # per neighbour from which lists begin: a near pair, and its weight in a list
CANDIDATE_BYTES = 20  # on a shelf
STATE_BYTES, MERGE_BYTES = 80, 40  # of a cluster on disk, beside its mean and its list; of a merge
BLOCK_BYTES = 2**27  # of vectors that are read, and their like


def points_bytes(nodes: int, dimensions: int, threads: int, limits: Limits) -> int:
    """Return the memory that all pairs of some vectors need, beside the vectors themselves."""
    each = VALUE_BYTES * dimensions + NODE_BYTES + ENTRY_BYTES * limits.lists
    each += NEAR_BYTES * min(limits.near, limits.lists)
    rows = min(limits.query_rows, nodes)
    shelves = rows * (SHELF * (limits.lists + 1) * CANDIDATE_BYTES + 4 * dimensions)
    blocks = min(BLOCK_BYTES, 32 * nodes * dimensions)
    return nodes * each + blocks + threads * (4 * limits.query_tile + shelves)


def stored_bytes(nodes: int, dimensions: int, limits: Limits) -> int:
    """Return the most bytes that a run has on disk, beside the vectors: two states, and the merges."""
    state = 8 * dimensions + ENTRY_BYTES * limits.lists + STATE_BYTES
    return nodes * max(2 * state + MERGE_BYTES, 2 * NEAR_BYTES * limits.near)


def refuse_large(source: VectorSource, memory: int, threads: int, limits: Limits) -> None:
    """Raise if all pairs of some vectors do not fit in `memory` bytes."""
    needed = points_bytes(source.rows, source.dimensions, threads, limits)
    refuse_bytes(needed, source.rows, source.dimensions, memory)


def refuse_bytes(needed: int, nodes: int, dimensions: int, memory: int) -> None:
    """Raise if what the centroids of some vectors need is more than `memory` bytes."""
    if needed > memory:
        raise ResourceError(
            f"the centroids of {nodes:,} vectors with {dimensions:,} dimensions need {size_text(needed)} of memory, "
            f"and {size_text(memory)} may be used: set memory='{math.ceil(needed / 1e6)}MB' or more"
        )
