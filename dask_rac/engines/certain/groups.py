"""The clusters that certain rounds have left, as a pass over all pairs takes them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Grouped(NamedTuple):
    """The distinct vectors of each cluster, clusters in ascending order of their ids."""

    row: NDArray[np.int64]
    """Rows of the distinct vectors, cluster after cluster, ascending within each."""
    begin: NDArray[np.int64]
    """Where the rows of each cluster begin, and where the last ones end."""
    share: NDArray[np.float64]
    """What each vector counts for, by its row: its size; by weighted linkage 2^-depth of it in its cluster."""

    @property
    def clusters(self) -> int:
        """The number of clusters."""
        return len(self.begin) - 1
