"""Edges on disk, and runs through it that are stopped and looked into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import dask_rac
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.files.folder import Folder
from dask_rac.store.manifest import Manifest, read_chain

Columns = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def write_parquet(target: Path, edges: Columns, **options: Any) -> Path:
    """Edges as one file."""
    table = pa.table({name: pa.array(column) for name, column in zip(EDGE_COLUMNS, edges, strict=True)})
    pq.write_table(table, target, **options)
    return target


def steps_of(store: str | Path) -> list[Manifest]:
    """The manifests of a run."""
    return read_chain(Folder(store))


def given_as(edges: Columns, on_disk: bool, folder: Path) -> Columns | Path:
    """Edges as arrays, or as a file of small row groups."""
    return write_parquet(folder / "edges.parquet", edges, row_group_size=37) if on_disk else edges


class PlugPulledError(Exception):
    """Somebody pulls the plug."""


def stop_after(rounds: int) -> Callable[[dask_rac.Event], None]:
    def watch(event: dask_rac.Event) -> None:
        if event.record is not None and event.stage == "round" and event.record.round == rounds:
            raise PlugPulledError

    return watch
