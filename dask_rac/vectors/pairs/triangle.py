"""The triangle of all weights in memory: its size, its rows, and how it is filled."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Event, Listener
from dask_rac.base.spans import Span
from dask_rac.tasks.team import SPAN_ITEMS, Team
from dask_rac.vectors.pairs.contract import AllPairs

SPAN_ENTRIES = 2**23  # at most, so that progress is seen

ReadRows = Callable[[int, int, NDArray[np.float64]], None]


def triangle_entries(nodes: int) -> int:
    """Return the number of pairs of nodes, which is also where the row of slot `nodes` would begin."""
    return nodes * (nodes - 1) // 2


def triangle_bytes(nodes: int) -> int:
    """Return the memory that the triangle takes."""
    return triangle_entries(nodes) * np.dtype(np.float64).itemsize


def fill_triangle(pairs: AllPairs, team: Team, report: Listener) -> NDArray[np.float64]:
    """Return the triangle of all pairs, which are checked before."""
    triangle = np.empty(triangle_entries(pairs.nodes))
    pairs.fill(triangle, team, report)
    return triangle


def fill_rows(read: ReadRows, triangle: NDArray[np.float64], nodes: int, team: Team, report: Listener) -> None:
    """Fill a triangle with the rows that `read` writes, in the threads of a team."""
    spans = triangle_spans(nodes, max(team.threads * 4, len(triangle) // SPAN_ENTRIES))
    progress = Progress(nodes, len(spans), report)

    def fill(span: Span) -> None:
        read(*span, rows_of(triangle, *span))
        progress.add()

    team.run(fill, spans)


def rows_of(triangle: NDArray[np.float64], first: int, last: int) -> NDArray[np.float64]:
    """Return rows `first` to `last` of a triangle."""
    return triangle[triangle_entries(first) : triangle_entries(last)]


def triangle_spans(nodes: int, count: int) -> list[Span]:
    """Return at most `count` spans of rows with about the same number of entries, fewer if they would be small."""
    count = max(1, min(count, triangle_entries(nodes) // SPAN_ITEMS))
    ends = np.sqrt(np.arange(1, count) / count) * nodes
    cuts = [0, *np.unique(ends.astype(np.int64)).tolist(), nodes]
    return list(pairwise(cuts))


class Progress:
    """Counts the parts that threads have finished, and reports them."""

    def __init__(self, nodes: int, total: int, report: Listener) -> None:
        self._nodes, self._total, self._report, self._done, self._lock = nodes, total, report, 0, Lock()
        report(Event("pairs", n_nodes=nodes, total=total))

    def add(self) -> None:
        """Count one more."""
        with self._lock:
            self._done += 1
            self._report(Event("pairs", n_nodes=self._nodes, done=self._done, total=self._total))
