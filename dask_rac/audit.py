"""Whether merges are those of a graph: one pass over its edges, and every height must come out again.

Each edge adds to one merge, the lowest that has both its nodes below it. The edges of a merge are all edges between
its two clusters, so they give its height, whatever order they come in. What an audit cannot see: that the two clusters
were the nearest. It vouches for the height of every merge, not for the choice of the pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dask_rac.config import Settings, id_dtype
from dask_rac.errors import InputError
from dask_rac.kernels import audit as kernels
from dask_rac.kernels import rule as rules
from dask_rac.kernels.arrays import Ids, Merges, Rule
from dask_rac.shard import rule_of

CHUNK_EDGES = 1 << 15  # few enough to stay in the cache, and to let other threads in between

# What an audit holds for each node, at most. While edges come: merges, faults, leaves and tally; leaves take three ids,
# one for the table over blocks, and one more while that is made. For the report: three more vectors over the nodes.
NODE_IDS, NODE_BYTES = 7, 25
REPORT_IDS, REPORT_BYTES = 1, 17

TALLY_BYTES = 16  # a merge, at most
PART_TOTALS = 1 << 22  # items of a tally that lie together, an even number

FAULTS = {
    kernels.NO_PAIR: "does not name two nodes, the smaller first",
    kernels.GONE: "names a cluster that had merged into another before",
    kernels.NO_HEIGHT: "has a height that is not finite",
    kernels.BEYOND: "is beyond max_height",
    kernels.NEARER: "is nearer than a merge below it",
    kernels.WRONG_SIZE: "has a size that is not the sum of its two clusters'",
    kernels.NO_EDGE: "has no edge between its two clusters",
    kernels.MISSING_PAIR: "lacks an edge between two of its nodes, which are infinitely far then",
    kernels.TOO_MANY: "has more edges than pairs of nodes: an edge was given twice",
    kernels.WRONG_HEIGHT: "has another height than its edges give",
}


@dataclass(frozen=True)
class WrongMerge:
    """A merge that does not come out of the edges."""

    merge: int
    """Its place among the merges, from 0."""
    left: int
    right: int
    height: float
    """As the merge has it."""
    expected: float
    """As the edges give it, NaN where they give none."""
    fault: str
    """What is wrong."""

    def __str__(self) -> str:
        expected = "" if math.isnan(self.expected) else f", {self.expected!r} by its edges"
        return f"merge {self.merge} of {self.left} and {self.right} at {self.height!r}{expected}: it {self.fault}"


@dataclass(frozen=True)
class AuditReport:
    """What an audit found."""

    merges: int
    """Merges audited."""
    edges: int
    """Edges that a merge joins; self loops count nowhere."""
    unjoined: int
    """Edges between different trees."""
    stray: int
    """Those of them that some merge should join: all, unless `missing` or `max_height` may keep clusters apart."""
    wrong: int
    """Merges that do not come out of the edges."""
    first_wrong: WrongMerge | None
    """The first of them."""
    worst_error: float
    """The largest relative error of a height, rounding included."""

    @property
    def ok(self) -> bool:
        """Whether every height came out again and no edge is stray."""
        return not self.wrong and not self.stray

    def __str__(self) -> str:
        if self.ok:
            error = f"largest relative error {self.worst_error:.1e}"
            return f"{self.merges:,} merges come out of {self.edges:,} edges, {error}"
        strays = f"{self.stray:,} edges join clusters that never merge" if self.stray else ""
        wrong = f"{self.wrong:,} of {self.merges:,} merges are wrong, first {self.first_wrong}" if self.wrong else ""
        return "; ".join(filter(None, (wrong, strays)))


class Tally(NamedTuple):
    """What edges come to."""

    edges: int
    """Those that a merge joins."""
    unjoined: int
    parts: Iterable[NDArray[np.float64]]
    """For each merge the sum or the largest of its weights and, where that counts, their number; in pieces."""


class Audit:
    """An audit of merges, edge by edge.

    Parameters
    ----------
    n_nodes : int
        Nodes of the graph.
    merges : Merges
        Merges below a merge before it; heights as users see them.
    settings : Settings
        Of the run that made them.
    """

    def __init__(self, n_nodes: int, merges: Merges, settings: Settings) -> None:
        self._merges, self._settings = merges, settings
        self._rule = _audit_rule(settings)
        self._faults = np.zeros(len(merges.left), np.uint8)
        self._n_nodes = n_nodes
        live = self._live()
        kernels.check_merges(merges, rule_of(settings), live, self._faults)
        self._size: Ids | None = live.size  # as the last merges leave it, until the leaves are placed
        self._leaves: kernels.Leaves | None = None
        self._width = 1 if self._rule.code == rules.MAX_PRESENT else 2
        self._tally = np.zeros(self._width * (len(merges.left) + 1))  # the last for edges that no merge joins
        if settings.linkage != "average":
            self._tally[:: self._width] = -np.inf
        self._lock = Lock()
        self._edges = self._unjoined = 0

    def add(self, source: ArrayLike, target: ArrayLike, weight: ArrayLike) -> None:
        """Add edges, each undirected edge once in all, in any order and from any thread."""
        source, target, weight = np.asarray(source), np.asarray(target), np.asarray(weight)
        if not len(source) == len(target) == len(weight):
            raise InputError(f"{len(source)} sources, {len(target)} targets and {len(weight)} weights are no edges")
        leaves = self.leaves()
        for start in range(0, len(source), CHUNK_EDGES):
            chunk = slice(start, start + CHUNK_EDGES)
            self._add_chunk(leaves, _ids(source[chunk]), _ids(target[chunk]), weight[chunk].astype(np.float64))

    def tally(self) -> Tally:
        """What the edges so far come to, for another audit of the same merges to add; not copied."""
        starts = range(0, len(self._tally), PART_TOTALS)
        return Tally(self._edges, self._unjoined, [self._tally[at : at + PART_TOTALS] for at in starts])

    def add_tally(self, tally: Tally) -> None:
        """Add the edges that another audit of the same merges was given."""
        at, width = 0, self._width
        with self._lock:
            for totals in tally.parts:
                own = self._tally[at : at + len(totals)]
                if self._settings.linkage == "average":
                    own += totals
                else:
                    np.maximum(own[::width], totals[::width], out=own[::width])  # NaN stays: it is a wrong weight
                    if width == 2:
                        own[1::2] += totals[1::2]
                at += len(totals)
            self._edges += tally.edges
            self._unjoined += tally.unjoined

    def report(self) -> AuditReport:
        """What the edges so far say about the merges."""
        merges, faults = self._merges, self._faults.copy()
        with self._lock:
            edges, unjoined = self._edges, self._unjoined
            worst, first, expected = kernels.compare_heights(merges, self._tally, self._rule, self._live(), faults)
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
        )

    def _add_chunk(
        self, leaves: kernels.Leaves, source: NDArray[np.int64], target: NDArray[np.int64], weight: NDArray[np.float64]
    ) -> None:
        """Add so few edges that all of them stay in the cache."""
        end = len(self._merges.left)
        found = np.empty(len(source), leaves.position.dtype)
        loops, unjoined, bad = kernels.find_merges(source, target, leaves, end, found)
        if bad >= 0:
            raise InputError(f"edge {source[bad]}-{target[bad]} is not of these {self._n_nodes} nodes")
        # Finding merges is the work; adding is a small part of it, so threads seldom wait for each other here.
        with self._lock:
            kernels.tally_edges(found, weight, self._rule, self._width, self._tally)
            self._edges += len(source) - loops - unjoined
            self._unjoined += unjoined

    def leaves(self) -> kernels.Leaves:
        """The nodes as leaves, placed when the first edges come."""
        with self._lock:
            if self._leaves is None:
                self._leaves = self._place_leaves()
            return self._leaves

    def _place_leaves(self) -> kernels.Leaves:
        """Order the leaves by the merges that join something."""
        ids = id_dtype(self._n_nodes)
        blocks = max(1, -(-self._n_nodes // kernels.BLOCK))
        position, gap = np.empty(self._n_nodes, ids), _aligned(blocks * kernels.BLOCK, ids)
        kernels.place_leaves(self._merges, self._faults, self._size, position, gap)
        self._size = None
        gap = gap.reshape(blocks, kernels.BLOCK)
        level = np.log2(np.maximum(1, np.arange(blocks))).astype(np.uint8)
        return kernels.Leaves(position, gap, _last_in_blocks(gap), level)

    def _live(self) -> kernels.Live:
        """Every node a cluster."""
        n = self._n_nodes
        return kernels.Live(np.ones(n, id_dtype(n)), np.full(n, -np.inf), np.zeros(n))

    def _wrong_merge(self, merge: int, expected: float, fault: int) -> WrongMerge:
        """What is wrong with a merge."""
        left, right, height, _ = (column[merge].item() for column in self._merges)
        return WrongMerge(merge, left, right, height, expected, FAULTS[fault])


def _audit_rule(settings: Settings) -> Rule:
    """The rule by which edges make heights; for single linkage the largest of negated weights, as W is the smallest."""
    rule = rule_of(settings)
    if settings.linkage == "single":
        return rule._replace(code=rules.MAX_PRESENT, scale=-rule.scale)
    return rule


def _aligned(length: int, dtype: type[np.signedinteger]) -> Ids:
    """An array of anything whose first block starts where kernels want it."""
    spare = kernels.BLOCK_BYTES // np.dtype(dtype).itemsize
    room = np.empty(length + spare, dtype)
    start = -room.ctypes.data % kernels.BLOCK_BYTES // room.itemsize
    return room[start : start + length]


def _last_in_blocks(gap: Ids) -> Ids:
    """The last merge in 1, 2, 4, ... blocks from each block on, one after another."""
    rows = [gap.max(axis=1)]
    step = 1
    while 2 * step <= len(gap):
        wider = rows[-1].copy()
        np.maximum(wider[:-step], rows[-1][step:], out=wider[:-step])
        rows.append(wider)
        step *= 2
    return np.concatenate(rows)


def _ids(column: NDArray[np.integer]) -> NDArray[np.int64]:
    """Ids of any dtype as one that kernels are compiled for."""
    return column.astype(np.int64, casting="same_kind")
