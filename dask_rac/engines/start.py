"""The clusters that an engine for all pairs starts from: single nodes, or groups of nodes that are merged already."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Start(NamedTuple):
    """Clusters, in ascending order of their ids."""

    ids: NDArray[np.int64]
    """The smallest node of each."""
    size: NDArray[np.float64]
    """How many nodes it has."""
    member: NDArray[np.int64]
    """The nodes of the first cluster in ascending order, then those of the second, and so on."""
    begin: NDArray[np.int64]
    """Where the nodes of each begin, and where the last ones end."""

    @property
    def nodes(self) -> int:
        """The number of nodes in all clusters."""
        return len(self.member)


def single_nodes(nodes: int) -> Start:
    """Return the clusters of one node each."""
    ids = np.arange(nodes)
    return Start(ids, np.ones(nodes), ids, np.arange(nodes + 1))
