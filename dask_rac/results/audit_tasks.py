"""An audit in parts: each process tallies some of the edges and writes its tally to the store."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock

from dask_rac.base.errors import StoppedError
from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.names import TALLY, WANTED
from dask_rac.engines.contract import EdgePiece
from dask_rac.engines.rows.receipts import Job, Receipt, fresh_name
from dask_rac.files.arrays import read_array, write_group
from dask_rac.files.folder import FileRecord, Folder
from dask_rac.files.tables import TableRecord
from dask_rac.results.audit import Audit, AuditCosts, EdgeTaker, Tally
from dask_rac.store.journal import all_merges
from dask_rac.tasks import scratch
from dask_rac.tasks.cache import forget_state

MERGE_ROW = 72  # bytes per merge while it is read: twice its columns

_alone = Lock()  # two parts in one process would need twice the memory, and share its threads anyway


@dataclass(frozen=True)
class AuditJob:
    """What the tasks of an audit receive."""

    job: Job
    tables: tuple[TableRecord, ...]
    """The files of merges, in order."""
    threads: int
    """Threads per process."""

    @property
    def marker(self) -> str:
        """A file that exists as long as a process waits for the tallies."""
        return f"{self.job.folder}/{WANTED}"


@dataclass(frozen=True)
class Tallied(Receipt):
    """The tally of a part of the edges."""

    pieces: int
    edges: int
    unjoined: int
    arrays: tuple[FileRecord, ...]
    """The files of the tally, one per part."""


def tally_part(audit_job: AuditJob, pieces: Sequence[EdgePiece]) -> Tallied:
    """Tally some of the edges, with all threads of this process."""
    with _alone:
        forget_state()
        scratch.end_tasks()
        job, store = audit_job.job, audit_job.job.store
        audit = Audit(job.nodes, all_merges(store, audit_job.tables, job.nodes), job.settings)
        with ThreadPoolExecutor(audit_job.threads) as pool:
            for _ in pool.map(partial(_add_wanted, audit, audit_job), pieces):
                pass
        _check_wanted(audit_job)
        edges, unjoined, parts = audit.tally()
        files = write_group(store, fresh_name(job, TALLY), {str(k): part for k, part in enumerate(parts)})
    return Tallied(len(pieces), edges, unjoined, tuple(files))


def stored_tally(folder: Folder, receipt: Tallied) -> Tally:
    """Read the tally that a task has written, part by part."""
    parts = (read_array(folder, record.name) for record in receipt.arrays)
    return Tally(receipt.edges, receipt.unjoined, parts)


def add_piece(audit: EdgeTaker, piece: EdgePiece) -> None:
    """Add each edge of a piece once."""
    for edges in piece.read():
        audit.add(*edges)


def audit_bytes(tables: Sequence[TableRecord], nodes: int, report: bool, costs: AuditCosts | None = None) -> int:
    """Return the peak bytes of an audit, with or without its report, apart from the edges that are being read."""
    costs, ids = costs or AuditCosts(), cluster_id_dtype(nodes).itemsize
    reading = max((table.rows * MERGE_ROW + table.bytes for table in tables), default=0)
    merges = (3 * ids + 8) * sum(table.rows for table in tables)
    adding = (costs.node_ids * ids + costs.node_bytes) * nodes
    reporting = (costs.report_ids * ids + costs.report_bytes) * nodes if report else 0
    return max(merges + reading, adding + reporting)


def _add_wanted(audit: Audit, audit_job: AuditJob, piece: EdgePiece) -> None:
    """Add a piece, unless no process waits for it any more."""
    _check_wanted(audit_job)
    add_piece(audit, piece)


def _check_wanted(audit_job: AuditJob) -> None:
    """Raise if the process that wants the tally has given up, as no one would delete what is written now."""
    job = audit_job.job
    if not job.store.exists(audit_job.marker):
        raise StoppedError(f"{job.folder} of {job.url} is gone: the audit was given up")
