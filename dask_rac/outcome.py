"""What a store holds for its readers: merges as a Dask DataFrame, and the audit of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.delayed import delayed
from numpy.typing import NDArray

from dask_rac.audit import Audit, AuditReport
from dask_rac.clustering import audit_graph, checked_report
from dask_rac.config import MERGE_COLUMNS, Event, Progress, id_dtype
from dask_rac.driver import memory_limit, new_team
from dask_rac.edges import load_graph
from dask_rac.errors import InputError
from dask_rac.graphs import intake_graph
from dask_rac.intake import lay_out, scan
from dask_rac.kernels.arrays import Merges
from dask_rac.plan import UNIT_ROWS, Sizes
from dask_rac.store.arrays import read_array
from dask_rac.store.edges import EdgeSource, Unit, open_edges
from dask_rac.store.files import Folder
from dask_rac.store.manifest import Facts, Header, Manifest
from dask_rac.store.tables import MERGE_TYPES, TableRecord, check_table, read_merges
from dask_rac.stored import step_job
from dask_rac.workers import Threads

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

    def verify(self, edges: Any) -> AuditReport:
        """Audit the merges against the edges, which are read once."""
        for table in self.tables:
            check_table(self.folder, table)
        audit = Audit(self.facts.nodes, self.merges(), self.header.settings)
        if edges is None or isinstance(edges, str | PathLike):
            self._audit_source(audit, self._source(edges), self.facts.repeats > 0 or edges is not None)
        else:
            with new_team() as team:
                audit_graph(audit, load_graph(edges, self.facts.nodes, self.header.settings, team, memory_limit()))
        return checked_report(audit)

    def _source(self, edges: str | PathLike[str] | None) -> EdgeSource:
        """The edges on disk, which must be those of the run."""
        if edges is None and self.header.source is None:
            raise InputError("this run's edges were not on disk: give them again, verify(edges)")
        source = open_edges(self.header.source if edges is None else edges)  # type: ignore[arg-type]
        if edges is None:
            check_fingerprint(source, self.header)
        return source

    def _audit_source(self, audit: Audit, source: EdgeSource, repeats: bool) -> None:
        """Add every edge once: as they come, or, where some may come twice, as a run reads them."""
        if repeats:
            self._audit_twice(audit, source)
            return
        units = source.units(AUDIT_ROWS)
        self._in_threads([partial(_add_unit, audit, source, unit) for unit in units])

    def _audit_twice(self, audit: Audit, source: EdgeSource) -> None:
        """Read the edges into rows, as a run does, and add those."""
        threads, facts = Threads(), self.facts
        job = replace(step_job(self.folder, self.header, facts.nodes, facts.edges, 0, 0), folder="rounds/verify")
        sizes = Sizes.of(self.header.settings, facts.nodes, facts.edges, self.header.weights)
        entries = max(1, threads.budget(None).memory // (8 * threads.threads * sizes.entry))
        units = source.units(UNIT_ROWS)
        scanned = [scan(source, unit, self.header.n_nodes, self.header.settings) for unit in units]
        layout = lay_out(scanned, facts.nodes, entries)
        try:
            built = threads.compute(intake_graph(job, source, units, layout, UNIT_ROWS), lambda *_: None)["build"]
            self._in_threads([partial(_add_shard, audit, self.folder, receipt.shard) for receipt in built])
        finally:
            self.folder.remove(job.folder)

    def _in_threads(self, work: Sequence[Callable[[], None]]) -> None:
        """Do all of it, with progress."""
        with ThreadPoolExecutor(Threads().threads) as pool:
            for done, _ in enumerate(pool.map(lambda task: task(), work), 1):
                self.report(Event("verify", self.facts.nodes, done=done, total=len(work)))

    def merges(self) -> Merges:
        """All merges, as narrow as they can be."""
        ids, total = id_dtype(self.facts.nodes), sum(table.rows for table in self.tables)
        merges = Merges(np.empty(total, ids), np.empty(total, ids), np.empty(total), np.empty(total, ids))
        at = 0
        for table in self.tables:
            part = read_merges(self.folder, table)
            for name, column in zip(MERGE_COLUMNS, merges, strict=False):
                column[at : at + table.rows] = part[name]
            at += table.rows
        return merges


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


def _add_unit(audit: Audit, source: EdgeSource, unit: Unit) -> None:
    """Add the edges of a piece of the input."""
    for columns, _ in source.read(unit):
        audit.add(_as_integers(columns["source"]), _as_integers(columns["target"]), columns["weight"])


def _add_shard(audit: Audit, folder: Folder, shard: Any) -> None:
    """Add the edges of a shard of the first state, each from its smaller end."""
    length = read_array(folder, f"{shard.name}/length")
    source = np.repeat(np.arange(shard.first, shard.first + shard.clusters), length)
    target, weight = (read_array(folder, f"{shard.name}/{name}") for name in ("neighbour", "weight"))
    once = source < target
    audit.add(source[once], target[once], weight[once])


def _as_integers(column: NDArray[Any]) -> NDArray[Any]:
    """A column of ids, which may be floats in the input."""
    return column if column.dtype.kind in "iu" else column.astype(np.int64)
