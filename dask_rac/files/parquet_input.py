"""Footers of Parquet files as inputs, which are not believed where they contradict themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_rac.base.errors import InputError

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData


def checked_groups(footer: FileMetaData, shown: str) -> tuple[int, ...]:
    """Return the rows of each row group; raise unless they and the types of columns are those of the whole file."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    rows = tuple(int(group.num_rows) for group in groups)
    if footer.num_rows != sum(rows) or any(count < 0 for count in rows):
        raise InputError(
            f"{shown} cannot be read as Parquet: its footer states {footer.num_rows} rows, and {sum(rows)} in its "
            "row groups; write it again"
        )
    kinds = [footer.schema.column(number).physical_type for number in range(footer.num_columns)]
    for group in groups:
        # Arrow ends the process when it is asked for statistics of a column of another type.
        if [group.column(number).physical_type for number in range(group.num_columns)] != kinds:
            raise InputError(
                f"{shown} cannot be read as Parquet: columns of a row group have other types than its footer states; "
                "write it again"
            )
    return rows
