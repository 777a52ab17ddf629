"""Known classes of nodes in a file: Parquet or CSV, with a column of labels and, where they are, nodes or names."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any, Literal

import pandas as pd
import pyarrow.parquet as pq

from dask_rac.base.errors import InputError
from dask_rac.base.names import PARQUET_ENDINGS
from dask_rac.base.text import listed
from dask_rac.files.labels import CSV_ENDINGS
from dask_rac.files.reading import readable
from dask_rac.files.urls import locate

NODES = ("node", "name")
"""Columns that say which node a row is about, the better one first."""


def read_classes(path: str | PathLike[str], column: str | None = None) -> pd.Series[Any]:
    """Return the labels in a file, by node or name if it has such a column, otherwise in the order of rows.

    `column` holds the labels: by default `label`, or the only column that is not one of nodes.
    """
    name = fspath(path)
    if not name.endswith((*PARQUET_ENDINGS, *CSV_ENDINGS)):
        raise InputError(f"labels={name!r}: the name must end in .parquet, .csv or .csv.gz, which states the format")
    filesystem, place = locate(name)
    with readable(name, remedy="check the path"):
        if not filesystem.isfile(place):
            raise InputError(f"labels={name!r} is not a file: check the path")
    read = _read_parquet if name.endswith(PARQUET_ENDINGS) else _read_csv
    table = read(filesystem, place, name)
    chosen = _label_column([str(label) for label in table.columns], column, name)
    nodes = next((which for which in NODES if which in table.columns and which != chosen), None)
    labels: pd.Series[Any] = table[chosen] if nodes is None else table.set_index(nodes)[chosen]
    return labels


def _read_parquet(filesystem: Any, place: str, name: str) -> pd.DataFrame:
    """Read a Parquet file."""
    with readable(name, "Parquet"), filesystem.open(place, "rb") as file:
        return pq.read_table(file, use_threads=False).to_pandas(ignore_metadata=True)


def _read_csv(filesystem: Any, place: str, name: str) -> pd.DataFrame:
    """Read a CSV file; names are text even if they look like numbers, and nothing but an empty field is missing."""
    packed: Literal["gzip"] | None = "gzip" if name.endswith(".gz") else None
    with readable(name, "CSV"), filesystem.open(place, "rb") as file:
        return pd.read_csv(file, compression=packed, dtype={"name": str}, keep_default_na=False, na_values=[""])


def _label_column(columns: list[str], wanted: str | None, name: str) -> str:
    """Return the column that holds the labels."""
    if wanted is not None and wanted not in columns:
        raise InputError(f"{name} has no column {wanted!r}: it has {listed(columns)}")
    others = [column for column in columns if column not in NODES]
    chosen = wanted or ("label" if "label" in others else others[0] if len(others) == 1 else None)
    if chosen is None:
        raise InputError(f"{name} has no column 'label': it has {listed(columns)}; name one with column=")
    return chosen
