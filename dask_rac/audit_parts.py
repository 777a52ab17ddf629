"""An audit in parts: each process tallies some of the edges, by itself, and leaves its tally in the store."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac import arena, steps
from dask_rac.audit import NODE_BYTES, NODE_IDS, REPORT_BYTES, REPORT_IDS, Audit, Tally
from dask_rac.config import MERGE_COLUMNS, id_dtype
from dask_rac.errors import StoppedError
from dask_rac.kernels.arrays import Merges
from dask_rac.receipts import Job, Receipt, fresh_name
from dask_rac.store.arrays import read_array, write_group
from dask_rac.store.edges import BATCH_ROWS, EdgeSource, Unit
from dask_rac.store.files import FileRecord, Folder
from dask_rac.store.manifest import ShardRecord
from dask_rac.store.tables import TableRecord, read_merges

MERGE_ROW = 72  # bytes of a merge as it is read: twice its columns
EDGE_ROW = 48  # bytes of an edge as it is read: twice its columns, 8 bytes each
ENTRY = 40  # bytes of an entry of a shard: its columns, its source, and those of them that are added

Piece = Unit | ShardRecord
"""Edges that one thread adds at a time: of the input, or of a shard of the first state."""

_alone = Lock()  # two parts in one process would take twice the memory, and share its threads anyway


@dataclass(frozen=True)
class AuditJob:
    """What the tasks of an audit are told."""

    job: Job
    tables: tuple[TableRecord, ...]
    """The files of merges, in order."""
    source: EdgeSource
    """Where units are read from."""
    threads: int
    """Of each process."""

    @property
    def marker(self) -> str:
        """A file that is there as long as somebody waits for the tallies."""
        return f"{self.job.folder}/wanted"

    def part(self, pieces: Sequence[Piece]) -> tuple[AuditJob, Sequence[Piece]]:
        """What one task is told: of the files, those that it reads."""
        names = {piece.file for piece in pieces if isinstance(piece, Unit)}
        files = tuple(file for file in self.source.files if file.path in names)
        return replace(self, source=replace(self.source, files=files)), pieces


@dataclass(frozen=True)
class Tallied(Receipt):
    """What a part of the edges came to."""

    pieces: int
    edges: int
    unjoined: int
    arrays: tuple[FileRecord, ...]
    """The parts of the tally."""


def tally_part(told: AuditJob, pieces: Sequence[Piece]) -> Tallied:
    """Tally some of the edges, with all threads of this process."""
    with _alone:
        steps.forget()
        arena.end_tasks()
        job, store = told.job, told.job.store
        audit = Audit(job.nodes, all_merges(store, told.tables, job.nodes), job.settings)
        with ThreadPoolExecutor(told.threads) as pool:
            for _ in pool.map(partial(_add_wanted, audit, told), pieces):
                pass
        _check_wanted(told)
        edges, unjoined, parts = audit.tally()
        files = write_group(store, fresh_name(job, "tally"), {str(k): part for k, part in enumerate(parts)})
    return Tallied(len(pieces), edges, unjoined, tuple(files))


def stored_tally(folder: Folder, receipt: Tallied) -> Tally:
    """A tally as a task has left it, read piece by piece."""
    parts = (read_array(folder, record.name) for record in receipt.arrays)
    return Tally(receipt.edges, receipt.unjoined, parts)


def add_piece(audit: Audit, folder: Folder, source: EdgeSource, piece: Piece) -> None:
    """Add the edges of a piece, each once."""
    if isinstance(piece, Unit):
        for columns, _ in source.read(piece):
            audit.add(_as_integers(columns["source"]), _as_integers(columns["target"]), columns["weight"])
        return
    length, target, weight = (read_array(folder, f"{piece.name}/{name}") for name in ("length", "neighbour", "weight"))
    row = np.repeat(np.arange(piece.first, piece.first + piece.clusters), length)
    once = row < target
    audit.add(row[once], target[once], weight[once])


def all_merges(folder: Folder, tables: Sequence[TableRecord], nodes: int) -> Merges:
    """All merges, as narrow as they can be."""
    ids, total = id_dtype(nodes), sum(table.rows for table in tables)
    merges = Merges(np.empty(total, ids), np.empty(total, ids), np.empty(total), np.empty(total, ids))
    at = 0
    for table in tables:
        part = read_merges(folder, table)
        for name, column in zip(MERGE_COLUMNS, merges, strict=False):
            column[at : at + table.rows] = part[name]
        at += table.rows
    return merges


def audit_bytes(tables: Sequence[TableRecord], nodes: int, report: bool) -> int:
    """Bytes that an audit takes at its peak beside the edges that are read, with its report or without."""
    ids = np.dtype(id_dtype(nodes)).itemsize
    reading = max((table.rows * MERGE_ROW + table.bytes for table in tables), default=0)
    merges = (3 * ids + 8) * sum(table.rows for table in tables)
    adding = (NODE_IDS * ids + NODE_BYTES) * nodes
    reporting = (REPORT_IDS * ids + REPORT_BYTES) * nodes if report else 0
    return max(merges + reading, adding + reporting)


def piece_bytes(source: EdgeSource, piece: Piece) -> int:
    """Bytes that a thread holds while it adds a piece; a row group is read whole before it is unpacked."""
    if isinstance(piece, Unit):
        packed = source.bytes / source.rows * piece.rows / piece.groups
        return int(EDGE_ROW * min(piece.rows, BATCH_ROWS) + packed)
    return ENTRY * piece.entries + 16 * piece.clusters


def _add_wanted(audit: Audit, told: AuditJob, piece: Piece) -> None:
    """Add a piece, unless nobody waits for it any more."""
    _check_wanted(told)
    add_piece(audit, told.job.store, told.source, piece)


def _check_wanted(told: AuditJob) -> None:
    """Raise if whoever asked has given up, and would never delete what is written now."""
    if not told.job.store.exists(told.marker):
        raise StoppedError(f"{told.job.folder} of {told.job.url} is gone: the audit was given up")


def _as_integers(column: NDArray[Any]) -> NDArray[Any]:
    """A column of ids, which may be floats in the input."""
    return column if column.dtype.kind in "iu" else column.astype(np.int64)
