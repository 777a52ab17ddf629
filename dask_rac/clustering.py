"""What a run gives: merges, rounds, cuts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from functools import cached_property
from os import PathLike
from typing import Any, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dask_rac.audit import Audit, AuditReport
from dask_rac.cards import card, rounds_picture
from dask_rac.config import MERGE_COLUMNS, RoundRecord, Settings, checked_number, id_dtype
from dask_rac.dendrogram import Dendrogram
from dask_rac.edges import Graph, load_graph
from dask_rac.errors import AuditError, InputError
from dask_rac.kernels.arrays import Merges
from dask_rac.kernels.newick import post_order
from dask_rac.shard import Team, starts_of
from dask_rac.store.labels import check_labels, write_labels
from dask_rac.store.output import refuse_taken
from dask_rac.store.trees import Walk, tree_kind, write_matrix, write_merge_file, write_newick
from dask_rac.views import Views


class Clustering(Views):
    """The exact hierarchy of a graph, as `dask_rac.cluster` returns it.

    Attributes
    ----------
    n_nodes : int
        Nodes of the graph.
    n_trees : int
        Trees of the hierarchy: one if every node ends in one cluster, more where the graph falls into components or
        `max_height` stopped it. Single nodes count.
    merges : pandas.DataFrame
        A row a merge: `left` and `right`, the two clusters, each by its smallest node; `height`; `size` of the union;
        `round` in which it merged. Merges below a merge come before it.
    rounds : pandas.DataFrame
        A row a round: live `clusters` and `edges` before it, `merges`, `nearest_updates`, the seconds of each phase,
        and whether it was the `finisher`.
    labels : numpy.ndarray
        The tree of each node, int64, numbered 0, 1, 2, ... by smallest node.
    """

    def __init__(
        self,
        n_nodes: int,
        merges: Merges,
        merge_rounds: NDArray[np.int32],
        records: Sequence[RoundRecord],
        settings: Settings,
        *,
        loops: int = 0,
    ) -> None:
        self.n_nodes = n_nodes
        self._loops = loops
        self._merge_rounds = merge_rounds
        self._records = records
        self._settings = settings
        self._tree = Dendrogram(n_nodes, merges, settings.sign)

    @property
    def n_trees(self) -> int:
        """Trees of the hierarchy, single nodes among them."""
        return self._tree.n_trees

    @cached_property
    def merges(self) -> pd.DataFrame:
        """A row a merge."""
        left, right, height, size = self._tree.merges
        columns = left.astype(np.int64), right.astype(np.int64), height, size.astype(np.int64), self._merge_rounds
        return pd.DataFrame(dict(zip(MERGE_COLUMNS, columns, strict=True)))

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """A row a round."""
        names = [field.name for field in fields(RoundRecord)]
        return pd.DataFrame([asdict(record) for record in self._records], columns=names)

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The tree of each node."""
        labels: NDArray[np.int64] = self._tree.label_first(np.array([len(self._tree.merges.left)]))[0]
        labels.flags.writeable = False
        return labels

    @overload
    def cut(
        self, height: ArrayLike | None = None, n_clusters: ArrayLike | None = None, store: None = None
    ) -> NDArray[np.int64]: ...

    @overload
    def cut(
        self, height: ArrayLike | None = None, n_clusters: ArrayLike | None = None, *, store: str | PathLike[str]
    ) -> str: ...

    def cut(
        self,
        height: ArrayLike | None = None,
        n_clusters: ArrayLike | None = None,
        store: str | PathLike[str] | None = None,
    ) -> NDArray[np.int64] | str:
        """Flat clusters at a height, or so many of them.

        Parameters
        ----------
        height : float or list of float, optional
            Merges up to this height are done; at or below counts, as in scipy. For similarities, at or above. Averages
            are rounded: the mean of equal weights may lie a last bit above them.
        n_clusters : int or list of int, optional
            How many clusters there shall be.
        store : path or URL, optional
            Where to write the labels, one cut at a time. What exists is never written over. `labels.parquet`: columns
            `node` and `label`; for a list a folder with one such file for each, `height=0.5/`, which readers of Parquet
            take as a third column. `labels.zarr`: an array, a row a cut. `labels.csv`, `labels.csv.gz`: columns `node`
            and `label`; for a list one file with columns `node`, `height=0.5`, `height=0.6` and so on, which takes the
            labels of all cuts at once in memory.

        Returns
        -------
        numpy.ndarray or str
            The cluster of each node, int64, numbered 0, 1, 2, ... by smallest node. For a list, a row a cut. With
            `store=`, where the labels are.
        """
        if (height is None) == (n_clusters is None):
            raise InputError("cut() takes either height= or n_clusters=")
        if store is not None:
            check_labels(store)
            refuse_taken(store)
        kind = "n_clusters" if height is None else "height"
        wanted = (
            _numbers("n_clusters", n_clusters, "iu", "whole number")
            if height is None
            else _numbers("height", height, "iuf", "number").astype(np.float64)
        )
        values = np.atleast_1d(wanted)
        if store is not None:
            return write_labels(store, self._label(kind, values), kind, wanted.tolist(), self.n_nodes)
        labels = np.empty((len(values), self.n_nodes), np.int64)
        for row, found in zip(labels, self._label(kind, values), strict=True):
            row[:] = found
        return labels if wanted.ndim else labels[0]

    def verify(self, edges: Any = None) -> AuditReport:
        """Recompute every height from the edges, in one pass over them.

        Each edge counts for the merge that first brings its two nodes together; from these edges the merge's height
        must come out again. What this cannot show is that each merge was the nearest one to be had.

        Parameters
        ----------
        edges
            The edges, as `dask_rac.cluster` took them. A run with a store knows where its edges are.

        Returns
        -------
        AuditReport
            How many merges and edges were looked at, and the largest relative error.

        Raises
        ------
        AuditError
            If a height does not come out.
        """
        if edges is None:
            raise InputError("verify() needs the edges again: verify(edges), as they were given to cluster()")
        audit = Audit(self.n_nodes, self._tree.merges, self._settings)
        with Team(1) as team:
            audit_graph(audit, load_graph(edges, self.n_nodes, self._settings, team, 2**62))
        return checked_report(audit)

    def _label(self, kind: str, values: NDArray[Any]) -> Iterable[NDArray[np.int64]]:
        """Labels of each cut."""
        return self._tree.label_heights(values) if kind == "height" else self._tree.label_counts(values)

    def to_scipy(self, join: bool = False, zero: float | None = None) -> NDArray[np.float64]:
        """The hierarchy as scipy's linkage matrix Z.

        Parameters
        ----------
        join : bool
            Join the trees of a forest at infinity. Without it a forest raises.
        zero : float, optional
            For similarities, the one that becomes distance 0: Z holds `zero - similarity`, as scipy wants heights that
            grow. The largest similarity of a merge by default; 1 gives cosine distances. Not for distances.

        Returns
        -------
        numpy.ndarray
            One row a merge, by height and size: the two clusters in scipy's numbering, distance, size.
        """
        if zero is not None:
            if self._settings.weights == "distance":
                raise InputError(f"zero={zero!r} is for similarities; these are distances already")
            if not np.isfinite(checked_number("zero", zero)):
                raise InputError(f"zero={zero!r} is not finite: 1.0 is usual for similarities up to 1")
        return self._tree.to_scipy(join, zero)

    def export(self, path: str | PathLike[str], *, join: bool = False, zero: float | None = None) -> str:
        """Write the whole hierarchy as one file, for other programs to read.

        Parameters
        ----------
        path : path or URL
            Where to; the name's ending says what is written. `tree.npy`: scipy's linkage matrix Z, for `numpy.load`.
            `tree.nwk`, `.newick` or `.tree`: Newick, a tree a line in the order of `labels`; leaves are node ids,
            lengths are differences of the heights in Z, so that all leaves of a tree are equally deep.
            `tree.parquet`, `.parq` or `.pq`: the `merges`. What exists is never written over.
        join : bool
            As in `to_scipy`, for Z: join the trees of a forest at infinity. Without it a forest raises. Newick holds a
            forest as it is.
        zero : float, optional
            As in `to_scipy`, for Z and Newick: the similarity that becomes distance 0.

        Returns
        -------
        str
            `path`.

        Raises
        ------
        InputError
            If the file exists or cannot be made, its name says nothing known, or the run has not come to its end.
        """
        kind = tree_kind(path)
        refuse_taken(path)
        if kind == "matrix":
            return write_matrix(path, self.to_scipy(join, zero))
        if kind == "merges":
            if join or zero is not None:
                raise InputError("join= and zero= are for Z and Newick; merges are written as they are: leave them out")
            return write_merge_file(path, self._parts())
        if join and self.n_trees > 1:
            raise InputError("join=True is for Z; Newick has a line for each tree of a forest: leave it out")
        table = self.to_scipy(True, zero)[: self._n_merges]
        parent = np.full(self.n_nodes + len(table), -1, id_dtype(2 * self.n_nodes))
        return write_newick(path, Walk(table, parent, *post_order(table, parent)))

    def _parts(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        """The merges, some at a time."""
        yield dict(zip(MERGE_COLUMNS, (*self._tree.merges, self._merge_rounds), strict=True))

    @property
    def _n_merges(self) -> int:
        return len(self._merge_rounds)

    def _height_range(self) -> tuple[float, float] | None:
        """The heights of the nearest and the farthest merge."""
        if not self._n_merges:
            return None
        low, high = (self._settings.sign * self._tree.distances[[0, -1]]).tolist()
        return low, high

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self.facts().items())
        return f"<Clustering: {facts}>"

    def _repr_html_(self) -> str:
        finisher = any(record.finisher for record in self._records)
        icon = rounds_picture([record.merges for record in self._records], finisher)
        return card(f"dask_rac.{type(self).__name__}", self.facts(), icon)

    def facts(self) -> dict[str, str]:
        """What it is in a few words, by name."""
        settings = self._settings
        facts = {
            "nodes": f"{self.n_nodes:,}",
            "merges": f"{self._n_merges:,}",
            "trees": f"{self.n_trees:,}",
            "linkage": settings.linkage,
            "weights": settings.weights,
            "missing": str(settings.missing),
        }
        if np.isfinite(settings.max_height):
            facts["max_height"] = str(settings.max_height)
        if (heights := self._height_range()) is not None:
            facts["heights"] = "{:.6g} to {:.6g}".format(*heights)
        finished = sum(record.merges for record in self._records if record.finisher)
        rounds = sum(not record.finisher for record in self._records)
        facts["rounds"] = f"{rounds} and {finished:,} merges by the finisher" if finished else str(rounds)
        return facts


def audit_graph(audit: Audit, graph: Graph) -> None:
    """Add every edge of a graph in memory once."""
    rows = graph.rows
    length = rows.stop - rows.start
    source = np.repeat(np.arange(len(length)), length)
    entry = np.arange(len(source)) + np.repeat(rows.start - starts_of(length)[:-1], length)
    once = source < rows.neighbour[entry]
    audit.add(source[once], rows.neighbour[entry][once], rows.weight[entry][once])


def checked_report(audit: Audit) -> AuditReport:
    """The report of an audit that found no fault."""
    report = audit.report()
    if not report.ok:
        raise AuditError(report)
    return report


def _numbers(name: str, value: object, kinds: str, what: str) -> NDArray[Any]:
    """A number or a list of numbers as an array."""
    try:
        numbers = np.asarray(value)
    except ValueError:
        numbers = np.empty((0, 0))
    if numbers.ndim == 1 and not len(numbers):
        return np.empty(0, np.int64)
    if numbers.ndim > 1 or numbers.dtype.kind not in kinds or (numbers.dtype.kind == "f" and np.isnan(numbers).any()):
        raise InputError(f"{name}={value!r} is neither a {what} nor a list of them")
    return numbers
