"""All pairs of a square matrix of distances.

The matrix is read once, in bands of rows: what is right of the diagonal goes into the triangle, what is left of it is
compared with what the triangle already holds. Only a matrix that is refused is read again, for the message.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.events import Listener
from dask_rac.base.spans import Span, batches, even_spans
from dask_rac.kernels.vectors.distances import compare_lower, take_upper
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.faults import refuse_diagonal, refuse_values
from dask_rac.vectors.pairs.numbers import Numbers, held
from dask_rac.vectors.pairs.triangle import Progress, rows_of

ROUNDING = 1e-6  # fraction of the largest distance by which a matrix may be asymmetric
BAND = 2**23  # values of a band
LARGEST_BAND = 2**26  # where chunks are large
PART = 2**17  # values that a thread converts at a time: they stay in the cache, and in memory that was used before


class SquarePairs:
    """All pairs of a square matrix; where it is asymmetric by rounding, what is right of the diagonal counts."""

    weights = "distance"
    squares = False

    def __init__(self, numbers: Numbers) -> None:
        self.nodes, self.name = numbers.shape[0], numbers.name
        self._numbers = numbers

    def check(self, team: Team, report: Listener) -> None:
        """Do nothing: shape and dtype were checked when the matrix was opened, values are while it is read."""

    def fill(self, triangle: NDArray[np.float64], team: Team, report: Listener) -> None:
        """Read the matrix into the triangle, and raise unless it is one of distances."""
        bad, unequal = 0, 0.0
        spans = self.spans()
        progress = Progress(self.nodes, len(spans), report)
        for span in spans:
            worse, apart = self._take(triangle, team, span)
            bad, unequal = bad + worse, max(unequal, apart)
            progress.add()
        if bad:
            self.refuse_values()
        if unequal and unequal > (tolerance := ROUNDING * float(triangle.max(initial=0.0))):
            self._refuse_unequal(triangle, tolerance, unequal, team)

    def read(self, first: int, last: int, out: NDArray[np.float64]) -> None:
        """Read rows `first` to `last` of the triangle."""
        begin, end = self.nodes - last, self.nodes - first
        take_upper(self._numbers.read((begin, end), (begin, self.nodes)), out)

    def spans(self) -> list[Span]:
        """Return the rows of each band: those of whole chunks, unless these are too large."""
        chunk, height = self._numbers.chunk, max(1, BAND // self.nodes)
        whole = height - height % chunk if height >= chunk else min(chunk, max(1, LARGEST_BAND // self.nodes))
        return list(batches(0, self.nodes, whole))

    def _take(self, triangle: NDArray[np.float64], team: Team, span: Span) -> tuple[int, float]:
        """Read a band into the triangle; return how many values are not valid, and the largest difference."""
        band = _Band(self._numbers, span)
        bad = sum(team.run(band.take, band.heights(team), triangle))
        found = team.run(band.compare, band.widths(team), triangle, 0.0)
        return bad + sum(part[0] for part in found), max(part[1] for part in found)

    def refuse_values(self) -> None:
        """Raise, naming the first value that is not a distance."""
        parts = ((span[0] * self.nodes, self.band(span).ravel()) for span in self.spans())
        refuse_values(parts, lambda at: "row {}, column {} of {}".format(*divmod(at, self.nodes), self.name))
        diagonal = [np.diagonal(self.band(span), span[0]) for span in self.spans()]
        refuse_diagonal(np.concatenate(diagonal), self.name)

    def _refuse_unequal(self, triangle: NDArray[np.float64], tolerance: float, unequal: float, team: Team) -> None:
        """Raise, naming the first pair whose two distances differ."""
        count, first = 0, (self.nodes, self.nodes)
        for span in self.spans():
            band = _Band(self._numbers, span)
            for _, _, more, pair in team.run(band.compare, band.widths(team), triangle, tolerance):
                count, first = count + more, min(first, pair)
        self._refuse_pair(first, count, unequal)

    def refuse_unequal_rows(self, rows: NDArray[np.int64], tolerance: float) -> None:
        """Raise if the distances in some rows differ from those in the same columns, naming the first pair."""
        columns = np.concatenate([self.band(span)[:, rows] for span in self.spans()])
        lines = np.stack([self._numbers.read((row, row + 1), (0, self.nodes))[0] for row in rows.tolist()], axis=1)
        apart = np.abs(lines - columns)
        other, place = np.nonzero(apart > tolerance)
        if len(other):
            ends = np.sort(np.stack((rows[place], other)), axis=0)
            pairs = np.unique(ends, axis=1).T.tolist()
            self._refuse_pair((pairs[0][0], pairs[0][1]), len(pairs), float(apart.max()))

    def band(self, rows: Span) -> NDArray[np.float64]:
        """Read some rows."""
        return _Band(self._numbers, rows).all()

    def _refuse_pair(self, pair: tuple[int, int], count: int, unequal: float) -> None:
        """Raise, naming a pair whose two distances differ, the number of such pairs, and the largest difference."""
        i, j = pair
        upper, lower = (float(self._numbers.read((a, a + 1), (b, b + 1))[0, 0]) for a, b in ((i, j), (j, i)))
        differ = f"{count:,} pairs differ, by" if count > 1 else "they differ by"
        remedy = "use D + D.T if one triangle is empty, or" if 0 in (upper, lower) else "use"
        raise InputError(
            f"row {i}, column {j} of {self.name} is {upper:.6g}, but row {j}, column {i} is {lower:.6g}, and distances "
            f"must be symmetric: {differ} up to {unequal:.6g}; {remedy} (D + D.T) / 2"
        )


class _Band:
    """Some rows of a square matrix, in memory."""

    def __init__(self, numbers: Numbers, rows: Span) -> None:
        self._rows, self._nodes = rows, numbers.shape[0]
        self._first = 0 if numbers.near else rows[0]
        self._numbers = numbers if numbers.near else held(numbers.read(rows, (0, self._nodes)), numbers.name)

    def all(self) -> NDArray[np.float64]:
        """Return all values."""
        return self._part(self._rows, (0, self._nodes))

    def heights(self, team: Team) -> list[Span]:
        """Return spans of rows for threads."""
        first, last = self._rows
        parts = even_spans(last - first, self._parts(self._nodes - first, team))
        return [(first + start, first + stop) for start, stop in parts]

    def widths(self, team: Team) -> list[Span]:
        """Return spans of the columns left of the diagonal for threads."""
        return even_spans(self._rows[1], self._parts(self._rows[1], team))

    def _parts(self, columns: int, team: Team) -> int:
        """Return into how many parts some columns of the band are cut."""
        return max(team.threads, columns * (self._rows[1] - self._rows[0]) // PART)

    def take(self, triangle: NDArray[np.float64], rows: Span) -> int:
        """Copy what is right of the diagonal; return how many values are not valid."""
        first, last = rows
        out = rows_of(triangle, self._nodes - last, self._nodes - first)
        return take_upper(self._part(rows, (first, self._nodes)), out)

    def compare(
        self, triangle: NDArray[np.float64], tolerance: float, columns: Span
    ) -> tuple[int, float, int, tuple[int, int]]:
        """Compare what is left of the diagonal with the triangle, as `compare_lower` does."""
        part, corner = self._part(self._rows, columns), (self._rows[0], columns[0])
        found: tuple[int, float, int, tuple[int, int]]
        found = compare_lower(part, corner, self._nodes, triangle, tolerance)
        return found

    def _part(self, rows: Span, columns: Span) -> NDArray[np.float64]:
        """Return a part of the band as kernels take it."""
        return self._numbers.read((rows[0] - self._first, rows[1] - self._first), columns)
