"""Errors that users can act on."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Where = Callable[[int], str]
"""Says where a row of the input is to be found."""


class InputError(ValueError):
    """Input or parameters that cannot be clustered; the message says where and what to do."""


def refuse_rows(
    bad: NDArray[np.bool_], column: str, what: str, remedy: str, where: Where, values: NDArray[Any] | None = None
) -> None:
    """Raise if any row of a column is bad, with the first of them and their number."""
    count = int(np.count_nonzero(bad))
    if count:
        first = int(bad.argmax())
        rows = "" if count == 1 else f"{count} rows, first "
        value = "" if values is None else f" ({values[first]})"
        raise InputError(f"column {column!r} is {what} in {rows}{where(first)}{value}: {remedy}")


def refuse_nulls(bad: NDArray[np.bool_], column: str, where: Where) -> None:
    """Raise if any row of a column is null."""
    refuse_rows(bad, column, "null", "drop or fill them", where)


def plain_row(row: int) -> str:
    """Where a row is if the input has no files."""
    return f"row {row}"


class StoreError(RuntimeError):
    """A store that cannot be used as it is; the message says what to do."""


class DamagedStoreError(StoreError):
    """A file of a store is missing or is not what was written."""


class StoreInUseError(StoreError):
    """Another run works on the store."""


class ResourceError(RuntimeError):
    """Too little memory or disk, or no workers; the message says which setting would do."""


class StoppedError(ResourceError):
    """A run that ran out of disk, memory or workers on its way, and can be resumed."""


class AuditError(RuntimeError):
    """A result that does not come out of its edges; `report` says more."""

    def __init__(self, report: Any) -> None:
        super().__init__(str(report))
        self.report = report

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        return AuditError, (self.report,)
