"""The audit of a stored run: its edges read once, in the threads of this process or on workers."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike, fspath
from typing import Any

from dask_rac.base.errors import InputError, ResourceError, StoreError
from dask_rac.base.events import Event, Listener
from dask_rac.base.names import ROUNDS
from dask_rac.base.text import size_text
from dask_rac.edges.numbering import other_nodes, same_names
from dask_rac.edges.source import EdgeSource, open_edges
from dask_rac.engines import engine_for
from dask_rac.engines.contract import EdgePiece, Limits, Work
from dask_rac.engines.numbering import NumberingPlan, number_edges
from dask_rac.engines.rows.load import load_graph
from dask_rac.engines.rows.receipts import new_job
from dask_rac.files.folder import Folder
from dask_rac.files.full import disk_full_text, is_disk_full
from dask_rac.files.links import refuse_links
from dask_rac.files.listing import files_fingerprint
from dask_rac.files.stored_names import StoredNames
from dask_rac.results.audit import Audit, AuditCosts, AuditReport, Taker, tally_width
from dask_rac.results.audit_tasks import AuditJob, Tallied, add_piece, audit_bytes, stored_tally, tally_part
from dask_rac.results.clustering import audit_graph, checked_report
from dask_rac.results.pairs_audit import audit_pairs
from dask_rac.results.ratios import RatioAudit, replay_bytes
from dask_rac.store.header import check_source, check_trusted
from dask_rac.store.journal import Journal
from dask_rac.store.manifest import Facts
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.machine import memory_limit, new_team
from dask_rac.tasks.scheduler import Scheduler
from dask_rac.tasks.task_graph import spread
from dask_rac.tasks.team import Team
from dask_rac.tasks.threads import Threads


@dataclass(frozen=True)
class Verification:
    """An audit of a stored run against its edges."""

    journal: Journal
    scheduler: Scheduler
    report: Listener
    limits: Limits = field(default_factory=Limits)
    costs: AuditCosts | None = None
    """What an audit costs, by default what the linkage needs."""
    trusted: bool = False
    """Whether the edges that the store names may be opened wherever they are."""
    again: str = "verify({})"
    """How a user gives edges or vectors again."""

    @property
    def _facts(self) -> Facts:
        return self.journal.facts

    @property
    def _folder(self) -> Folder:
        return self.journal.folder

    def run(self, edges: Any) -> AuditReport:
        """Audit the merges against the edges, by default those of the run; each is read once."""
        if self._replay_fits and not isinstance(self.scheduler, Threads):  # which takes all edges in one process
            return replace(self, scheduler=Threads()).run(edges)
        if isinstance(self.scheduler, Threads) or self.journal.settings.metric or not _is_place(edges):
            return self._reported(self.feed(self._audit, edges))
        with self._pieces(edges) as (audit_job, pieces):
            return self._reported(self._add_there(audit_job, pieces))

    def feed(self, make: Callable[[], Taker], edges: Any, in_order: bool = False) -> Taker:
        """Hand every edge once to what `make` returns, in the threads of this process; in one, to keep their order."""
        if self.journal.settings.metric:
            return self._feed_pairs(make, edges, in_order)
        if _is_place(edges):
            with self._pieces(edges) as (audit_job, pieces):
                return self._add_here(make, 1 if in_order else audit_job.threads, pieces)
        taker = make()
        settings, names = self.journal.settings, self.journal.names
        with new_team() as team:
            audit_graph(taker, load_graph(edges, self._facts.nodes, settings, team, memory_limit(), names))
        return taker

    def _feed_pairs(self, make: Callable[[], Taker], given: Any, in_order: bool) -> Taker:
        """Hand over all pairs, by default those of the run."""
        header = self.journal.header
        if given is None:
            again = self.again.format("vectors")
            if header.source is None:
                raise InputError(
                    f"the {header.settings.input_name} of this run were not on disk: give them again with {again}"
                )
            if not self.trusted:
                check_trusted(self._folder, header.source, f", or give the {header.settings.input_name} with {again}")
            check_source(header, header.source, files_fingerprint(header.source))
            given = header.source
        taker = make()
        with Team(1) if in_order else new_team() as team:
            audit_pairs(taker, given, header.settings, team, self.report)
        return taker

    def _audit(self) -> Audit:
        """An audit that has seen no edge yet."""
        nodes, settings = self._facts.nodes, self.journal.settings
        ratios = RatioAudit(nodes, self.journal.ratios(), settings) if self._replay_fits else None
        return Audit(nodes, self.journal.merges(), settings, ratios=ratios)

    @property
    def _replay_bytes(self) -> int:
        """Bytes that the audit of ratios takes in this process; 0 if merges have none."""
        nodes, merges, settings = self._facts.nodes, self.journal.merged, self.journal.settings
        edges = 0 if settings.linkage == "single" else self._facts.edges
        return replay_bytes(nodes, merges, edges) if settings.epsilon else 0

    @property
    def _replay_fits(self) -> bool:
        """Whether merges have ratios, and this process has room to check them."""
        costs = self.costs or AuditCosts.of(self.journal.settings)
        here = audit_bytes(self.journal.tables, self._facts.nodes, True, costs)
        return 0 < self._replay_bytes < memory_limit() - here

    def _reported(self, audit: Audit) -> AuditReport:
        """Return the report of an audit, with what it takes to check ratios that it has not checked."""
        return replace(checked_report(audit), ratio_bytes=0 if self._replay_fits else self._replay_bytes)

    def _source(self, edges: str | PathLike[str] | None) -> EdgeSource:
        """The edges on disk; those of the run must be unchanged."""
        if edges is not None:
            name = fspath(edges)
            return open_edges(os.path.abspath(name) if name and "://" not in name else name)
        header, again = self.journal.header, self.again.format("edges")
        if header.source is None:
            raise InputError(f"the edges of this run were not on disk: give them again with {again}")
        if not self.trusted:
            check_trusted(self._folder, header.source, f", or give the edges with {again}")
        source = open_edges(header.source)
        check_source(header, source.name, source.fingerprint)
        return source

    @contextmanager
    def _pieces(self, edges: str | PathLike[str] | None) -> Iterator[tuple[AuditJob, Sequence[EdgePiece]]]:
        """Cut edges on disk into pieces in which every edge occurs once: as they are, or united if some may not.

        It shares the lock of the store: a process that has the lock alone deletes what audits that died have left.
        """
        source, repeats = self._source(edges), self._facts.repeats > 0 or edges is not None
        header, left = self.journal.header, self._left_for_edges()
        refuse_links(self._folder, (ROUNDS,))
        work = Work(self._folder, header, self.scheduler, left, _quiet, self.limits, facts=self._facts)
        work.attempt = f"verify-{work.attempt}"
        job = new_job(work, self._facts.nodes, self._facts.edges, 0)
        with self._folder.locked(shared=True), self._explained():
            try:
                self.scheduler.check(self._folder)
                source = self._numbered(source, work)
                pieces = engine_for(header.settings, header.engine).pieces(source, repeats, work)
                threads = _fitting(left, max((piece.bytes for piece in pieces), default=0))
                yield AuditJob(job, tuple(self.journal.tables), threads), pieces
            finally:
                self._folder.remove(job.folder)

    def _numbered(self, source: EdgeSource, work: Work) -> EdgeSource:
        """Return edges between numbered nodes; ids that are text must be the names that the run has."""
        if not source.text:
            return source
        settings, known = self.journal.header.settings, self.journal.names
        plan = NumberingPlan(
            self._folder, self.scheduler, work.budget, settings, self.limits, work.attempt, keeps_names=False
        )
        numbered = number_edges(source, plan, _quiet)
        if known is None or not same_names(StoredNames(self._folder, numbered.names), known):
            raise other_nodes(numbered.names.nodes, self._facts.nodes)
        return numbered.source

    def _left_for_edges(self) -> Budget:
        """What an audit leaves of the memory; raises if it does not fit, there or here, where the report is made."""
        nodes, budget = self._facts.nodes, self.scheduler.budget(None)
        costs = self.costs or AuditCosts.of(self.journal.settings)
        here, there = (audit_bytes(self.journal.tables, nodes, report, costs) for report in (True, False))
        here += self._replay_bytes if self._replay_fits else 0
        if here >= memory_limit():
            raise ResourceError(
                f"the audit of {nodes:,} nodes needs {size_text(here)} in this process, which may use "
                f"{size_text(memory_limit())}: verify on a larger machine"
            )
        if isinstance(self.scheduler, Threads):
            return Budget(memory_limit() - here, 1, budget.threads)
        if there >= budget.process:
            raise ResourceError(
                f"the audit of {nodes:,} nodes needs {size_text(there)} in each worker process, which may use "
                f"{size_text(budget.process)}, half of its memory: start workers with "
                f"memory_limit='{math.ceil(2.2 * there / 1e6)}MB' or more, and fewer of them if necessary"
            )
        return Budget(budget.processes * (budget.process - there), budget.processes, budget.threads)

    def _add_here(self, make: Callable[[], Taker], threads: int, pieces: Sequence[EdgePiece]) -> Taker:
        """Add all pieces in the threads of this process."""
        taker = make()
        with ThreadPoolExecutor(threads) as pool:
            added = pool.map(partial(add_piece, taker), pieces)
            for done, _ in enumerate(added, 1):
                self._report_pieces(done, len(pieces))
        return taker

    def _add_there(self, audit_job: AuditJob, pieces: Sequence[EdgePiece]) -> Audit:
        """Let each worker process tally a part of the pieces, then add the tallies, always in the same order."""
        parts = min(self.scheduler.budget(None).processes, len(pieces))
        self._check_disk(parts)
        self._folder.write(audit_job.marker, b"")
        done = 0

        def watch(_: str, receipt: Tallied) -> None:
            nonlocal done
            done += receipt.pieces
            self._report_pieces(done, len(pieces))

        graph = spread(tally_part, audit_job.job.attempt, [(audit_job, pieces[k::parts]) for k in range(parts)])
        receipts = self.scheduler.compute(graph, watch).get(tally_part.__name__, [])
        audit = self._audit()
        for receipt in receipts:
            audit.add_tally(stored_tally(self._folder, receipt))
        return audit

    def _report_pieces(self, done: int, total: int) -> None:
        """Report progress."""
        self.report(Event("verify", self._facts.nodes, done=done, total=total))

    def _check_disk(self, parts: int) -> None:
        """Raise unless the store has room for this many tallies."""
        free, needed = self._folder.free_bytes(), parts * self._tally_bytes()
        if free is not None and free < needed:
            raise ResourceError(
                f"{self._folder.url} has {size_text(free)} free, and the partial results of {parts} workers "
                f"temporarily need {size_text(needed)} there: make room"
            )

    def _tally_bytes(self) -> int:
        """Bytes of a tally."""
        return 8 * tally_width(self.journal.settings) * (self.journal.merged + 1)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what to do about a store that cannot be written."""
        try:
            yield
        except OSError as error:
            if is_disk_full(error):
                raise ResourceError(disk_full_text(self._folder.url, "make room and verify again")) from error
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            raise StoreError(
                f"{self._folder.url} cannot be written: {error.strerror}; verifying on workers, or with edges given "
                "twice, writes to it: make it writable, or verify without a client"
            ) from error


def _is_place(edges: Any) -> bool:
    """Whether edges are on disk: at a path, or where the run had them."""
    return edges is None or isinstance(edges, str | PathLike)


def _fitting(left: Budget, piece: int) -> int:
    """Return how many threads of each process have room for a piece of the edges; raise if not even one has."""
    if piece > left.process:
        raise ResourceError(
            f"edges that are read together need {size_text(piece)}, and the audit leaves {size_text(left.process)} in "
            "each process: give processes more memory, or write the edges in smaller row groups"
        )
    return min(left.threads, left.process // max(1, piece))


def _quiet(_: Event) -> None:
    """Uniting edges reports nothing: progress counts pieces that were added."""
