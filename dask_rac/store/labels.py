"""Flat cuts on disk: Parquet or Zarr, one cut at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable
from os import PathLike, fspath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from numpy.typing import NDArray

from dask_rac.errors import InputError
from dask_rac.store.edges import PARQUET_ENDINGS
from dask_rac.store.files import Folder

ROW_GROUP = 1_000_000
CHUNK = 4_000_000

Cuts = Iterable[NDArray[np.int64]]


def write_labels(path: str | PathLike[str], cuts: Cuts, kind: str, values: Any, nodes: int) -> str:
    """Write the labels of each cut; `kind` is what the values are, "height" or "n_clusters", one or a list.

    `x.zarr` becomes an array, a row a cut. `x.parquet` becomes a file with columns `node` and `label` for one cut, and
    for several a folder of them, `height=0.5/`, which readers of Parquet take as a third column.
    """
    name = fspath(path)
    if values == []:
        raise InputError(f"{kind}=[] asks for no cut, so there is nothing to write")
    if not name.endswith((".zarr", *PARQUET_ENDINGS)):
        raise InputError(f"store={name!r}: the name must end in .parquet or .zarr, which says what is written")
    target = Folder(name)
    if target.exists():
        raise InputError(f"{name} exists: nothing is written over, so choose another name or remove it")
    partial = Folder(f"{target.path if target.local else name}.partial")
    partial.remove("")
    try:
        if name.endswith(".zarr"):
            _write_zarr(partial, cuts, kind, values if isinstance(values, list) else [values], nodes)
        elif isinstance(values, list):
            for value, labels in zip(values, cuts, strict=True):
                _write_parquet(partial, f"{kind}={value}/labels.parquet", labels)
        else:
            _write_parquet(partial, "", *cuts)
        target.filesystem.mv(partial.path, target.path, recursive=True)
    except BaseException:
        partial.remove("")
        raise
    return name


def _write_zarr(folder: Folder, cuts: Cuts, kind: str, values: list[Any], nodes: int) -> None:
    """A two-dimensional array, a row a cut."""
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
