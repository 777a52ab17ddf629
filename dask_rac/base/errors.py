"""Errors that users can act on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.public import public
from dask_rac.base.secrets import masked

Where = Callable[[int], str]
"""Describes where a row of the input is."""


class _DiscreetError(Exception):
    """An error whose text repeats no secret of a URL."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(masked(value) if isinstance(value, str) else value for value in arguments))


@public
class InputError(_DiscreetError, ValueError):
    """Raised for invalid input or parameters. The message states where and what to do."""

    rows: Any = None  # the `BadRows` that it is about, if any


@dataclass(frozen=True)
class BadRows:
    """Rows of a column that are bad, and what is needed to count those of other parts of the input in."""

    column: str
    what: str
    remedy: str
    count: int
    first: str
    """Where the first one is, with its value."""
    least: bool = False
    """Whether there may be more."""

    def error(self) -> InputError:
        """Return what to raise, which keeps these rows as `rows`."""
        rows = f"{'at least ' * self.least}{self.count:,} row{'s' * (self.count != 1)}, first "
        place = self.first if self.count == 1 and not self.least else rows + self.first
        error = InputError(f"column {self.column!r} is {self.what} in {place}: {self.remedy}")
        error.rows = self
        return error


def refuse_rows(
    bad: NDArray[np.bool_], column: str, what: str, remedy: str, where: Where, values: NDArray[Any] | None = None
) -> None:
    """Raise if any row of a column is bad; the message has the first such row and their number."""
    count = int(np.count_nonzero(bad))
    if count:
        first = int(bad.argmax())
        value = "" if values is None else f" ({values[first]})"
        raise BadRows(column, what, remedy, count, f"{where(first)}{value}").error()


def refuse_nulls(bad: NDArray[np.bool_], column: str, where: Where) -> None:
    """Raise if any row of a column is null."""
    refuse_rows(bad, column, "null", "drop or fill them", where)


def plain_row(row: int) -> str:
    """Describe a row of input that has no files."""
    return f"row {row}"


@public
class StoreError(_DiscreetError, RuntimeError):
    """Raised if a store cannot be used as it is. The message states what to do."""


@public
class DamagedStoreError(StoreError):
    """Raised if a file of a store is missing or has changed since it was written."""


@public
class StoreInUseError(StoreError):
    """Raised if another run is working on the store."""


@public
class ResourceError(_DiscreetError, RuntimeError):
    """Raised if memory, disk or workers do not suffice. The message states which setting would."""


class StoppedError(ResourceError):
    """Raised if a run that can be resumed has run out of disk, memory or workers."""


@public
class AuditError(RuntimeError):
    """Raised if a result does not follow from its edges. The attribute `report` holds the details."""

    def __init__(self, report: Any) -> None:
        super().__init__(str(report))
        self.report = report

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        return AuditError, (self.report,)
