"""Members that stand for a cluster, from the tree alone.

The edges or vectors of a run are not always at hand when its result is looked at, the tree is. A node that joins
others at a small distance lies where the cluster is dense; a node that joins last is at its rim. So the nodes of a
cluster that merge first, in the order of `tree.order`, are taken for its core.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.tree.branches import find_first_nodes, inherit
from dask_rac.tree.lifetimes import Lifetimes


def central_nodes(lives: Lifetimes, clusters: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the nodes that merge first in each of some clusters, given by their index: one row each, -1 for none."""
    wanted, place = np.unique(clusters, return_inverse=True)
    chosen = np.full((len(wanted), count), -1, np.int64)
    mark = np.full(len(lives), -1, lives.end.dtype)
    mark[wanted] = np.arange(len(wanted))
    inherit(lives.end, mark)
    outer = lives.end[wanted]
    above = np.where(outer < len(lives), mark[np.minimum(outer, len(lives) - 1)], -1) if len(wanted) else mark
    find_first_nodes((lives.node, lives.other), mark, above, np.zeros(lives.n_nodes, np.bool_), chosen)
    return chosen[place.reshape(-1)]
