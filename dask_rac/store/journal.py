"""What a store holds for its readers: the header, and the steps that were committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import DamagedStoreError
from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.settings import MERGE_COLUMNS, RATIO, Settings, certified
from dask_rac.files.folder import Folder
from dask_rac.files.stored_names import StoredNames
from dask_rac.files.tables import END_COLUMNS, TableRecord, read_ends, read_merges, with_ratios
from dask_rac.kernels.arrays import Merges, empty_merges
from dask_rac.store.header import Header
from dask_rac.store.manifest import Facts, Manifest


@dataclass(frozen=True)
class Journal:
    """A run as it was committed, finished or not."""

    folder: Folder
    header: Header
    chain: Sequence[Manifest]
    """From the first step to the newest."""

    @property
    def facts(self) -> Facts:
        """What reading the edges has shown."""
        return self.chain[0].facts

    @property
    def settings(self) -> Settings:
        """What the run computes, with what absent pairs weigh."""
        return self.header.settings.resolved(self.facts.largest)

    @property
    def names(self) -> StoredNames | None:
        """The names of the nodes, if they have any."""
        record = self.header.names or self.chain[0].names
        if record is not None and record.nodes != self.facts.nodes:
            raise DamagedStoreError(
                f"{self.folder.url} has {record.nodes:,} names for {self.facts.nodes:,} nodes: restore a copy, or "
                "cluster again in another folder"
            )
        return None if record is None else StoredNames(self.folder, record)

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end."""
        return self.chain[-1].state is None

    @property
    def tables(self) -> list[TableRecord]:
        """The files of merges, in order."""
        return [table for manifest in self.chain for table in manifest.merges]

    @property
    def merged(self) -> int:
        """Merges so far."""
        return sum(table.rows for table in self.tables)

    @property
    def epsilon(self) -> float:
        """The largest ratio of a merge, less 1."""
        return certified((table.ratio for table in self.tables if table.ratio is not None), self.header.settings)

    def height_range(self) -> tuple[float, float] | None:
        """The heights of the nearest and the farthest merge."""
        if not self.tables:
            return None
        low, high = min(table.low for table in self.tables), max(table.high for table in self.tables)
        return (low, high) if self.header.settings.sign > 0 else (high, low)

    def parts(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        """The merges, file by file."""
        settings, nodes = self.header.settings, self.facts.nodes
        return (with_ratios(sound_merges(self.folder, table, nodes), settings) for table in self.tables)

    def ratios(self) -> NDArray[np.float64]:
        """The ratios of all merges in memory, if they have any."""
        return np.concatenate([np.empty(0), *(part[RATIO] for part in self.parts())])

    def ends(self) -> Iterator[Mapping[str, NDArray[Any]] | None]:
        """The edges that made the merges, file by file; None for a file that does not hold them."""
        return (sound_ends(self.folder, table, self.facts.nodes) for table in self.tables)

    def merges(self) -> Merges:
        """All merges in memory, as narrow as possible."""
        return all_merges(self.folder, self.tables, self.facts.nodes)


def sound_merges(folder: Folder, table: TableRecord, nodes: int) -> Mapping[str, NDArray[Any]]:
    """The merges of a file; raise unless they are of the nodes of the run: kernels do not look."""
    part = read_merges(folder, table)
    _check_nodes(folder, table, nodes, part, ("left", "right"))
    return part


def sound_ends(folder: Folder, table: TableRecord, nodes: int) -> Mapping[str, NDArray[Any]] | None:
    """The edges that made the merges of a file, if it holds them; raise unless they are of the nodes of the run."""
    part = read_ends(folder, table)
    if part is not None:
        _check_nodes(folder, table, nodes, part, END_COLUMNS)
    return part


def _check_nodes(
    folder: Folder, table: TableRecord, nodes: int, part: Mapping[str, NDArray[Any]], names: Sequence[str]
) -> None:
    """Raise unless columns of a file are nodes of the run."""
    for name in names:
        if len(part[name]) and (part[name].min() < 0 or part[name].max() >= nodes):
            raise DamagedStoreError(
                f"{folder.at(table.name)} has been changed: it merges nodes that the run does not have; restore a "
                "copy, or cluster again in another folder"
            )


def all_merges(folder: Folder, tables: Sequence[TableRecord], nodes: int) -> Merges:
    """The merges of some files, as narrow as possible."""
    ids, total = cluster_id_dtype(nodes), sum(table.rows for table in tables)
    merges = empty_merges(total, ids)
    at = 0
    for table in tables:
        part = sound_merges(folder, table, nodes)
        for name, column in zip(MERGE_COLUMNS, merges, strict=False):
            column[at : at + table.rows] = part[name]
        at += table.rows
    return merges
