"""Columns of Arrow that hold vectors: one of lists, or one per dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dask_rac.base.errors import InputError, Where, refuse_nulls, refuse_rows
from dask_rac.base.text import listed

KINDS = {pa.float32(): "float32", pa.float64(): "float64", pa.uint8(): "uint8"}
PANDAS_INDEX = "__index_level_"  # prefix of columns that pandas made from an index
SHOWN = 8  # columns listed in a message


def only_columns(schema: pa.Schema, shown: str) -> tuple[str, ...]:
    """Return the columns that must be the vectors: the only one with lists, or all; raise if that is not clear."""
    fields = [field for field in schema if not field.name.startswith(PANDAS_INDEX)]
    lists = [field.name for field in fields if _values(field.type) in KINDS and field.type not in KINDS]
    numbers = [field.name for field in fields if field.type in KINDS]
    if len(lists) == 1 and not numbers:
        return (lists[0],)
    if numbers and len(numbers) == len(fields):
        return tuple(numbers)
    others = sorted(fields, key=lambda field: field.name in numbers)  # those that are not numbers come first
    listed = ", ".join(f"{field.name} ({field.type})" for field in others[:SHOWN])
    more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
    raise InputError(
        f"it is not clear which of the {len(fields)} columns of {shown} are the vectors: choose one of lists, or one "
        f"per dimension, of {', '.join(sorted(KINDS.values()))}, with columns=; there are {listed or 'none'}{more}"
    )


def column_kind(schema: pa.Schema, column: str, shown: str) -> tuple[str, bool]:
    """Return the dtype of a column, and whether it holds lists."""
    names = schema.names
    if names.count(column) != 1:
        count = f"{names.count(column)} columns" if column in names else "no column"
        raise InputError(f"{shown} has {count} {column!r}: it has {listed(names)}; choose with columns=")
    kind = schema.field(column).type
    if _values(kind) not in KINDS:
        raise InputError(
            f"column {column!r} of {shown} is {kind}, not {', '.join(sorted(KINDS.values()))} or lists of them: cast "
            "it to float32"
        )
    return KINDS[_values(kind)], kind not in KINDS


def _values(kind: Any) -> pa.DataType:
    """Return the type of the values of a list type; other types are returned unchanged."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    values: pa.DataType = kind.value_type if is_list else kind
    return values


def list_values(column: Any, name: str, dimensions: int, where: Where) -> NDArray[Any]:
    """Return the values of lists; raise unless all have the same length and no nulls."""
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    wrong = lengths != dimensions
    if wrong.any():
        at = int(wrong.argmax())
        raise InputError(
            f"column {name!r} has {lengths[at]} values in {where(at)}, the first row has {dimensions}: make all lists "
            "equally long"
        )
    values = column.flatten()
    if values.null_count:
        missing = values.is_null().to_numpy(zero_copy_only=False).reshape(-1, dimensions).any(axis=1)
        refuse_rows(missing, name, "null in part", "drop or fill them", where)
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return array


def are_lists(kinds: Sequence[tuple[str, bool]], chosen: Sequence[str], name: str) -> bool:
    """Whether vectors are one column of lists; raise if the chosen columns are lists and others."""
    lists = {is_list for _, is_list in kinds}
    if True in lists and (len(lists) > 1 or len(chosen) > 1):
        raise InputError(
            f"columns {', '.join(chosen)} of {name} are lists and numbers: choose one column of lists, or only numbers"
        )
    return True in lists


def fill_rows(out: NDArray[Any], batch: pa.RecordBatch, columns: Sequence[str], lists: bool, where: Where) -> None:
    """Copy the vectors of a batch into an array."""
    for number, name in enumerate(columns):
        column: Any = batch.column(name)
        if column.null_count:
            refuse_nulls(column.is_null().to_numpy(zero_copy_only=False), name, where)
        if lists:
            out[:] = list_values(column, name, out.shape[1], where).reshape(out.shape)
        else:
            out[:, number] = column.to_numpy(zero_copy_only=False)
