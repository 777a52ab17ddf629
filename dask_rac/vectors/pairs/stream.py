"""Given distances that do not fit in memory, band by band, with all their faults found on the way.

A square matrix is symmetric if D s = D' s for every vector s. Both products are added up while the bands go by, for one
random s, in O(n) memory; only where they differ are rows compared with columns. That a difference of two distances does
not show has no chance worth mention, unless many others differ by rounding: then one that is not much larger may pass,
and as ever what is right of the diagonal counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Listener
from dask_rac.base.spans import Span
from dask_rac.kernels.vectors.distances import LARGEST, take_upper
from dask_rac.vectors.pairs.condensed import PIECE, CondensedPairs
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.square import ROUNDING, SquarePairs
from dask_rac.vectors.pairs.triangle import Progress, triangle_entries, triangle_spans

SUSPECTS = 8  # rows that are compared with their columns

Band = tuple[Span, NDArray[np.float64]]
"""Rows of a triangle, and their entries."""


def check_distances(pairs: AllPairs, report: Listener) -> None:
    """Raise if a distance is not valid; a pass over all of them."""
    assert isinstance(pairs, SquarePairs | CondensedPairs)
    deque(checked_rows(pairs, report), maxlen=0)


def checked_rows(pairs: SquarePairs | CondensedPairs, report: Listener) -> Iterator[Band]:
    """Yield the triangle in bands of rows, in any order; raise if a distance is not valid, at the latest at the end."""
    return _square_rows(pairs, report) if isinstance(pairs, SquarePairs) else _condensed_rows(pairs, report)


def _condensed_rows(pairs: CondensedPairs, report: Listener) -> Iterator[Band]:
    """Yield the triangle of a condensed vector."""
    entries = triangle_entries(pairs.nodes)
    spans = triangle_spans(pairs.nodes, -(-entries // PIECE))
    progress = Progress(pairs.nodes, len(spans), report)
    for first, last in spans:
        out = np.empty(triangle_entries(last) - triangle_entries(first))
        if pairs.take(first, last, out):
            pairs.refuse_values()
        yield (first, last), out
        progress.add()


def _square_rows(pairs: SquarePairs, report: Listener) -> Iterator[Band]:
    """Yield the triangle of a square matrix."""
    nodes, spans = pairs.nodes, pairs.spans()
    random = np.random.default_rng(nodes)
    probe = random.choice([-1.0, 1.0], nodes) * random.uniform(1.0, 2.0, nodes)
    by_row, by_column, largest = np.zeros(nodes), np.zeros(nodes), 0.0
    progress = Progress(nodes, len(spans), report)
    for first, last in spans:
        band = pairs.band((first, last))
        out = np.empty(triangle_entries(nodes - first) - triangle_entries(nodes - last))
        if take_upper(_frozen(band[:, first:]), out) or not _are_distances(band[:, :last]):
            pairs.refuse_values()
        largest = max(largest, float(out.max(initial=0.0)))
        by_row[first:last] = band @ probe
        by_column += probe[first:last] @ band
        yield (nodes - last, nodes - first), out
        progress.add()
    apart = np.abs(by_row - by_column)
    tolerance = ROUNDING * largest
    suspects = np.sort(np.argsort(-apart)[:SUSPECTS])
    suspects = suspects[apart[suspects] > tolerance]
    if len(suspects):
        pairs.refuse_unequal_rows(suspects, tolerance)


def _are_distances(values: NDArray[np.float64]) -> bool:
    """Whether all values are valid distances."""
    return bool(((values >= 0.0) & (values <= LARGEST)).all())


def _frozen(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values as kernels take them."""
    part = np.ascontiguousarray(values).view()
    part.flags.writeable = False
    return part
