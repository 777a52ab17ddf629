"""Flat cuts on disk as Parquet, Zarr or CSV, one cut at a time."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Mapping
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
from dask_rac.files.node_names import NodeNames
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


def write_labels(  # noqa: PLR0913 - what a file of labels holds
    path: str | PathLike[str],
    cuts: Cuts,
    kind: str,
    values: Any,
    nodes: int,
    *,
    names: NodeNames | None = None,
    sizes: LabelSizes | None = None,
) -> str:
    """Write the labels of each cut; `values` is one value or a list, `kind` what they are, such as "height".

    `x.zarr` becomes an array with one row per cut. `x.parquet` becomes a file with columns `node` and `label` for one
    cut; for several, a folder of such files in `height=0.5/`, which Parquet readers take as a third column. `x.csv`
    becomes a file with those two columns for one cut, and with one column per cut for several. If nodes have names,
    Parquet and CSV have a column `name` after `node`, which is read and written in groups of nodes.
    """
    if values == []:
        raise InputError(f"{kind}=[] requests no cut, so there is nothing to write")
    name, step = check_labels(path), (sizes or LabelSizes()).group_nodes
    several = name.endswith(".zarr") or (isinstance(values, list) and not name.endswith(CSV_ENDINGS))
    with new_output(path, several) as partial:
        if name.endswith(".zarr"):
            _write_zarr(partial, cuts, kind, values if isinstance(values, list) else [values], nodes)
        elif name.endswith(CSV_ENDINGS):
            columns = [f"{kind}={value}" for value in values] if isinstance(values, list) else ["label"]
            table = _LabelTable(nodes, dict(zip(columns, map(_narrow, cuts), strict=True)), names)
            _write_csv(partial, table, name.endswith(".gz"), step)
        elif isinstance(values, list):
            for value, labels in zip(values, cuts, strict=True):
                _write_parquet(partial, f"{kind}={value}/labels.parquet", labels, names, step)
        else:
            (labels,) = cuts
            _write_parquet(partial, "", labels, names, step)
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


@dataclass(frozen=True)
class _LabelTable:
    """The columns of a file of labels, of which some nodes are written at a time."""

    nodes: int
    labels: Mapping[str, NDArray[np.integer]]
    """The labels of each cut, by the name of their column."""
    names: NodeNames | None

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        kinds: dict[str, Any] = {"node": pa.int64()} | ({} if self.names is None else {"name": pa.large_string()})
        return pa.schema(kinds | {name: pa.from_numpy_dtype(column.dtype) for name, column in self.labels.items()})

    def group(self, start: int, stop: int) -> list[Any]:
        """Return the columns of some nodes."""
        text = [] if self.names is None else [self.names.slice(start, stop)]
        numbers = [pa.array(column[start:stop]) for column in self.labels.values()]
        return [pa.array(np.arange(start, stop)), *text, *numbers]


def _write_parquet(folder: Folder, path: str, labels: NDArray[np.int64], names: NodeNames | None, step: int) -> None:
    """Write one file, `step` nodes at a time."""
    whole = folder.at(path)
    if folder.local:
        os.makedirs(os.path.dirname(whole), exist_ok=True)
    table = _LabelTable(len(labels), {"label": labels}, names)
    schema = table.schema
    with folder.filesystem.open(whole, "wb") as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for start in range(0, len(labels), step):
            group = table.group(start, min(start + step, len(labels)))
            writer.write_table(pa.table(group, schema=schema))


def _narrow(labels: NDArray[np.int64]) -> NDArray[np.integer]:
    """Return labels in the smallest type that holds them: those of all columns of a text file are in memory at once."""
    least, most = int(labels.min(initial=0)), int(labels.max(initial=0))
    return labels.astype(np.min_scalar_type(most if least >= 0 else -most - 1))


def _write_csv(folder: Folder, table: _LabelTable, compressed: bool, step: int) -> None:
    """Write one file with one column per cut, `step` nodes at a time."""
    schema, plain = table.schema, csv.WriteOptions(include_header=False)
    with ExitStack() as stack:
        file = stack.enter_context(folder.filesystem.open(folder.path, "wb"))
        if compressed:
            file = stack.enter_context(gzip.GzipFile("", "wb", GZIP_LEVEL, file, mtime=0))
        file.write((",".join(schema.names) + "\n").encode())  # Arrow would quote them
        writer = stack.enter_context(csv.CSVWriter(file, schema, write_options=plain))
        for start in range(0, table.nodes, step):
            group = table.group(start, min(start + step, table.nodes))
            writer.write_batch(pa.record_batch(group, schema=schema))
