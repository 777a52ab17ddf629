"""The way of a node up its tree: every cluster that contains it.

1. Merges with the same `left` are nested, the later the larger, and precede the merge in which that node is `right`.
2. So the clusters that contain a node are the unions of all merges whose `left` it is, then of the merge whose `right`
   it is, which goes over to its parent; of the parent's merges those that are larger; and so on to the smallest node of
   the tree. Each is larger than the one before, which is all that orders them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.tree.merges import find_line
from dask_rac.tree.cuts import CutForest
from dask_rac.tree.top import Branch

Column = NDArray[Any]


@dataclass(frozen=True)
class Path:
    """The merges from a node to the root of its tree, one item each."""

    right: Column
    """The `right` node of each merge, which identifies it."""
    node: Column
    """The smallest node of the cluster."""
    height: NDArray[np.float64]
    size: Column
    """The number of its nodes."""
    joined: Column
    """The smallest node of the part that the node was not in."""

    @property
    def joined_size(self) -> Column:
        """The number of nodes of that part."""
        return np.diff(self.size, prepend=1)


def path_of(forest: CutForest, node: int) -> Path:
    """Return the path of a node."""
    parent, size, distance = forest.vectors
    line = find_line(parent, node)
    least = np.full(len(parent), len(parent) + 1, size.dtype)
    least[line[0]] = 1
    least[line[1:]] = size[line[:-1]]
    right = np.flatnonzero(size >= least[parent])
    right = right[np.argsort(size[right])]
    left = parent[right]
    height = forest.sign * distance[right] + 0.0
    return Path(right, left, height, size[right], np.where(np.isin(right, line), left, right))


def lowest_common(forest: CutForest, a: int, b: int) -> Branch | None:
    """Return the smallest cluster that holds two nodes; None if they are in different trees."""
    if a == b:
        return Branch(a, 1, np.nan)
    one, other = path_of(forest, a), path_of(forest, b)
    common = np.flatnonzero(np.isin(one.right, other.right))
    if not len(common):
        return None
    first = int(common[0])
    return Branch(int(one.node[first]), int(one.size[first]), float(one.height[first]))
