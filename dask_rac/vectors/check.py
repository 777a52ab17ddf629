"""Every vector looked at once, before the long work: what cannot be compared is refused, and what helps is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.errors import InputError
from dask_rac.kernels.pairs import COSINE, MANHATTAN
from dask_rac.store.vectors import VectorSource
from dask_rac.vectors.metrics import Metric
from dask_rac.vectors.search import MOST_WHOLE, View, squares

PIECE = 2**23  # values looked at together
SINGLE = 1e-12, 1e15  # sizes whose squares float32 holds
DOUBLE = 1e-150, 1e150  # and float64


@dataclass(frozen=True)
class Checked:
    """What some vectors are like."""

    fault: str | None
    """What is wrong with the first that cannot be used."""
    total: NDArray[np.float64] | None
    """Their sum, of dense ones."""
    whole: bool
    """Whether all values are whole numbers."""
    square: float
    """The largest squared norm."""
    largest: float
    """The largest value, signs apart."""
    zeros: int = 0
    """Vectors that are all zeros."""
    zero: str = ""
    """Where the first of them is."""


def check_span(source: VectorSource, values: int, start: int, stop: int) -> Checked:
    """Look at a span of vectors, about so many values at a time."""
    step = max(1, min(values, PIECE) * source.rows // max(1, source.entries))
    parts = []
    for first in range(start, stop, step):
        parts.append(_check_rows(source, first, min(first + step, stop)))
        if parts[-1].fault:
            break
    return united(parts)


def united(parts: Sequence[Checked]) -> Checked:
    """What is known of spans together, in their order."""
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
    """Look at some vectors."""
    block = source.read(start, stop)
    values = block.data if source.sparse else block
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return Checked(_not_finite(source, block, start), None, False, 0.0, 0.0)
    largest = float(np.abs(values).max(initial=0))
    if largest > DOUBLE[1]:
        row, column = _place_of(np.abs(values) == largest, block)
        text = (
            f"{source.where(start + row)} has {largest:g} in dimension {column}, whose square float64 does not hold: "
            "scale the vectors"
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
    """What to say of the first value that is not finite."""
    values = block.data if source.sparse else block
    bad = ~np.isfinite(values)
    row, column = _place_of(bad, block)
    count = int(np.count_nonzero(bad))
    value = values.ravel()[int(bad.ravel().argmax())]
    more = f" ({count - 1} more follow)" if count > 1 else ""
    return f"{source.where(start + row)} has {value} in dimension {column}{more}: drop such vectors, or fill them in"


def _place_of(found: NDArray[np.bool_], block: Any) -> tuple[int, int]:
    """Row and dimension of the first value that was found."""
    first = int(found.ravel().argmax())
    if isinstance(block, sp.csr_array):
        return int(np.searchsorted(block.indptr, first, side="right")) - 1, int(block.indices[first])
    row, column = divmod(first, int(block.shape[1]))
    return row, column


def view_of(checked: Checked, rows: int, metric: Metric) -> View:
    """How vectors are to be compared."""
    if checked.fault:
        raise InputError(checked.fault)
    if checked.zeros and metric.code == COSINE:
        count = "" if checked.zeros == 1 else f", the first of {checked.zeros:,} such vectors,"
        raise InputError(f"{checked.zero}{count} is all zeros and has no direction: drop it, or use another metric")
    if 0 < checked.largest < DOUBLE[0]:
        raise InputError(
            f"no value is beyond {checked.largest:g}, whose square float64 does not hold: scale the vectors"
        )
    fits = not checked.largest or SINGLE[0] <= checked.largest <= SINGLE[1]
    exact = checked.whole and checked.square < MOST_WHOLE and metric.code not in (COSINE, MANHATTAN)
    centre = None
    if metric.centred and checked.total is not None and not exact:
        centre = checked.total / rows
    return View(metric, "float32" if fits else "float64", exact, centre)
