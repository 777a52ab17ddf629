"""The order of a pass over all pairs, and the parts that it is cut into: neither changes what the pass finds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.spans import Span
from dask_rac.engines.certain.groups import Grouped
from dask_rac.kernels.certain.arrays import Order, Part
from dask_rac.kernels.certain.fold import PIECE
from dask_rac.vectors.pairs.triangle import triangle_entries


class Job(NamedTuple):
    """A part of a triangle that one thread fills: whole rows, or a part of one row."""

    first: int
    """The first row of the triangle."""
    last: int
    """The row after the last one."""
    column: int
    """The first of the clusters that those of the rows are compared with; of these only later ones."""
    end: int
    """The cluster after the last of these."""


class Reducer(Protocol):
    """Reduces the pairs of some vectors to those of their clusters; several threads may do so at once."""

    @property
    def begin(self) -> NDArray[np.int64]:
        """Where each cluster begins among the vectors that are compared, and where the last one ends."""

    def fill(self, job: Job, base: int, out: NDArray[np.float64]) -> None:
        """Write the entries of a part of the triangle, of which `out` holds the entries from `base` on."""


def order_of(groups: Grouped) -> Order:
    """Return the order of a pass."""
    cluster = np.repeat(np.arange(groups.clusters), np.diff(groups.begin))
    return Order(groups.row, groups.begin, cluster, groups.share[groups.row])


def parts_of(order: Order, job: Job, base: int, rows: int) -> Iterator[Part]:
    """Cut a job into parts of whole pieces, of at most `rows` rows if pieces allow."""
    clusters = len(order.begin) - 1
    first, last = clusters - job.last, clusters - job.first
    column, end = int(order.begin[job.column]), int(order.begin[job.end])
    ends = _piece_ends(order.begin[first : last + 1])
    place, number = int(order.begin[first]), 0
    while number < len(ends):
        number = max(number + 1, int(np.searchsorted(ends, place + rows, side="right")))
        stop = int(ends[number - 1])
        yield Part(place, stop, column, end, -base, np.empty(stop - place))
        place = stop


def _piece_ends(begin: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each piece of some clusters ends."""
    pieces = -(-np.diff(begin) // PIECE)
    cluster = np.repeat(np.arange(len(pieces)), pieces)
    number = np.arange(len(cluster)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    ends: NDArray[np.int64] = np.minimum(begin[cluster] + (number + 1) * PIECE, begin[cluster + 1])
    return ends


def whole_job(rows: Span, clusters: int) -> Job:
    """Return the job of whole rows."""
    return Job(*rows, 0, clusters)


def jobs_of(begin: NDArray[np.int64], count: int) -> list[Job]:
    """Return about `count` jobs with the same number of pairs of vectors; a row with many is cut by its columns."""
    size, clusters = np.diff(begin), len(begin) - 1
    work = (size * (begin[-1] - begin[1:]))[::-1]  # by slot
    most = max(1.0, float(work.sum()) / count)
    jobs, first = [], 0
    ends = np.cumsum(work)
    while first < clusters:
        before = float(ends[first - 1]) if first else 0.0
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        if last == first + 1 and work[first] > 2 * most:
            jobs += _cut_columns(begin, first, round(float(work[first]) / most))
        else:
            jobs.append(whole_job((first, last), clusters))
        first = last
    return jobs


def _cut_columns(begin: NDArray[np.int64], slot: int, count: int) -> list[Job]:
    """Cut a row into jobs of about as many vectors to compare with."""
    clusters = len(begin) - 1
    later = clusters - slot
    place = np.linspace(begin[later], begin[-1], count + 1)[1:-1]
    cuts = np.unique([later, *np.searchsorted(begin, place).tolist(), clusters]).tolist()
    return [Job(slot, slot + 1, *columns) for columns in pairwise(cuts)]


def job_run(job: Job, clusters: int) -> Span:
    """Return the entries of a triangle that a job fills: whole rows, or a run of one row."""
    slot, last = job.first, job.last
    if last > slot + 1:
        return triangle_entries(slot), triangle_entries(last)
    low, high = clusters - job.end, min(slot, clusters - job.column)
    return triangle_entries(slot) + low, triangle_entries(slot) + max(low, high)
