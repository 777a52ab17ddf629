"""Check every vector once before the search: refuse those that cannot be compared, and measure what helps later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.spans import batches
from dask_rac.kernels.vectors.pairs import COSINE, MANHATTAN
from dask_rac.vectors.compare.limits import MOST_WHOLE, CompareLimits
from dask_rac.vectors.compare.metrics import Metric
from dask_rac.vectors.compare.search import View, squares
from dask_rac.vectors.sources.opening import VectorSource

PIECE = 2**23  # values checked at a time
DOUBLE = 1e-150, 1e150  # absolute values whose squares fit in float64


@dataclass(frozen=True)
class Checked:
    """What the check of a span of vectors found."""

    fault: str | None
    """What is wrong with the first vector that cannot be used."""
    total: NDArray[np.float64] | None
    """The sum of the vectors, if dense."""
    whole: bool
    """Whether all values are whole numbers."""
    square: float
    """The largest squared norm."""
    largest: float
    """The largest absolute value."""
    zeros: int = 0
    """Number of vectors that are all zeros."""
    zero: str = ""
    """Where the first all-zero vector is."""


def check_span(source: VectorSource, values: int, start: int, stop: int) -> Checked:
    """Check a span of vectors, about `values` values at a time."""
    step = max(1, min(values, PIECE) * source.rows // max(1, source.entries))
    parts = []
    for span in batches(start, stop, step):
        parts.append(_check_rows(source, *span))
        if parts[-1].fault:
            break
    return combined(parts)


def combined(parts: Sequence[Checked]) -> Checked:
    """Combine the results of spans, given in order."""
    totals = [part.total for part in parts if part.total is not None]
    return Checked(
        next((part.fault for part in parts if part.fault), None),
        np.sum(totals, axis=0) if totals else None,
        all(part.whole for part in parts),
        max((part.square for part in parts), default=0.0),
        max((part.largest for part in parts), default=0.0),
        sum(part.zeros for part in parts),
        next((part.zero for part in parts if part.zero), ""),
    )


def _check_rows(source: VectorSource, start: int, stop: int) -> Checked:
    """Check the vectors from `start` to `stop`."""
    block = source.read(start, stop)
    values = block.data if source.sparse else block
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return Checked(_not_finite(source, block, start), None, False, 0.0, 0.0)
    largest = float(np.abs(values).max(initial=0))
    if largest > DOUBLE[1]:
        row, column = _position_of(np.abs(values) == largest, block)
        text = (
            f"{source.where(start + row)} has {largest:g} in dimension {column}, whose square is too large for "
            "float64: scale the vectors"
        )
        return Checked(text, None, False, 0.0, largest)
    with np.errstate(under="ignore"):
        square = squares(block)
    empty = np.flatnonzero(square == 0)
    zero = source.where(start + int(empty[0])) if len(empty) else ""
    whole = values.dtype.kind == "u" or (
        square.max(initial=0.0) < MOST_WHOLE and bool((values == np.rint(values)).all())
    )
    total = None if source.sparse else block.sum(axis=0, dtype=np.float64)
    return Checked(None, total, whole, float(square.max(initial=0.0)), largest, len(empty), zero)


def _not_finite(source: VectorSource, block: Any, start: int) -> str:
    """Describe the first value that is not finite."""
    values = block.data if source.sparse else block
    bad = ~np.isfinite(values)
    row, column = _position_of(bad, block)
    count = int(np.count_nonzero(bad))
    value = values.ravel()[int(bad.ravel().argmax())]
    more = f" ({count - 1} more follow)" if count > 1 else ""
    return f"{source.where(start + row)} has {value} in dimension {column}{more}: drop such vectors, or fill them in"


def _position_of(marked: NDArray[np.bool_], block: Any) -> tuple[int, int]:
    """Return the row and the dimension of the first marked value."""
    first = int(marked.ravel().argmax())
    if isinstance(block, sp.csr_array):
        return int(np.searchsorted(block.indptr, first, side="right")) - 1, int(block.indices[first])
    row, column = divmod(first, int(block.shape[1]))
    return row, column


def view_of(checked: Checked, rows: int, metric: Metric, limits: CompareLimits) -> View:
    """Decide how the checked vectors are compared; raise if they cannot be."""
    if checked.fault:
        raise InputError(checked.fault)
    if checked.zeros and metric.code == COSINE:
        count = "" if checked.zeros == 1 else f", the first of {checked.zeros:,} such vectors,"
        raise InputError(f"{checked.zero}{count} is all zeros and has no direction: drop it, or use another metric")
    if 0 < checked.largest < DOUBLE[0]:
        raise InputError(
            f"no absolute value exceeds {checked.largest:g}, whose square is too small for float64: scale the vectors"
        )
    fits = not checked.largest or limits.single[0] <= checked.largest <= limits.single[1]
    exact = checked.whole and checked.square < limits.most_whole and metric.code not in (COSINE, MANHATTAN)
    centre = None
    if metric.centred and checked.total is not None and not exact:
        centre = checked.total / rows
    return View(metric, "float32" if fits else "float64", exact, centre, limits)
