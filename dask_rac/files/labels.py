"""Flat cuts on disk as Parquet, Zarr or CSV, one cut at a time."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv

from dask_rac.base.errors import InputError
from dask_rac.base.names import PARQUET_ENDINGS
from dask_rac.files.folder import Folder
from dask_rac.files.output import new_output

CHUNK = 4_000_000
CSV_ENDINGS = (".csv", ".csv.gz")
GZIP_LEVEL = 6

Cuts = Iterable[NDArray[np.int64]]


@dataclass(frozen=True)
class LabelSizes:
    """How many labels are written at a time, which readers do not notice; tests hand over smaller sizes."""

    group_nodes: int = 1_000_000
    """Nodes per row group of Parquet, and per batch of lines of CSV."""


def check_labels(path: str | PathLike[str]) -> str:
    """Return the name of a file of labels; raise unless its ending states the format."""
    name = fspath(path)
    if not name.endswith((".zarr", *PARQUET_ENDINGS, *CSV_ENDINGS)):
        raise InputError(
            f"store={name!r}: the name must end in .parquet, .zarr, .csv or .csv.gz, which chooses the format"
        )
    return name


def write_labels(
    path: str | PathLike[str], cuts: Cuts, kind: str, values: Any, nodes: int, sizes: LabelSizes | None = None
) -> str:
    """Write the labels of each cut; `values` is one value or a list, `kind` what they are: "height" or "n_clusters".

    `x.zarr` becomes an array with one row per cut. `x.parquet` becomes a file with columns `node` and `label` for one
    cut; for several, a folder of such files in `height=0.5/`, which Parquet readers take as a third column. `x.csv`
    becomes a file with those two columns for one cut, and with one column per cut for several.
    """
    if values == []:
        raise InputError(f"{kind}=[] requests no cut, so there is nothing to write")
    name, sizes = check_labels(path), sizes or LabelSizes()
    several = name.endswith(".zarr") or (isinstance(values, list) and not name.endswith(CSV_ENDINGS))
    with new_output(path, several) as partial:
        if name.endswith(".zarr"):
            _write_zarr(partial, cuts, kind, values if isinstance(values, list) else [values], nodes)
        elif name.endswith(CSV_ENDINGS):
            names = [f"{kind}={value}" for value in values] if isinstance(values, list) else ["label"]
            _write_csv(partial, cuts, names, nodes, name.endswith(".gz"), sizes.group_nodes)
        elif isinstance(values, list):
            for value, labels in zip(values, cuts, strict=True):
                _write_parquet(partial, f"{kind}={value}/labels.parquet", labels, sizes.group_nodes)
        else:
            (labels,) = cuts
            _write_parquet(partial, "", labels, sizes.group_nodes)
    return name


def _write_zarr(folder: Folder, cuts: Cuts, kind: str, values: list[Any], nodes: int) -> None:
    """Write a two-dimensional array with one row per cut."""
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


def _write_parquet(folder: Folder, name: str, labels: NDArray[np.int64], step: int) -> None:
    """Write one file, `step` nodes at a time."""
    path = folder.at(name)
    if folder.local:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    schema = pa.schema([("node", pa.int64()), ("label", pa.int64())])
    with folder.filesystem.open(path, "wb") as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for start in range(0, len(labels), step):
            group = labels[start : start + step]
            nodes = np.arange(start, start + len(group))
            writer.write_table(pa.table([pa.array(nodes), pa.array(group)], schema=schema))


def _write_csv(folder: Folder, cuts: Cuts, names: list[str], nodes: int, compressed: bool, step: int) -> None:
    """Write one file with one column per cut, `step` nodes at a time."""
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
        for start in range(0, nodes, step):
            stop = min(start + step, nodes)
            group = [np.arange(start, stop), *(column[start:stop] for column in columns)]
            writer.write_batch(pa.record_batch([pa.array(column) for column in group], schema=schema))
