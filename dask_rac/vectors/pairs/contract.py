"""What all pairs of some nodes are, wherever their weights come from.

Weights are held in one triangle: nodes are taken in reverse, slot s is node n - 1 - s, and row s begins at
s (s - 1) / 2 of a flat array and holds the weights of slot s with the slots t < s. This is scipy's condensed vector
from its end to its start. Smaller weights mean nearer nodes: similarities are negated.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Listener
from dask_rac.tasks.team import Team


class AllPairs(Protocol):
    """The weights of all pairs of some nodes."""

    @property
    def nodes(self) -> int:
        """The number of nodes, at least 1."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def weights(self) -> str:
        """What the weights are: "distance", or "similarity", which the triangle holds negated."""

    @property
    def squares(self) -> bool:
        """Whether the triangle holds squared distances: where they are computed, no root is taken for ward linkage."""

    def check(self, team: Team, report: Listener) -> None:
        """Raise if the input cannot be used, as far as can be known without room for the triangle."""

    def fill(self, triangle: NDArray[np.float64], team: Team, report: Listener) -> None:
        """Write the whole triangle; raise if the input cannot be used."""

    def read(self, first: int, last: int, out: NDArray[np.float64]) -> None:
        """Write rows `first` to `last` of the triangle to `out`, which holds these rows only; in any thread."""
