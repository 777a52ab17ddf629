"""Flat cuts on disk: Parquet or Zarr, one cut at a time."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable
from contextlib import ExitStack
from os import PathLike, fspath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv

from dask_rac.errors import InputError
from dask_rac.store.edges import PARQUET_ENDINGS
from dask_rac.store.files import Folder
from dask_rac.store.output import new_output

ROW_GROUP = 1_000_000
CHUNK = 4_000_000
CSV_ENDINGS = (".csv", ".csv.gz")
GZIP_LEVEL = 6

Cuts = Iterable[NDArray[np.int64]]


def check_labels(path: str | PathLike[str]) -> str:
    """The name of a file of labels; raises unless it says what is to be written."""
    name = fspath(path)
    if not name.endswith((".zarr", *PARQUET_ENDINGS, *CSV_ENDINGS)):
        raise InputError(
            f"store={name!r}: the name must end in .parquet, .zarr, .csv or .csv.gz, which says what is written"
        )
    return name


def write_labels(path: str | PathLike[str], cuts: Cuts, kind: str, values: Any, nodes: int) -> str:
    """Write the labels of each cut; `kind` is what the values are, "height" or "n_clusters", one or a list.

    `x.zarr` becomes an array, a row a cut. `x.parquet` becomes a file with columns `node` and `label` for one cut, and
    for several a folder of them, `height=0.5/`, which readers of Parquet take as a third column. `x.csv` becomes a file
    with those two columns for one cut, and for several with a column for each.
    """
    if values == []:
        raise InputError(f"{kind}=[] asks for no cut, so there is nothing to write")
    name = check_labels(path)
    several = name.endswith(".zarr") or (isinstance(values, list) and not name.endswith(CSV_ENDINGS))
    with new_output(path, several) as partial:
        if name.endswith(".zarr"):
            _write_zarr(partial, cuts, kind, values if isinstance(values, list) else [values], nodes)
        elif name.endswith(CSV_ENDINGS):
            names = [f"{kind}={value}" for value in values] if isinstance(values, list) else ["label"]
            _write_csv(partial, cuts, names, nodes, name.endswith(".gz"))
        elif isinstance(values, list):
            for value, labels in zip(values, cuts, strict=True):
                _write_parquet(partial, f"{kind}={value}/labels.parquet", labels)
        else:
            _write_parquet(partial, "", *cuts)
    return name


def _write_zarr(folder: Folder, cuts: Cuts, kind: str, values: list[Any], nodes: int) -> None:
    """A two-dimensional array, a row a cut."""
    import zarr  # noqa: PLC0415 - takes a third of a second, and most labels are Parquet

    array = zarr.create_array(
        folder.url,
        shape=(len(values), nodes),
        dtype="int64",
        chunks=(1, max(1, min(nodes, CHUNK))),
        attributes={kind: [float(value) if kind == "height" else int(value) for value in values]},
        dimension_names=("cut", "node"),
    )
    for number, labels in enumerate(cuts):
        array[number] = labels


def _write_parquet(folder: Folder, name: str, labels: NDArray[np.int64]) -> None:
    """One file, some nodes at a time."""
    path = folder.at(name)
    if folder.local:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    schema = pa.schema([("node", pa.int64()), ("label", pa.int64())])
    with folder.filesystem.open(path, "wb") as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for start in range(0, len(labels), ROW_GROUP):
            some = labels[start : start + ROW_GROUP]
            nodes = np.arange(start, start + len(some))
            writer.write_table(pa.table([pa.array(nodes), pa.array(some)], schema=schema))


def _write_csv(folder: Folder, cuts: Cuts, names: list[str], nodes: int, compressed: bool) -> None:
    """One file with a column for each cut, some nodes at a time."""
    columns = [labels.astype(np.min_scalar_type(labels.max(initial=0))) for labels in cuts]
    schema = pa.schema(
        [("node", pa.int64())]
        + [(name, pa.from_numpy_dtype(column.dtype)) for name, column in zip(names, columns, strict=True)]
    )
    plain = csv.WriteOptions(include_header=False)
    with ExitStack() as stack:
        file = stack.enter_context(folder.filesystem.open(folder.path, "wb"))
        if compressed:
            file = stack.enter_context(gzip.GzipFile("", "wb", GZIP_LEVEL, file, mtime=0))
        file.write((",".join(schema.names) + "\n").encode())  # Arrow would quote them
        writer = stack.enter_context(csv.CSVWriter(file, schema, write_options=plain))
        for start in range(0, nodes, ROW_GROUP):
            stop = min(start + ROW_GROUP, nodes)
            some = [np.arange(start, stop), *(column[start:stop] for column in columns)]
            writer.write_batch(pa.record_batch([pa.array(column) for column in some], schema=schema))
