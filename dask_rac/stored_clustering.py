"""What a run with a store gives: merges that stay on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dask_rac.audit import AuditReport
from dask_rac.clustering import Clustering
from dask_rac.dendrogram import Dendrogram, Forest
from dask_rac.errors import InputError
from dask_rac.kernels.arrays import Merges
from dask_rac.overview import overview
from dask_rac.store.files import Folder
from dask_rac.store.manifest import Facts, Header, Manifest
from dask_rac.store.tables import TableRecord, read_merges
from dask_rac.views import phase_table, round_phases

if TYPE_CHECKING:
    from dask_rac.report.subject import Subject


class StoredResult(Protocol):
    """What a stored clustering is made from."""

    @property
    def folder(self) -> Folder:
        """The store."""

    @property
    def header(self) -> Header:
        """What the run computes."""

    @property
    def chain(self) -> Sequence[Manifest]:
        """Its steps so far."""

    @property
    def facts(self) -> Facts:
        """What reading the edges has shown."""

    @property
    def tables(self) -> list[TableRecord]:
        """The files of merges, in order."""

    def frame(self) -> Any:
        """The merges as a Dask DataFrame."""

    def merges(self) -> Merges:
        """All merges in memory."""

    def height_range(self) -> tuple[float, float] | None:
        """The heights of the nearest and the farthest merge."""

    def verify(self, edges: Any, client: Any) -> AuditReport:
        """Audit the merges, on the workers of a client or in threads."""


class StoredClustering(Clustering):
    """The hierarchy in a store, finished or on its way, as `dask_rac.open` and `cluster(store=...)` return it.

    What it has in common with `Clustering` it does without holding more than a few vectors over the nodes, `to_scipy`
    apart. `merges` is a Dask DataFrame over the Parquet files of the store.

    Attributes
    ----------
    store : str
        Where it is.
    finished : bool
        Whether the run has come to its end; if not, these are the merges so far.
    peak_disk : int
        The most bytes that the store has held.
    phases : pandas.DataFrame
        A row a step: its shards, the seconds that its tasks spent on each phase, and the bytes they moved.
    """

    def __init__(self, run: StoredResult) -> None:
        self._run = run
        self.n_nodes = run.facts.nodes
        self._loops = run.facts.loops
        self.store = run.folder.url
        self.finished = run.chain[-1].state is None
        self.peak_disk = run.chain[-1].peak_disk
        self._records = [record for manifest in run.chain for record in manifest.records]
        self._settings = run.header.settings

    @property
    def n_trees(self) -> int:
        """Trees of the hierarchy, single nodes among them."""
        return self.n_nodes - self._n_merges

    @property
    def _n_merges(self) -> int:
        return sum(table.rows for table in self._run.tables)

    @property
    def merges(self) -> Any:
        """A row a merge, as a Dask DataFrame."""
        return self._run.frame()

    @property
    def phases(self) -> pd.DataFrame:
        """A row a step: the seconds that its tasks spent on each phase, all together, and the bytes they moved."""
        rows = [
            {"step": step.step, "round": step.state.round if step.state else None, "shards": _shards(step)}
            | {f"{name}_seconds": seconds for name, seconds in step.phases.items()}
            | {f"{name}_bytes": size for name, size in step.traffic.items()}
            for step in self._run.chain
        ]
        return pd.DataFrame(rows).fillna(0)

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The tree of each node."""
        labels = next(iter(self._forest.label_counts(np.array([self.n_trees]))))
        labels.flags.writeable = False
        return labels

    @cached_property
    def _forest(self) -> Forest:
        """What flat cuts need."""
        return Forest(self.n_nodes, self._parts(), self._settings.sign)

    @cached_property
    def _tree(self) -> Dendrogram:  # type: ignore[override]
        """All merges in memory."""
        return Dendrogram(self.n_nodes, self._run.merges(), self._settings.sign)

    def _parts(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        """The merges, file by file."""
        return (read_merges(self._run.folder, table) for table in self._run.tables)

    def _label(self, kind: str, values: NDArray[Any]) -> Iterable[NDArray[np.int64]]:
        """Labels of each cut, one at a time."""
        return self._forest.label_heights(values) if kind == "height" else self._forest.label_counts(values)

    def export(self, path: str | PathLike[str], *, join: bool = False, zero: float | None = None) -> str:
        """Write the whole hierarchy as one file; see `Clustering.export`."""
        if not self.finished:
            raise InputError(
                f"{self.store} is on its way, and merges so far are no tree: go on with dask_rac.resume({self.store!r})"
            )
        return super().export(path, join=join, zero=zero)

    def verify(self, edges: Any = None, *, client: Any = None) -> AuditReport:
        """Recompute every height from the edges, in one pass over them, where `cluster` would run.

        Parameters
        ----------
        edges : optional
            As for `Clustering.verify`; by default those of the run, if they were on disk.
        client : distributed.Client, optional
            Where to run. By default the current client, else the threads of this process.

        Returns
        -------
        AuditReport
        """
        return self._run.verify(edges, client)

    def facts(self) -> dict[str, str]:
        """What it is in a few words, by name."""
        facts = super().facts()
        facts["store"] = self.store if self.finished else f"{self.store}, on its way"
        return facts

    def _height_range(self) -> tuple[float, float] | None:
        """The heights of the nearest and the farthest merge."""
        return self._run.height_range()

    def _subject(self) -> Subject:
        """What a report is to tell, as the run stands now."""
        from dask_rac.report.words import graph_of  # noqa: PLC0415 - Bokeh is an extra

        now, facts = overview(self.store), self._run.facts
        return replace(
            super()._subject(),
            name=self.store,
            run=self.store,
            status="finished" if self.finished else now.status,
            records=now.rounds,
            graph=graph_of(now.header, facts),
            versions=now.header.versions,
            known={"loops": self._loops, "repeats": facts.repeats, "damaged": now.damaged},
        )

    def _phase_seconds(self) -> pd.DataFrame:
        """Seconds of each phase over all tasks, a row a step; of the rest in memory, a row a round."""
        rows: list[tuple[str, Mapping[str, float]]] = []
        for step in self._run.chain:
            name = "edges" if not step.step else str(step.records[-1].round) if step.records else "end"
            rows += [(name, step.phases)] if step.phases else [round_phases(record) for record in step.records]
        return phase_table(rows)


def _shards(step: Manifest) -> int:
    """Shards of the state after a step."""
    return len(step.state.shards) if step.state else 0
