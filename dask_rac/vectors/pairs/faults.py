"""What is wrong with distances that were given, in words: the first place, how many there are, and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError


@dataclass
class Fault:
    """Values of one kind that are not valid distances."""

    is_bad: Callable[[NDArray[Any]], NDArray[np.bool_]]
    remedy: str
    count: int = 0
    first: int = -1
    """The position of the first, rows one after the other."""
    value: float = field(default=0.0)

    def look(self, values: NDArray[np.float64], start: int) -> None:
        """Look at values that begin at a position."""
        bad = self.is_bad(values)
        count = int(np.count_nonzero(bad))
        if count and not self.count:
            at = int(bad.argmax())
            self.first, self.value = start + at, float(values[at])
        self.count += count


def refuse_values(parts: Iterable[tuple[int, NDArray[np.float64]]], where: Callable[[int], str]) -> None:
    """Raise if values, given in order with the position of the first of each part, are not valid distances."""
    faults = (
        Fault(np.isnan, "drop such points, or fill the values in"),
        Fault(np.isinf, "use a large finite distance, or give the pairs that have one as edges"),
        Fault(lambda values: values < 0, "distances are 0 or more; if these are similarities, subtract them from 1"),
    )
    for start, values in parts:
        for fault in faults:
            fault.look(values, start)
    for fault in faults:
        if fault.count:
            raise InputError(_described(fault, where))


def refuse_diagonal(diagonal: NDArray[np.float64], name: str) -> None:
    """Raise if a point is not at distance 0 from itself."""
    fault = Fault(
        lambda values: values != 0,
        "a point is at distance 0 from itself; if these are similarities, subtract them from 1, else use "
        "numpy.fill_diagonal(distances, 0)",
    )
    fault.look(diagonal, 0)
    if fault.count:
        raise InputError(_described(fault, lambda row: f"row {row}, column {row} of {name}"))


def _described(fault: Fault, where: Callable[[int], str]) -> str:
    """Describe a fault."""
    more = f", the first of {fault.count:,} such values" if fault.count > 1 else ""
    return f"{where(fault.first)} is {fault.value:g}{more}: {fault.remedy}"
