"""All pairs of a condensed vector of distances, as scipy's pdist returns it."""

from __future__ import annotations

from math import isqrt

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Listener
from dask_rac.base.spans import batches
from dask_rac.kernels.vectors.distances import take_reversed
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.faults import refuse_values
from dask_rac.vectors.pairs.numbers import Numbers
from dask_rac.vectors.pairs.triangle import Progress, rows_of, triangle_entries, triangle_spans

PIECE = 2**22  # values read at a time


def points_of(length: int) -> int:
    """Return how many points have this number of pairs, or the next smaller one."""
    return (1 + isqrt(1 + 8 * length)) // 2


class CondensedPairs:
    """All pairs of a condensed vector."""

    weights = "distance"
    squares = False

    def __init__(self, numbers: Numbers) -> None:
        self.nodes, self.name = points_of(numbers.shape[0]), numbers.name
        self._numbers = numbers

    def check(self, team: Team, report: Listener) -> None:
        """Do nothing: length and dtype were checked when the vector was opened, values are while it is read."""

    def fill(self, triangle: NDArray[np.float64], team: Team, report: Listener) -> None:
        """Read the vector into the triangle, and raise unless all values are distances."""
        spans = triangle_spans(self.nodes, max(team.threads * 4, len(triangle) // PIECE))
        progress = Progress(self.nodes, len(spans), report)

        def take(span: tuple[int, int]) -> int:
            bad = self.take(*span, rows_of(triangle, *span))
            progress.add()
            return bad

        if sum(team.run(take, spans) if self._numbers.near else map(take, spans)):
            self.refuse_values()

    def read(self, first: int, last: int, out: NDArray[np.float64]) -> None:
        """Read rows `first` to `last` of the triangle."""
        self.take(first, last, out)

    def take(self, first: int, last: int, out: NDArray[np.float64]) -> int:
        """Read rows `first` to `last` of the triangle; return how many values are not valid."""
        end = triangle_entries(self.nodes)
        return take_reversed(self._numbers.read((end - triangle_entries(last), end - triangle_entries(first))), out)

    def refuse_values(self) -> None:
        """Raise, naming the first value that is not a distance."""
        spans = batches(0, triangle_entries(self.nodes), PIECE)
        refuse_values(((span[0], self._numbers.read(span)) for span in spans), self._where)

    def _where(self, position: int) -> str:
        """Return the place of a value."""
        behind = triangle_entries(self.nodes) - 1 - position
        slot = points_of(behind)
        pair = self.nodes - 1 - slot, self.nodes - 1 - (behind - triangle_entries(slot))
        return f"position {position} of {self.name}, the pair {pair},"
