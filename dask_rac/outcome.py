"""What a store holds for its readers: merges as a Dask DataFrame, and the audit of them."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike, fspath
from typing import Any

import numpy as np
import pandas as pd
from dask.delayed import delayed

from dask_rac.audit import TALLY_BYTES, Audit, AuditReport
from dask_rac.audit_parts import (
    AuditJob,
    Piece,
    Tallied,
    add_piece,
    all_merges,
    audit_bytes,
    piece_bytes,
    stored_tally,
    tally_part,
)
from dask_rac.clustering import audit_graph, checked_report
from dask_rac.config import MERGE_COLUMNS, Event, Progress, size_text
from dask_rac.driver import memory_limit, new_team
from dask_rac.edges import load_graph
from dask_rac.errors import InputError, ResourceError, StoreError
from dask_rac.graphs import intake_graph, scan_graph, spread
from dask_rac.intake import lay_out
from dask_rac.kernels.arrays import Merges
from dask_rac.planner import UNIT_ROWS, Budget, Sizes
from dask_rac.receipts import Job
from dask_rac.store.edges import EdgeSource, open_edges
from dask_rac.store.files import Folder
from dask_rac.store.manifest import Facts, Header, Manifest
from dask_rac.store.tables import MERGE_TYPES, TableRecord, read_merges
from dask_rac.stored import step_job
from dask_rac.workers import Scheduler, Threads, chosen

AUDIT_ROWS = 4_000_000  # that one thread reads at a time


@dataclass(frozen=True)
class Outcome:
    """The result of a stored run, as far as it got."""

    folder: Folder
    header: Header
    chain: Sequence[Manifest]
    report: Progress

    @property
    def facts(self) -> Facts:
        """What reading the edges has shown."""
        return self.chain[0].facts

    @property
    def tables(self) -> list[TableRecord]:
        """The files of merges, in order."""
        return [table for manifest in self.chain for table in manifest.merges]

    def frame(self) -> Any:
        """The merges as a Dask DataFrame, a file a partition."""
        import dask.dataframe as dd  # noqa: PLC0415 - takes half a second, and most runs never ask for it

        meta = pd.DataFrame({name: np.empty(0, kind) for name, kind in zip(MERGE_COLUMNS, MERGE_TYPES, strict=True)})
        if not self.tables:
            return dd.from_pandas(meta, npartitions=1)
        parts = [delayed(_frame)(self.folder, table) for table in self.tables]
        return dd.from_delayed(parts, meta=meta, prefix="merges", verify_meta=False)

    def height_range(self) -> tuple[float, float] | None:
        """The heights of the nearest and the farthest merge."""
        if not self.tables:
            return None
        low, high = min(table.low for table in self.tables), max(table.high for table in self.tables)
        return (low, high) if self.header.settings.sign > 0 else (high, low)

    def verify(self, edges: Any, client: Any = None) -> AuditReport:
        """Audit the merges against the edges, which are read once: on the workers of a client, or in threads."""
        scheduler = chosen(client)
        if edges is None or isinstance(edges, str | PathLike):
            repeats = self.facts.repeats > 0 or edges is not None
            return checked_report(self._audit_source(scheduler, self._source(edges), repeats))
        audit = self._audit()
        with new_team() as team:
            audit_graph(audit, load_graph(edges, self.facts.nodes, self.header.settings, team, memory_limit()))
        return checked_report(audit)

    def _audit(self) -> Audit:
        """An audit that has seen no edge yet."""
        return Audit(self.facts.nodes, self.merges(), self.header.settings)

    def _source(self, edges: str | PathLike[str] | None) -> EdgeSource:
        """The edges on disk; those of the run must be as they were."""
        if edges is not None:
            name = fspath(edges)
            return open_edges(os.path.abspath(name) if name and "://" not in name else name)
        if self.header.source is None:
            raise InputError("this run's edges were not on disk: give them again, verify(edges)")
        source = open_edges(self.header.source)
        check_fingerprint(source, self.header)
        return source

    def _audit_source(self, scheduler: Scheduler, source: EdgeSource, repeats: bool) -> Audit:
        """An audit that has seen every edge once: as they come, or, where some may come twice, as a run reads them."""
        facts, left = self.facts, self._left_for_edges(scheduler)
        job = step_job(self.folder, self.header, facts.nodes, facts.edges, 0, 0)
        job = replace(job, folder=f"rounds/verify-{job.attempt}")
        try:
            with self._explained():
                scheduler.check(self.folder)
                pieces = self._unite(scheduler, left, job, source) if repeats else source.units(AUDIT_ROWS)
                threads = _fitting(left, max((piece_bytes(source, piece) for piece in pieces), default=0))
                told = AuditJob(job, tuple(self.tables), source, threads)
                if isinstance(scheduler, Threads):
                    return self._add_here(told, pieces)
                return self._add_there(scheduler, told, pieces)
        finally:
            self.folder.remove(job.folder)

    def _left_for_edges(self, scheduler: Scheduler) -> Budget:
        """What an audit leaves of the memory, which must suffice for it: there, and here, where the report is made."""
        nodes, budget = self.facts.nodes, scheduler.budget(None)
        here, there = (audit_bytes(self.tables, nodes, report) for report in (True, False))
        if here >= memory_limit():
            raise ResourceError(
                f"the audit of {nodes:,} nodes takes {size_text(here)} in this process, which may use "
                f"{size_text(memory_limit())}: verify on a larger machine"
            )
        if isinstance(scheduler, Threads):
            return Budget(memory_limit() - here, 1, budget.threads)
        if there >= budget.process:
            raise ResourceError(
                f"the audit of {nodes:,} nodes takes {size_text(there)} in each worker process, which may use "
                f"{size_text(budget.process)}, half of its memory: start workers with "
                f"memory_limit='{math.ceil(2.2 * there / 1e6)}MB' or more, fewer if need be"
            )
        return Budget(budget.processes * (budget.process - there), budget.processes, budget.threads)

    def _unite(self, scheduler: Scheduler, left: Budget, job: Job, source: EdgeSource) -> list[Piece]:
        """Read the edges into the shards of a first state, as a run does."""
        nodes, settings, task = self.facts.nodes, self.header.settings, left.process // left.threads
        sizes = Sizes.of(settings, nodes, source.rows, self.header.weights)
        rows = max(1, min(UNIT_ROWS, task // (8 * (2 * sizes.ids + sizes.weight))))
        units = source.units(rows)
        scanned = scheduler.compute(scan_graph(job.attempt, source, units, nodes, settings), _unwatched).get("scan", [])
        layout = lay_out(scanned, nodes, max(1, task // (16 * sizes.entry)))
        built = scheduler.compute(intake_graph(job, source, units, layout, rows), _unwatched)["build"]
        return [receipt.shard for receipt in built]

    def _add_here(self, told: AuditJob, pieces: Sequence[Piece]) -> Audit:
        """Add all pieces in the threads of this process."""
        audit = self._audit()
        with ThreadPoolExecutor(told.threads) as pool:
            added = pool.map(partial(add_piece, audit, self.folder, told.source), pieces)
            for done, _ in enumerate(added, 1):
                self._tell(done, len(pieces))
        return audit

    def _add_there(self, scheduler: Scheduler, told: AuditJob, pieces: Sequence[Piece]) -> Audit:
        """Have each worker process tally a part of the pieces, then add the tallies, always in the same order."""
        parts = min(scheduler.budget(None).processes, len(pieces))
        self._check_disk(parts)
        self.folder.write(told.marker, b"")
        done = 0

        def watch(_: str, receipt: Tallied) -> None:
            nonlocal done
            done += receipt.pieces
            self._tell(done, len(pieces))

        graph = spread(tally_part, told.job.attempt, [told.part(pieces[k::parts]) for k in range(parts)])
        receipts = scheduler.compute(graph, watch).get(tally_part.__name__, [])
        audit = self._audit()
        for receipt in receipts:
            audit.add_tally(stored_tally(self.folder, receipt))
        return audit

    def _tell(self, done: int, total: int) -> None:
        """Report progress."""
        self.report(Event("verify", self.facts.nodes, done=done, total=total))

    def _check_disk(self, parts: int) -> None:
        """Raise unless the store has room for so many tallies."""
        free, needed = self.folder.free_bytes(), parts * TALLY_BYTES * (sum(table.rows for table in self.tables) + 1)
        if free is not None and free < needed:
            raise ResourceError(
                f"{self.folder.url} has {size_text(free)} free, and what {parts} workers find takes "
                f"{size_text(needed)} there for a while: make room"
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what to do about a store that takes no files."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise ResourceError(f"the disk of {self.folder.url} is full: make room and verify again") from error
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            raise StoreError(
                f"{self.folder.url} cannot be written: {error.strerror}; edges given twice, and workers, need it: make "
                "it writable, or verify without a client"
            ) from error

    def merges(self) -> Merges:
        """All merges, as narrow as they can be."""
        return all_merges(self.folder, self.tables, self.facts.nodes)


def check_fingerprint(source: EdgeSource, header: Header) -> None:
    """Raise unless edges are what they were when the run began."""
    if source.fingerprint != header.fingerprint:
        raise InputError(
            f"{source.name} has changed since the run began (names, sizes or times of its files): start a new run in "
            "another folder, or put the edges back as they were"
        )


def _frame(folder: Folder, table: TableRecord) -> pd.DataFrame:
    """A file of merges."""
    return pd.DataFrame(dict(read_merges(folder, table)))


def _fitting(left: Budget, piece: int) -> int:
    """Threads of each process that have room for a piece of the edges; raises if not even one has."""
    if piece > left.process:
        raise ResourceError(
            f"edges that are read together take {size_text(piece)}, and the audit leaves {size_text(left.process)} of "
            "each process: give processes more memory, or write the edges in smaller row groups"
        )
    return min(left.threads, left.process // max(1, piece))


def _unwatched(_layer: str, _result: Any) -> None:
    """Nobody is told of a task that is done."""
