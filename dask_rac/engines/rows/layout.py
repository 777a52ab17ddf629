"""Where the nodes are cut into the shards of the first state, and how the edges get there.

With few shards, edges lie by block on their way: by the pair of shards that own their two ends. With S shards there are
S (S + 1) / 2 blocks, and who writes a piece of the input has to say where each begins. With many shards each end of an
edge goes to a group of shards first, and from there to its shard.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.spans import even_bins, spread
from dask_rac.engines.contract import Limits
from dask_rac.engines.rows.groups import Groups, groups_of
from dask_rac.engines.rows.scanning import Counted
from dask_rac.tasks.budget import Budget


@dataclass(frozen=True)
class Layout:
    """How the nodes are cut into shards."""

    bounds: tuple[int, ...]
    """The first node of each shard, then the number of nodes."""
    shift: int
    owner: NDArray[np.int64]
    """The shard of each group of `2 ** shift` nodes."""
    groups: Groups | None = None
    """By way of which ends of edges go to their shard; None if edges go by block."""

    @property
    def shards(self) -> int:
        """Number of shards."""
        return len(self.bounds) - 1

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.shards * (self.shards + 1) // 2

    def block(self, i: int, j: int) -> int:
        """The block of the edges between shards `i <= j`."""
        return i * self.shards - i * (i - 1) // 2 + j - i

    def within(self, pieces: int, limits: Limits) -> Layout:
        """Return the same by way of groups, if that is better for so many pieces of the input."""
        return replace(self, groups=groups_for(self.shards, pieces, limits))


def groups_for(shards: int, pieces: int, limits: Limits) -> Groups | None:
    """Return the groups by way of which edges go to so many shards; None if they had better go by block."""
    blocks = shards * (shards + 1) // 2
    return groups_of(shards) if pieces * blocks > limits.direct_blocks else None


def lay_out(
    counted: Counted, nodes: int, shard_entries: int, node_load: int = 0, budget: Budget | None = None
) -> Layout:
    """Cut the nodes into shards with about the same load: their entries, and as many as `node_load` for each node.

    With a budget there are as many as its threads can share evenly.
    """
    bins, shift = counted.bins, counted.shift
    load = bins + node_load * spread(nodes, len(bins), 1 << shift)
    shards = max(1, -(-int(load.sum()) // shard_entries))
    borders = even_bins(load, budget.evened(shards) if budget else shards)
    owner = np.repeat(np.arange(len(borders) - 1), np.diff(borders))
    return Layout(tuple(np.minimum(borders << shift, nodes).tolist()), shift, owner)
