"""The result of a run: its merges, rounds and flat cuts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dask_rac.base.checks import check_whole, checked_number
from dask_rac.base.errors import AuditError, InputError
from dask_rac.base.events import RoundRecord
from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.public import public
from dask_rac.base.settings import MERGE_COLUMNS, RATIO, Settings, certified
from dask_rac.base.spans import starts_of
from dask_rac.engines.contract import MergeList
from dask_rac.engines.rows.load import Graph, load_graph
from dask_rac.files.arrow_streams import merges_stream
from dask_rac.files.exports import Walk, name_columns, tree_kind, write_matrix, write_merge_file, write_newick
from dask_rac.files.node_names import NamesInMemory, NodeNames
from dask_rac.files.output import refuse_taken
from dask_rac.files.tables import merge_columns, with_ratios
from dask_rac.kernels.arrays import Merges
from dask_rac.kernels.tree.newick import post_order
from dask_rac.results.assignment import Assignment
from dask_rac.results.audit import Audit, AuditReport, EdgeTaker, Taker
from dask_rac.results.pairs_audit import audit_pairs
from dask_rac.results.queries import Queries
from dask_rac.results.ratios import RatioAudit
from dask_rac.results.scoring import Scoring
from dask_rac.show.cards import card, round_bars
from dask_rac.tasks.machine import new_team
from dask_rac.tasks.team import Team
from dask_rac.tree.cuts import CutRule
from dask_rac.tree.dendrogram import Dendrogram


@public
class Clustering(Assignment, Scoring, Queries):
    """The hierarchy of a graph, as returned by `dask_rac.cluster`.

    Attributes
    ----------
    n_nodes : int
        The number of nodes of the graph.
    n_trees : int
        The number of trees of the hierarchy, single nodes included: one if all nodes end in one cluster, more if the
        graph is not connected, or if `missing` or `max_height` kept clusters apart.
    merges : pandas.DataFrame
        One row per merge: `left` and `right`, the two clusters, each named by its smallest node; `height`; `size`, the
        number of nodes of the union; `round`, in which they merged. They are in the order of rounds, not of heights,
        except for single linkage; the merges below a merge precede it. `merges.sort_values(["height", "size",
        "left"])` is the order of sequential HAC, with `ascending=[False, True, True]` for similarities. With `epsilon`
        there is also `ratio`: the merge was within this factor of the nearest that its two clusters had.
    epsilon : float
        The largest `ratio` less 1: every merge was within a factor of `1 + epsilon` of the nearest. Never more than the
        `epsilon` that `cluster` was given, so 0 by default.
    rounds : pandas.DataFrame
        One row per round: live `clusters` and `edges` before it, `merges`, `nearest_updates`, the seconds of each
        phase, and whether it was the `finisher`.
    labels : numpy.ndarray or pandas.Series
        The tree of each node, int64, numbered 0, 1, 2, ... in the order of their smallest nodes; a Series with the
        names of the nodes as its index, if they have any.
    names : NodeNames or None
        The names of the nodes, if they have any: `names[7]` is the name of node 7.
    """

    names: NodeNames | None = None

    def __init__(self, found: MergeList, settings: Settings, given: Any = None, names: NodeNames | None = None) -> None:
        self._given = given  # vectors or distances, if the pairs of a graph are all pairs
        self.names = names
        self.n_nodes = found.nodes
        self._loops = found.loops
        self._merge_rounds = found.round
        self._ratios = found.ratio
        self._ends = found.ends
        self._records = found.records
        self._settings = settings.resolved(found.largest)
        self._tree = Dendrogram(found.nodes, found.merges, settings.sign)

    @property
    def n_trees(self) -> int:
        """The number of trees of the hierarchy, single nodes included."""
        return self._tree.n_trees

    @cached_property
    def merges(self) -> pd.DataFrame:
        """One row per merge, in the order of rounds."""
        part, kinds = next(self._parts()), merge_columns(self._settings)
        return pd.DataFrame({name: np.asarray(part[name], kind) for name, kind in kinds.items()})

    @property
    def epsilon(self) -> float:
        """How far a merge was from the nearest there was, at most."""
        return certified(() if self._ratios is None else [float(self._ratios.max(initial=1.0))], self._settings)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row per round."""
        names = [field.name for field in fields(RoundRecord)]
        return pd.DataFrame([asdict(record) for record in self._records], columns=names)

    @cached_property
    def labels(self) -> Any:
        """The tree of each node."""
        labels: NDArray[np.int64] = self._tree.label_first(np.array([len(self._tree.merges.left)]))[0]
        labels.flags.writeable = False
        return self._with_names(labels)

    def verify(self, edges: Any = None) -> AuditReport:
        """Recompute every height from the edges, in one pass over them.

        Each edge belongs to the merge that first brings its two nodes together, and the height of a merge must follow
        from its edges. This does not prove that each merge was the nearest one available. With `epsilon` it does so up
        to the ratios: the merges are done again in their order, and nobody may have been nearer than a ratio says.

        Parameters
        ----------
        edges
            The edges that were passed to `dask_rac.cluster`. A run with a store knows where its edges are. For all
            pairs, the vectors or distances; by default those that were passed to `cluster`.

        Returns
        -------
        AuditReport
            The number of merges and edges checked, and the largest relative error of a height.

        Raises
        ------
        AuditError
            If a height does not follow from the edges, or a ratio is wrong.
        """
        given = self._edges_again(edges, "verify(...)")
        ratios = None
        if self._settings.epsilon:
            ratios = RatioAudit(self.n_nodes, next(self._parts())[RATIO], self._settings)
        audit = Audit(self.n_nodes, self._tree.merges, self._settings, ratios=ratios)
        self._hand_over(audit, given)
        return checked_report(audit)

    def _edges_again(self, edges: Any, call: str) -> Any:
        """Return the edges that a user gives, or what was kept; raise if there are none."""
        given = self._given if edges is None else edges
        if given is None:
            what = "vectors or distances" if self._settings.metric else "edges"
            name = call.partition("(")[0]
            raise InputError(f"{name}() needs the {what} again: call {call} with those that were clustered")
        return given

    def _hand_over(self, taker: EdgeTaker, given: Any, in_order: bool = False) -> None:
        """Hand every edge, or every pair, to something that takes them; in one thread, to keep their order."""
        if self._settings.metric:
            with Team(1) if in_order else new_team() as team:
                audit_pairs(taker, given, self._settings, team, lambda _: None)
            return
        with Team(1) as team:
            audit_graph(taker, load_graph(given, self.n_nodes, self._settings, team, 2**62, self.names))

    def _score_edges(self, make: Callable[[], Taker], edges: Any, trusted: bool) -> Taker:
        """Hand every edge to what `make` returns; True stands for what was kept."""
        given = self._edges_again(None if edges is True else edges, "scores(labels, edges=...)")
        taker = make()
        self._hand_over(taker, given)
        return taker

    def _feed(self, make: Callable[[], Taker], edges: Any) -> Taker:
        """Hand all edges, or all pairs, to what `make` returns, in the same order each time."""
        given, taker = self._edges_again(edges, "representatives(edges=...)"), make()
        self._hand_over(taker, given, in_order=True)
        return taker

    def _branch(self, nodes: NDArray[np.intp], merges: dict[str, NDArray[Any]]) -> Clustering:
        """Return a clustering of some nodes, which the merges name by their number among them."""
        names = None if self.names is None else NamesInMemory(self.names.take(nodes))
        columns = Merges(*(merges[name] for name in ("left", "right", "height", "size")))
        found = MergeList(len(nodes), columns, merges["round"], (), ratio=merges.get(RATIO))
        return Clustering(found, self._settings, names=names)

    def _label(self, rule: CutRule, values: NDArray[Any]) -> Iterable[NDArray[np.int64]]:
        """Return the labels of each cut."""
        if not rule.plain:
            return super()._label(rule, values)
        return self._tree.label_heights(values) if rule.kind == "height" else self._tree.label_counts(values)

    def _require_finished(self) -> None:
        """Do nothing: a clustering in memory is finished."""

    def _forest_parts(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Return the edges of the spanning forest, by single linkage, in parts with columns source, target, height."""
        if self._ends is None:
            raise InputError("this clustering does not hold its spanning forest: cluster its edges again")
        yield {**self._ends._asdict(), "height": self._tree.merges.height}

    def _cut_once(self, kind: str, value: float) -> NDArray[np.int64]:
        """Return the labels of one cut."""
        return next(iter(self._label(CutRule(kind), np.array([value]))))

    def _kept_input(self) -> Any:
        """Return the vectors or distances of all pairs."""
        return self._given

    def to_scipy(self, join: bool = False, zero: float | None = None) -> NDArray[np.float64]:
        """Return the hierarchy as scipy's linkage matrix Z.

        Parameters
        ----------
        join : bool
            Whether to join the trees of a forest at infinity. If False, a forest raises an `InputError`.
        zero : float, optional
            For similarities, the one that becomes distance 0: Z holds `zero - similarity`, as scipy requires heights
            that increase. By default the largest similarity of a merge; 1 gives cosine distances. Not for distances.

        Returns
        -------
        numpy.ndarray
            One row per merge, ordered by height and size: the two clusters in scipy's numbering, distance, size.
        """
        if zero is not None:
            if self._settings.weights == "distance":
                raise InputError(f"zero={zero!r} is only for similarities; these weights are already distances")
            if not np.isfinite(checked_number("zero", zero)):
                raise InputError(f"zero={zero!r} is not finite: 1.0 is usual for similarities up to 1")
        return self._tree.to_scipy(join, zero)

    def named_merges(self) -> Any:
        """Return the merges with the names of their clusters.

        Returns
        -------
        pandas.DataFrame
            `merges` with two more columns, `left_name` and `right_name`: the names of the smallest nodes of the two
            clusters. For a run with a store, a Dask DataFrame.

        Raises
        ------
        InputError
            If the nodes have no names.
        """
        names, frame = self._require_names("named_merges()"), self.merges
        return frame.assign(**name_columns(frame["left"].to_numpy(), frame["right"].to_numpy(), names))

    def _require_names(self, what: str) -> NodeNames:
        """Return the names of the nodes; raise if they have none."""
        if self.names is None:
            raise InputError(
                f"{what} needs names, and the nodes of this clustering have none: give names= to cluster, or edges "
                "whose ids are text"
            )
        return self.names

    def export(
        self,
        path: str | PathLike[str],
        *,
        join: bool = False,
        zero: float | None = None,
        names: bool | None = None,
    ) -> str:
        """Write the whole hierarchy to one file that other programs can read.

        Parameters
        ----------
        path : path or URL
            The file to write. Its extension determines the format. `tree.npy`: scipy's linkage matrix Z, for
            `numpy.load`. `tree.nwk`, `.newick` or `.tree`: Newick, one tree per line in the order of `labels`; leaves
            are node ids, or the names of nodes in quotes if they have names, and branch lengths are differences of the
            heights in Z, so that all leaves of a tree have the same depth. `tree.parquet`, `.parq` or `.pq`: the
            `merges`. An existing file is never overwritten.
        join : bool
            As in `to_scipy`, for Z: whether to join the trees of a forest at infinity. If False, a forest raises an
            `InputError`. Newick represents a forest as it is.
        zero : float, optional
            As in `to_scipy`, for Z and Newick: the similarity that becomes distance 0.
        names : bool, optional
            Whether to write names. By default Newick has them if the nodes do; False writes node ids there. True adds
            `left_name` and `right_name` to merges, as in `named_merges`.

        Returns
        -------
        str
            `path`.

        Raises
        ------
        InputError
            If the file exists or cannot be created, its extension is unknown, or the run is unfinished.
        """
        kind = tree_kind(path)
        named = self._require_names("names=True") if names else self.names if names is None else None
        refuse_taken(path)
        if kind == "matrix":
            if names:
                raise InputError("names=True is for Newick and merges; Z holds numbers only: leave it out")
            return write_matrix(path, self.to_scipy(join, zero))
        if kind == "merges":
            if join or zero is not None:
                raise InputError("join= and zero= are for Z and Newick; merges are written as is: leave them out")
            columns = merge_columns(self._settings)
            return write_merge_file(path, self._parts(), names=named if names else None, columns=columns)
        if join and self.n_trees > 1:
            raise InputError("join=True is only for Z; Newick has one line per tree of a forest: leave it out")
        return write_newick(path, self._walk(zero), names=named)

    def _node(self, node: Any) -> int:
        """Return the number of a node that a user names: its number, or its name if nodes have names."""
        if isinstance(node, str):
            if self.names is None:
                raise InputError(f"node={node!r}: the nodes of this clustering have no names, only numbers from 0")
            found = int(self.names.find([node])[0])
            if found < 0:
                raise InputError(f"node={node!r}: no node has this name")
            return found
        check_whole("node", node, 0)
        if node >= self.n_nodes:
            raise InputError(f"node={node} does not exist: nodes are 0 to {self.n_nodes - 1}")
        return int(node)

    def _walk(self, zero: float | None) -> Walk:
        """Return the forest in the order of Newick."""
        table = self.to_scipy(True, zero)[: self._n_merges]
        parent = np.full(self.n_nodes + len(table), -1, cluster_id_dtype(2 * self.n_nodes))
        return Walk(table, parent, *post_order(table, parent))

    def _parts(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield the merges in parts."""
        part: dict[str, NDArray[Any]] = dict(zip(MERGE_COLUMNS, (*self._tree.merges, self._merge_rounds), strict=True))
        yield with_ratios(part if self._ratios is None else {**part, RATIO: self._ratios}, self._settings)

    @property
    def _n_merges(self) -> int:
        return len(self._merge_rounds)

    def _height_range(self) -> tuple[float, float] | None:
        """Return the heights of the nearest and the farthest merge."""
        if not self._n_merges:
            return None
        low, high = (self._settings.sign * self._tree.distances[[0, -1]]).tolist()
        return low, high

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the merges as an Arrow stream, for `pyarrow.table`, `polars.DataFrame` or a query of DuckDB."""
        return merges_stream(self._parts(), requested_schema, merge_columns(self._settings))

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self.facts().items())
        return f"<Clustering: {facts}>"

    def _repr_html_(self) -> str:
        finisher = any(record.finisher for record in self._records)
        icon = round_bars([record.merges for record in self._records], finisher)
        return card(f"dask_rac.{type(self).__name__}", self.facts(), icon)

    def facts(self) -> dict[str, str]:
        """Return a short description, as text by name."""
        settings = self._settings
        facts = {
            "nodes": f"{self.n_nodes:,}",
            "merges": f"{self._n_merges:,}",
            "trees": f"{self.n_trees:,}",
            "linkage": settings.linkage,
            "weights": settings.weights,
        }
        facts |= {"metric": settings.metric} if settings.metric else {"missing": settings.missing_text}
        if np.isfinite(settings.max_height):
            facts["max_height"] = str(settings.max_height)
        if settings.epsilon:
            facts["epsilon"] = f"{self.epsilon:.6g}, of {settings.epsilon:g} allowed"
        if (heights := self._height_range()) is not None:
            facts["heights"] = "{:.6g} to {:.6g}".format(*heights)
        finished = sum(record.merges for record in self._records if record.finisher)
        rounds = sum(not record.finisher for record in self._records)
        deferred = sum(record.deferred for record in self._records)
        facts["rounds"] = f"{rounds}, {deferred} of them in place of the finisher" if deferred else str(rounds)
        facts["rounds"] += f" and {finished:,} merges by the finisher" if finished else ""
        return facts


def audit_graph(audit: EdgeTaker, graph: Graph) -> None:
    """Add each edge of a graph in memory once."""
    rows = graph.rows
    length = rows.stop - rows.start
    source = np.repeat(np.arange(len(length)), length)
    entry = np.arange(len(source)) + np.repeat(rows.start - starts_of(length)[:-1], length)
    once = source < rows.neighbour[entry]
    audit.add(source[once], rows.neighbour[entry][once], rows.weight[entry][once])


def checked_report(audit: Audit) -> AuditReport:
    """Return the report of an audit, or raise if it found an error."""
    report = audit.report()
    if not report.ok:
        raise AuditError(report)
    return report
