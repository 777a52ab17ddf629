"""Audit of merges against a graph: one pass over the edges recomputes every height.

Each edge belongs to one merge, the lowest that has both its nodes below it. The edges of a merge are all edges between
its two clusters, so they determine its height, in whatever order they are read. An audit cannot see whether the two
clusters were the nearest: it confirms the height of every merge, not the choice of the pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.parameters import METRIC
from dask_rac.base.public import public
from dask_rac.base.settings import Settings
from dask_rac.base.spans import batches
from dask_rac.base.text import size_text
from dask_rac.engines.linkage import rule_of
from dask_rac.kernels import audit as kernels
from dask_rac.kernels import pairs_audit
from dask_rac.kernels import rule as rules
from dask_rac.kernels.arrays import Ids, Merges, Rule
from dask_rac.results.ratios import RatioAudit
from dask_rac.tree.leaves import place_leaves, table_leaves

INEXACT = 2.0**-31
"""Relative error of a distance that a run has computed from a product; `kernels.certain.products` keeps it below.

`engines.certain.centres` does so for means of sparse vectors.
"""

FAULTS = {
    kernels.NO_PAIR: "does not name two nodes, the smaller first",
    kernels.GONE: "names a cluster that an earlier merge had merged into another",
    kernels.NO_HEIGHT: "has a height that is not finite",
    kernels.BEYOND: "is beyond max_height",
    kernels.NEARER: "is nearer than a merge below it",
    kernels.WRONG_SIZE: "has a size that is not the sum of the sizes of its two clusters",
    kernels.NO_EDGE: "has no edge between its two clusters",
    kernels.MISSING_PAIR: "lacks an edge between two of its nodes, which are therefore infinitely far apart",
    kernels.TOO_MANY: "has more edges than pairs of nodes: an edge was given twice",
    kernels.WRONG_HEIGHT: "has a height that does not follow from its edges",
    kernels.LACKS_PAIR: "lacks an edge between two of its nodes, and its linkage needs every pair",
    kernels.NO_RATIO: "has a ratio that is not between 1 and 1 + epsilon",
    kernels.BEYOND_RATIO: "is of a cluster that had a nearer one than its ratio says",
}


@dataclass(frozen=True)
class AuditLimits:
    """Numbers that decide how an audit is done and never what it finds; tests hand over smaller ones."""

    chunk_edges: int = 1 << 15
    """Edges added at a time: few enough to stay in the cache, and to let other threads in between."""
    part_totals: int = 1 << 22
    """Items in each part of a tally, an even number."""


@dataclass(frozen=True)
class AuditCosts:
    """The most memory that an audit holds, by which it is refused; tests hand over other numbers."""

    # While edges are added: merges, faults, leaves and tally; leaves take three ids, one for the table over blocks, and
    # one more while that is built. For the report: three more vectors over the nodes.
    node_ids: int = 7
    """Ids per node while edges are added."""
    node_bytes: int = 25
    """Bytes per node, beside its ids, while edges are added."""
    report_ids: int = 1
    """Ids per node that the report adds."""
    report_bytes: int = 17
    """Bytes per node, beside its ids, that the report adds."""

    @classmethod
    def of(cls, settings: Settings) -> AuditCosts:
        """Return the costs for a linkage."""
        if settings.linkage == "weighted":  # also two levels and a third total; inner levels for the report
            return cls(node_ids=9, node_bytes=33, report_bytes=25)
        return cls(report_bytes=25) if settings.linkage == "ward" else cls()


def tally_width(settings: Settings) -> int:
    """Return how many totals an audit keeps for each merge."""
    if settings.linkage == "weighted":
        return 3
    return 1 if _audit_rule(settings).code == rules.MAX_PRESENT else 2


@dataclass(frozen=True)
class WrongMerge:
    """A merge that does not follow from the edges."""

    merge: int
    """Its index among the merges, from 0."""
    left: int
    right: int
    height: float
    """The height of the merge."""
    expected: float
    """The height that follows from the edges; NaN if none does."""
    fault: str
    """What is wrong."""

    def __str__(self) -> str:
        expected = "" if math.isnan(self.expected) else f", {self.expected!r} by its edges"
        return f"merge {self.merge} of {self.left} and {self.right} at {self.height!r}{expected}: it {self.fault}"


@public
@dataclass(frozen=True)
class AuditReport:
    """The result of an audit, as returned by `Clustering.verify`."""

    merges: int
    """The number of merges audited."""
    edges: int
    """The number of edges between nodes that a merge joins. Self loops are not counted."""
    unjoined: int
    """The number of edges between different trees."""
    stray: int
    """How many of these a merge should have joined: all, unless `missing` or `max_height` may keep clusters apart."""
    wrong: int
    """The number of merges that do not follow from the edges."""
    first_wrong: WrongMerge | None
    """The first wrong merge, if any."""
    worst_error: float
    """The largest relative error of a height, rounding included."""
    all_pairs: bool = False
    """Whether the edges are all pairs of vectors."""
    ratios: int = 0
    """The number of merges whose ratio was checked: with `epsilon` all of them, if there was memory for it."""
    ratio_bytes: int = 0
    """The memory that it takes to check the ratios, if there was less; else 0."""

    @property
    def ok(self) -> bool:
        """Whether every height follows from the edges and no edge is stray."""
        return not self.wrong and not self.stray

    def __str__(self) -> str:
        things = "pairs" if self.all_pairs else "edges"
        if self.ok:
            found = f"{self.merges:,} merges verified against {self.edges:,} {things}, "
            found += f"largest relative error {self.worst_error:.1e}"
            if self.ratio_bytes:
                return f"{found}; not their ratios, which takes {size_text(self.ratio_bytes)} of memory"
            return f"{found}; so are {self.ratios:,} ratios" if self.ratios else found
        strays = f"{self.stray:,} {things} join clusters that never merge" if self.stray else ""
        wrong = f"{self.wrong:,} of {self.merges:,} merges are wrong, first {self.first_wrong}" if self.wrong else ""
        return "; ".join(filter(None, (wrong, strays)))


class Tally(NamedTuple):
    """Totals over edges, for each merge."""

    edges: int
    """Edges between nodes that a merge joins."""
    unjoined: int
    """Edges between different trees."""
    parts: Iterable[NDArray[np.float64]]
    """For each merge the sum or the largest of its weights and, where the rule needs it, their number; in parts.

    By weighted linkage the sum is of what is left of the weights, and there is another, of what is left of 1.
    """


class EdgeTaker(Protocol):
    """What the edges of a clustering are handed to, some at a time, from any thread."""

    @property
    def n_nodes(self) -> int:
        """The number of nodes of the graph."""

    def add(self, source: ArrayLike, target: ArrayLike, weight: ArrayLike) -> None:
        """Take edges, each undirected edge once in all, in any order."""


Taker = TypeVar("Taker", bound=EdgeTaker)


class Audit:
    """An audit of merges, edge by edge.

    Parameters
    ----------
    n_nodes : int
        The number of nodes of the graph.
    merges : Merges
        The merges, each after those below it, with heights as users see them.
    settings : Settings
        The settings of the run that computed them.
    limits : AuditLimits, optional
        How many edges and totals are handled at a time.
    ratios : RatioAudit, optional
        Checks the ratios of the merges, once it has all edges.
    """

    def __init__(
        self,
        n_nodes: int,
        merges: Merges,
        settings: Settings,
        limits: AuditLimits | None = None,
        ratios: RatioAudit | None = None,
    ) -> None:
        self._ratios = ratios
        self._merges, self._settings, self._limits = merges, settings, limits or AuditLimits()
        self._rule = _audit_rule(settings)
        self._faults = np.zeros(len(merges.left), np.uint8)
        self.n_nodes = n_nodes
        live = self._live()
        kernels.check_merges(merges, rule_of(settings), live, self._faults)
        self._size: Ids = live.size  # after the last merges; kept until the leaves are placed
        self._leaves: kernels.Leaves | None = None
        self._levels: kernels.Levels | None = None  # weighted linkage only
        self._width, self._sums = tally_width(settings), settings.linkage in {"average", "weighted", "ward"}
        self._tally = np.zeros(self._width * (len(merges.left) + 1))  # the last one for edges that no merge joins
        if not self._sums:
            self._tally[:: self._width] = -np.inf
        self._expected: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        self._lock = Lock()
        self._edges = self._unjoined = 0

    def add(self, source: ArrayLike, target: ArrayLike, weight: ArrayLike) -> None:
        """Add edges, each undirected edge once in all, in any order and from any thread."""
        source, target, weight = np.asarray(source), np.asarray(target), np.asarray(weight)
        if not len(source) == len(target) == len(weight):
            raise InputError(
                f"{len(source)} sources, {len(target)} targets and {len(weight)} weights are not the same number"
            )
        if self._ratios is not None:
            self._ratios.add(source, target, weight)
        leaves = self.leaves()
        for span in batches(0, len(source), self._limits.chunk_edges):
            chunk = slice(*span)
            self._add_chunk(leaves, _ids(source[chunk]), _ids(target[chunk]), weight[chunk].astype(np.float64))

    def tally(self) -> Tally:
        """Return the totals of the edges so far, not copied, for `add_tally` of another audit of the same merges."""
        spans = batches(0, len(self._tally), self._limits.part_totals)
        parts = [self._tally[first:last] for first, last in spans]
        return Tally(self._edges, self._unjoined, parts)

    def add_tally(self, tally: Tally) -> None:
        """Add the edges of another audit of the same merges."""
        at, width = 0, self._width
        with self._lock:
            for totals in tally.parts:
                own = self._tally[at : at + len(totals)]
                if self._sums:
                    own += totals
                else:
                    np.maximum(own[::width], totals[::width], out=own[::width])  # NaN, an invalid weight, stays
                    if width == 2:
                        own[1::2] += totals[1::2]
                at += len(totals)
            self._edges += tally.edges
            self._unjoined += tally.unjoined

    @property
    def merges(self) -> Merges:
        """The merges."""
        return self._merges

    @property
    def faults(self) -> NDArray[np.uint8]:
        """What is wrong with each merge, as far as that can be seen without edges."""
        return self._faults

    def climb(self) -> pairs_audit.Climb:
        """Return the merges as intervals of leaves, and count all pairs of nodes as edges."""
        position, ids, count = self.leaves().position, cluster_id_dtype(self.n_nodes), len(self._merges.left)
        columns = [np.empty(self.n_nodes, ids), *(np.empty(count, ids) for _ in range(5))]
        climb = pairs_audit.Climb(*columns)
        joined = pairs_audit.climb_merges(self._merges, self._faults, position, np.ones(self.n_nodes, ids), climb)
        with self._lock:
            self._edges = int(joined)
            self._unjoined = self.n_nodes * (self.n_nodes - 1) // 2 - self._edges
        return climb

    def take_totals(self, totals: NDArray[np.float64], climb: pairs_audit.Climb) -> None:
        """Take the sum or the largest of all pairs of each merge instead of edges; none is missing."""
        left, right = (climb.middle - climb.low).astype(np.float64), (climb.high - climb.middle).astype(np.float64)
        end = self._width * len(totals)
        with self._lock:
            self._tally[0 : end : self._width] = totals
            for column in range(1, self._width):  # by weighted linkage also what the pairs count for of 1
                self._tally[column : end : self._width] = left * right

    def take_expected(self, height: NDArray[np.float64], slack: NDArray[np.float64]) -> None:
        """Take the heights that follow from all pairs, by ward their squares, and by how much they may be off."""
        self._expected = height, slack

    def report(self) -> AuditReport:
        """Compare the merges with the edges so far."""
        merges, faults = self._merges, self._faults.copy()
        if self._ratios is not None:
            self._ratios.mark(merges, faults)
        with self._lock:
            edges, unjoined = self._edges, self._unjoined
            live = self._live()
            if self._expected is not None:
                found = pairs_audit.compare_expected(merges, self._expected, self._rule, live, faults)
            else:
                inexact = INEXACT if self._computes_sums() else 0.0
                raised = self._settings.epsilon > 0 and self._settings.linkage != "single"  # which is exact
                leeway = kernels.Leeway(inexact, raised)
                found = kernels.compare_heights(merges, self._tally, self._rule, live, faults, leeway)
            worst, first, expected = found
        settings = self._settings
        apart = settings.missing == "infinite" and settings.linkage != "single"
        return AuditReport(
            merges=len(faults),
            edges=edges,
            unjoined=unjoined,
            stray=0 if apart or math.isfinite(settings.max_height) else unjoined,
            wrong=int(np.count_nonzero(faults)),
            first_wrong=None if first < 0 else self._wrong_merge(first, expected, int(faults[first])),
            worst_error=worst,
            all_pairs=bool(settings.metric),
            ratios=len(faults) if self._ratios is not None else 0,
        )

    def _computes_sums(self) -> bool:
        """Whether heights may be sums of distances from products, as those of all pairs beyond memory are."""
        return self._settings.metric in METRIC.words and self._settings.linkage in ("average", "weighted")

    def _add_chunk(
        self, leaves: kernels.Leaves, source: NDArray[np.int64], target: NDArray[np.int64], weight: NDArray[np.float64]
    ) -> None:
        """Add edges that fit in the cache."""
        end = len(self._merges.left)
        merge = np.empty(len(source), leaves.position.dtype)
        loops, unjoined, bad = kernels.find_merges(source, target, leaves, end, merge)
        if bad >= 0:
            raise InputError(f"edge {source[bad]}-{target[bad]} is not between two of the {self.n_nodes} nodes")
        if self._settings.linkage == "ward":
            weight *= weight
        halvings = np.empty(0 if self._levels is None else len(source), np.int64)
        if self._levels is not None:
            kernels.find_halvings(source, target, merge, self._levels, halvings)
        # Finding the merges takes most of the time and adding little, so threads seldom wait for each other here.
        with self._lock:
            if self._levels is not None:
                kernels.tally_halves(merge, weight, halvings, self._rule, self._tally)
            else:
                kernels.tally_edges(merge, weight, self._rule, self._width, self._tally)
            self._edges += len(source) - loops - unjoined
            self._unjoined += unjoined

    def leaves(self) -> kernels.Leaves:
        """Return the nodes as leaves, placed when the first edges are added."""
        with self._lock:
            if self._leaves is None:
                if self._settings.linkage == "weighted":
                    self._levels = self._find_levels()
                placed = place_leaves(self.n_nodes, self._merges, self._faults, self._size)
                self._size = np.empty(0, self._size.dtype)  # before there is a table
                self._leaves = table_leaves(*placed)
            return self._leaves

    def _find_levels(self) -> kernels.Levels:
        """Count the merges above every node and merge."""
        ids = cluster_id_dtype(self.n_nodes)
        levels = kernels.Levels(np.empty(self.n_nodes, ids), np.empty(len(self._merges.left) + 1, ids))
        kernels.find_levels(self._merges, self._faults, levels)
        return levels

    def _live(self) -> kernels.Live:
        """Return clusters of one node each."""
        n = self.n_nodes
        inner = np.zeros(n if self._settings.linkage in {"weighted", "ward"} else 0)
        return kernels.Live(np.ones(n, cluster_id_dtype(n)), np.full(n, -np.inf), np.zeros(n), inner)

    def _wrong_merge(self, merge: int, expected: float, fault: int) -> WrongMerge:
        """Describe what is wrong with a merge."""
        left, right, height, _ = (column[merge].item() for column in self._merges)
        return WrongMerge(merge, left, right, height, expected, FAULTS[fault])


def _audit_rule(settings: Settings) -> Rule:
    """Return the rule by which heights follow from edges; for single linkage the largest of the negated weights."""
    rule = rule_of(settings)
    if settings.linkage == "single":
        return rule._replace(code=rules.MAX_PRESENT, scale=-rule.scale)
    return rule


def _ids(column: NDArray[np.integer]) -> NDArray[np.int64]:
    """Convert ids to the dtype that kernels are compiled for."""
    return column.astype(np.int64, casting="same_kind")
