"""The result of a run with a store: its merges stay on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dask_rac.base.errors import DamagedStoreError, InputError, StoreError
from dask_rac.base.events import Event, Listener
from dask_rac.base.public import public
from dask_rac.base.settings import Settings
from dask_rac.files.exports import name_columns
from dask_rac.files.folder import Folder
from dask_rac.files.listing import files_fingerprint
from dask_rac.files.node_names import NodeNames
from dask_rac.files.tables import TableRecord, merge_columns, read_merges, with_ratios
from dask_rac.results.audit import AuditReport, Taker
from dask_rac.results.clustering import Clustering
from dask_rac.results.scores import Scores
from dask_rac.results.scoring import POINTS, ScoreRequest
from dask_rac.results.verify import Verification
from dask_rac.results.views import phase_table, round_phases
from dask_rac.store.advice import lost_text, resume_advice
from dask_rac.store.committed import read_committed
from dask_rac.store.header import check_source, is_elsewhere, read_header
from dask_rac.store.journal import Journal
from dask_rac.store.manifest import Manifest
from dask_rac.store.overview import overview
from dask_rac.tasks.client import choose_scheduler
from dask_rac.tasks.threads import Threads
from dask_rac.tree.cuts import CutRule
from dask_rac.tree.dendrogram import Dendrogram

if TYPE_CHECKING:
    from dask_rac.show.report.subject import Subject


@public
class StoredClustering(Clustering):
    """The hierarchy in a store, finished or not, as returned by `dask_rac.open` and `cluster(store=...)`.

    It has all methods of `Clustering`. Except for `to_scipy`, they hold no more than a few vectors over the nodes in
    memory. `merges` is a Dask DataFrame over the Parquet files of the store.

    Attributes
    ----------
    store : str
        The path or URL of the store.
    finished : bool
        Whether the run is finished. If not, these are the merges so far.
    peak_disk : int
        The largest size of the store during the run, in bytes.
    phases : pandas.DataFrame
        One row per step: its shards, the seconds its tasks spent on each phase, and the bytes they moved.
    """

    def __init__(self, run: Journal, report: Listener, trusted: bool = False) -> None:
        self._run, self._report = run, report
        self._trusted = trusted  # the user has named the edges of the run, or said that the store is right about them
        self.n_nodes = run.facts.nodes
        self._loops = run.facts.loops
        self.store = run.folder.url
        self.finished = run.finished
        self.peak_disk = run.chain[-1].peak_disk
        self._records = [record for manifest in run.chain for record in manifest.records]
        self._settings = run.settings
        self.names = run.names

    @property
    def n_trees(self) -> int:
        """The number of trees of the hierarchy, single nodes included."""
        return self.n_nodes - self._n_merges

    @property
    def _n_merges(self) -> int:
        return self._run.merged

    @property
    def merges(self) -> Any:
        """One row per merge, in the order of rounds, as a Dask DataFrame."""
        return merges_frame(self._run)

    @property
    def epsilon(self) -> float:
        """How far a merge was from the nearest there was, at most."""
        return self._run.epsilon

    @property
    def phases(self) -> pd.DataFrame:
        """One row per step: the seconds its tasks spent on each phase, summed, and the bytes they moved."""
        rows = [
            {"step": step.step, "round": step.state.round if step.state else None, "shards": _shards(step)}
            | {f"{name}_seconds": seconds for name, seconds in step.phases.items()}
            | {f"{name}_bytes": size for name, size in step.traffic.items()}
            for step in self._run.chain
        ]
        return pd.DataFrame(rows).fillna(0)

    @cached_property
    def labels(self) -> Any:
        """The tree of each node."""
        labels = next(iter(self._forest.label_counts(np.array([self.n_trees]))))
        labels.flags.writeable = False
        return self._with_names(labels)

    @cached_property
    def _tree(self) -> Dendrogram:  # type: ignore[override]
        """All merges in memory."""
        return Dendrogram(self.n_nodes, self._run.merges(), self._settings.sign)

    def _parts(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield the merges file by file."""
        return self._run.parts()

    def _forest_parts(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield the edges of the spanning forest file by file; see `Clustering._forest_parts`."""
        for part in self._run.ends():
            if part is None:
                raise InputError(
                    f"{self.store} was written by an earlier version, which did not keep the spanning forest: cluster "
                    "its edges again"
                )
            yield part

    def _label(self, rule: CutRule, values: NDArray[Any]) -> Iterable[NDArray[np.int64]]:
        """Yield the labels of each cut."""
        return self._forest.label(rule, values)

    def named_merges(self) -> Any:
        """Return the merges with the names of their clusters, as a Dask DataFrame; see `Clustering.named_merges`."""
        return merges_frame(self._run, self._require_names("named_merges()"))

    def _kept_input(self) -> Any:
        """Return where the vectors of all pairs are, None if they were not on disk; they must be unchanged."""
        header = self._run.header
        if header.source is None:
            return None
        if not self._trusted and is_elsewhere(self._run.folder, header.source):
            raise StoreError(
                f"{self.store} names its vectors at {header.source}, which is not where the store itself is: if you "
                "trust the store, give them with points="
            )
        check_source(header, header.source, files_fingerprint(header.source))
        return header.source

    def export(
        self,
        path: str | PathLike[str],
        *,
        join: bool = False,
        zero: float | None = None,
        names: bool | None = None,
    ) -> str:
        """Write the whole hierarchy to one file; see `Clustering.export`."""
        self._require_finished()
        return super().export(path, join=join, zero=zero, names=names)

    def to_scipy(self, join: bool = False, zero: float | None = None) -> NDArray[np.float64]:
        """Return the hierarchy as scipy's linkage matrix Z; see `Clustering.to_scipy`."""
        self._require_finished()
        return super().to_scipy(join, zero)

    def _require_finished(self) -> None:
        """Raise where only the whole tree makes sense."""
        if not self.finished:
            raise InputError(
                f"{self.store} is unfinished, and the merges so far are not the whole tree: resume with "
                f"dask_rac.resume({self.store!r})"
            )

    def verify(self, edges: Any = None, *, client: Any = None, trust_source: bool = False) -> AuditReport:
        """Recompute every height from the edges, in one pass over them; see `Clustering.verify`.

        Parameters
        ----------
        edges : optional
            As for `Clustering.verify`. By default the edges of the run, if they were on disk.
        client : distributed.Client, optional
            Where to run. By default the current client, otherwise the threads of this process.
        trust_source : bool
            Whether the edges that the store names may be opened even if they are at another server or in another
            bucket than the store. Not needed for a result of `cluster` in this process.

        Returns
        -------
        AuditReport

        Raises
        ------
        StoreError
            If the edges would have to be opened at another server, and `trust_source` does not allow it.
        """
        self._require_finished()
        trusted = self._trusted or trust_source
        return Verification(self._run, choose_scheduler(client), self._report, trusted=trusted).run(edges)

    def _feed(self, make: Callable[[], Taker], edges: Any) -> Taker:
        """Hand all edges, or all pairs, to what `make` returns, in the same order each time."""
        reading = Verification(self._run, Threads(), self._report, trusted=self._trusted, again="edges={}")
        return reading.feed(make, edges, in_order=True)

    def scores(
        self,
        labels: Any = None,
        *,
        edges: Any = None,
        ignore: Any = -1,
        points: int | None = POINTS,
        ami: bool | None = None,
        trust_source: bool = False,
    ) -> Scores:
        """Score every flat cut against known classes, and the tree itself; see `Clustering.scores`.

        Parameters
        ----------
        labels, ignore, points, ami
            As for `Clustering.scores`.
        edges : optional
            As for `Clustering.scores`. True for the edges of the run, if they were on disk; they are read piece by
            piece, in the threads of this process. They may also be at a path.
        trust_source : bool
            As for `verify`.

        Returns
        -------
        Scores
        """
        self._require_finished()
        return self._scored(labels, edges, ScoreRequest(ignore, points, ami), trust_source)

    def _score_edges(self, make: Callable[[], Taker], edges: Any, trusted: bool) -> Taker:
        """Hand every edge to what `make` returns; True stands for the edges of the run."""

        def report(event: Event) -> None:
            self._report(replace(event, stage="score") if event.stage == "verify" else event)

        again = "scores(labels, edges={})"
        reading = Verification(self._run, Threads(), report, trusted=self._trusted or trusted, again=again)
        return reading.feed(make, None if edges is True else edges)

    def facts(self) -> dict[str, str]:
        """Return a short description, as text by name."""
        facts = super().facts()
        facts["store"] = self.store if self.finished else f"{self.store}, unfinished"
        return facts

    def _height_range(self) -> tuple[float, float] | None:
        """Return the heights of the nearest and the farthest merge."""
        return self._run.height_range()

    def _subject(self) -> Subject:
        """Return the content of a report on the current state of the run."""
        from dask_rac.show.report.words import graph_of  # noqa: PLC0415 - Bokeh is an extra

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
        """Return the seconds of each phase: one row per step, summed over its tasks, and one per round in memory."""
        rows: list[tuple[str, Mapping[str, float]]] = []
        for step in self._run.chain:
            name = "edges" if not step.step else str(step.records[-1].round) if step.records else "end"
            rows += [(name, step.phases)] if step.phases else [round_phases(record) for record in step.records]
        return phase_table(rows)


def _shards(step: Manifest) -> int:
    """Count the shards of the state after a step."""
    return len(step.state.shards) if step.state else 0


def open_result(path: str | PathLike[str], report: Listener) -> StoredClustering:
    """Open the result in a store, complete or not."""
    store = Folder(path)
    header = read_header(store)
    found = read_committed(store)
    if found.lost is not None:
        raise DamagedStoreError(lost_text(store.at(found.lost), store.url))
    chain = found.chain
    if not chain:
        why = "its merges are written at its end" if header.settings.metric else "its edges are still being read"
        raise StoreError(
            f"{store.url} has nothing to show yet: {why}; if no process is working on it, {resume_advice(store)}"
        )
    return StoredClustering(Journal(store, header, chain), report)


def merges_frame(run: Journal, names: NodeNames | None = None) -> Any:
    """The merges as a Dask DataFrame, one partition per file; with `names` in two more columns."""
    import dask.dataframe as dd  # noqa: PLC0415 - takes half a second, and most runs never ask for it
    from dask.delayed import delayed  # noqa: PLC0415 - as above

    settings = run.header.settings
    meta = pd.DataFrame({name: np.empty(0, kind) for name, kind in merge_columns(settings).items()})
    meta = _with_names(meta, names)
    if not run.tables:
        return dd.from_pandas(meta, npartitions=1)
    parts = [delayed(_frame)(run.folder, table, settings, names) for table in run.tables]
    return dd.from_delayed(parts, meta=meta, prefix="merges", verify_meta=False)


def _frame(folder: Folder, table: TableRecord, settings: Settings, names: NodeNames | None) -> pd.DataFrame:
    """A file of merges."""
    return _with_names(pd.DataFrame(dict(with_ratios(read_merges(folder, table), settings))), names)


def _with_names(frame: pd.DataFrame, names: NodeNames | None) -> pd.DataFrame:
    """Return merges with the names of their clusters, if there are some."""
    if names is None:
        return frame
    return frame.assign(**name_columns(frame["left"].to_numpy(), frame["right"].to_numpy(), names))
