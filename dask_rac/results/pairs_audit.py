"""An audit of all pairs, which are read or computed once more, or follow from the centres of clusters.

- Where heights follow from centres (ward; the average of squared distances, cosines and products), one pass over the
  vectors gives the centre of every cluster, and no pair is computed.
- Otherwise vectors are put in the order of the leaves, in which the pairs of a merge are contiguous, and rows of the
  triangle are computed, some at a time. Equal vectors that have merged are compared with others once.
- Distances that were given are read in their own order, and each row is put into that of the leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.events import Event, Listener
from dask_rac.base.settings import Settings
from dask_rac.base.spans import Span
from dask_rac.engines.equal import find_equal
from dask_rac.engines.given import open_pairs
from dask_rac.kernels import pairs_audit as kernels
from dask_rac.kernels.arrays import Ids
from dask_rac.kernels.audit_tiles import add_tiles
from dask_rac.results.audit import Audit, EdgeTaker
from dask_rac.results.centres_audit import follows_from_centres, take_centres
from dask_rac.results.equal_leaves import all_leaves, equal_leaves
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.triangle import triangle_entries, triangle_spans
from dask_rac.vectors.pairs.vector_pairs import VectorPairs
from dask_rac.vectors.sources.chosen import choose_in_order

PIECE = 2**20  # pairs that a thread holds, where they are handed over one by one
ROWS = 64  # of the triangle that a thread computes at a time: with fewer, vectors are converted too often
LINES = 2**22, 2**25  # pairs in these rows, at least and at most
TILES = 2**25  # pairs that a thread adds at a time where it holds none of them

Totals = NDArray[np.float64]
AddSpan = Callable[[Span, Totals], None]
"""Adds some rows of the triangle to the totals of merges."""

KINDS = {
    "average": kernels.SUM,
    "complete": kernels.LARGEST,
    "single": kernels.LEAST,
    "weighted": kernels.HALVES,
    "ward": kernels.SQUARES,
}


def audit_pairs(audit: EdgeTaker, given: Any, settings: Settings, team: Team, report: Listener) -> None:
    """Add every pair of some vectors, or of a matrix of distances, once."""
    pairs = open_pairs(given, settings)
    if pairs.nodes != audit.n_nodes:
        raise InputError(
            f"{pairs.name} has {pairs.nodes:,} points, and the clustering has {audit.n_nodes:,} nodes: give what was "
            "passed to cluster()"
        )
    pairs.check(team, report)
    if not isinstance(audit, Audit):
        _hand_over(audit, pairs, settings, team, report)
    elif isinstance(pairs, VectorPairs) and follows_from_centres(pairs, settings):
        take_centres(audit, pairs, settings, team, report)
    else:
        _add_totals(audit, pairs, settings, team, report)


def _hand_over(taker: EdgeTaker, pairs: AllPairs, settings: Settings, team: Team, report: Listener) -> None:
    """Hand over all pairs as edges."""
    spans = triangle_spans(pairs.nodes, -(-triangle_entries(pairs.nodes) // PIECE))
    progress = _Progress(pairs.nodes, len(spans), report)

    def add(span: Span) -> None:
        taker.add(*_pairs_of(pairs, span, settings.sign))
        progress.add()

    team.run(add, spans)


def _add_totals(audit: Audit, pairs: AllPairs, settings: Settings, team: Team, report: Listener) -> None:
    """Add all pairs to the totals of their merges."""
    climb, position = audit.climb(), audit.leaves().position
    kind, leaves = kernels.SUM if pairs.squares else KINDS[settings.linkage], all_leaves(climb, position)
    if isinstance(pairs, VectorPairs):
        leaves = equal_leaves(climb, position, find_equal(pairs, team, report))
    nodes = len(leaves.nodes)
    plan, entries = kernels.plan_lines(kind, leaves.climb, leaves.times), max(LINES[0], min(LINES[1], ROWS * nodes))
    if not isinstance(pairs, VectorPairs):
        add = _given_rows(pairs, plan, position)
    elif pairs.source.sparse:
        add = _sparse_rows(pairs, plan, leaves.nodes)
    else:
        add, entries = _tiles(pairs, plan, leaves.nodes), TILES
    spans = triangle_spans(nodes, -(-triangle_entries(nodes) // entries))
    progress = _Progress(pairs.nodes, len(spans), report)
    largest = kind in (kernels.LARGEST, kernels.LEAST)
    totals = _totals(add, spans, (len(climb.above), largest), team, progress)
    totals[leaves.inside] = 0.0
    audit.take_totals(totals, climb)


def _tiles(pairs: VectorPairs, plan: kernels.Plan, leaves: NDArray[np.int64]) -> AddSpan:
    """Return what adds dense vectors, which are put into the order of leaves."""
    ordered = VectorPairs(choose_in_order(pairs.source, leaves), pairs.metric, pairs.squares)
    given, metric = tuple(ordered.held), pairs.metric.code

    def add(span: Span, totals: Totals) -> None:
        add_tiles(plan, given, metric, span, totals)

    return add


def _sparse_rows(pairs: VectorPairs, plan: kernels.Plan, leaves: NDArray[np.int64]) -> AddSpan:
    """Return what adds sparse vectors, which are put into the order of leaves."""
    rows = leaves[::-1]  # slots, which are rows in reverse, are leaves
    ordered = VectorPairs(choose_in_order(pairs.source, rows), pairs.metric, pairs.squares)
    _ = ordered.held  # loaded before threads ask for it

    def add(span: Span, totals: Totals) -> None:
        kernels.add_rows(plan, _entries(ordered, span), span, totals)

    return add


def _given_rows(pairs: AllPairs, plan: kernels.Plan, position: Ids) -> AddSpan:
    """Return what adds distances that were given, in their own order."""
    leaf = position[::-1].astype(np.int64)

    def add(span: Span, totals: Totals) -> None:
        kernels.add_scattered(plan, _entries(pairs, span), span, leaf, totals)

    return add


def _entries(pairs: AllPairs, span: Span) -> NDArray[np.float64]:
    """Return some rows of the triangle."""
    first, last = span
    entry = np.empty(triangle_entries(last) - triangle_entries(first))
    pairs.read(first, last, entry)
    return entry


def _totals(add: AddSpan, spans: list[Span], wanted: tuple[int, bool], team: Team, progress: _Progress) -> Totals:
    """Return the totals of all merges; `wanted` are their number, and whether they are the largest or sums.

    Each thread adds to totals of its own, which are united at the end.
    """
    count, largest = wanted
    spare: SimpleQueue[Totals] = SimpleQueue()
    for _ in range(team.threads):
        spare.put(np.full(count, -np.inf if largest else 0.0))

    def add_span(span: Span) -> None:
        totals = spare.get()
        add(span, totals)
        spare.put(totals)
        progress.add()

    team.run(add_span, spans)
    united = spare.get()
    while not spare.empty():
        united = (np.maximum if largest else np.add)(united, spare.get())
    return united


class _Progress:
    """Counts the parts of an audit that threads have finished, and reports them."""

    def __init__(self, nodes: int, total: int, report: Listener) -> None:
        self._nodes, self._total, self._report, self._done, self._lock = nodes, total, report, 0, Lock()

    def add(self) -> None:
        """Count one more."""
        with self._lock:
            self._done += 1
            self._report(Event("verify", self._nodes, done=self._done, total=self._total))


def _pairs_of(
    pairs: AllPairs, span: Span, sign: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the nodes and the weights of the pairs in some rows, as users see them."""
    first, last = span
    weight = _entries(pairs, span)
    if pairs.squares:
        np.sqrt(weight, out=weight)
    slots = np.arange(first, last)
    row = np.repeat(slots, slots)
    column = np.arange(len(row)) - (np.repeat(triangle_entries_of(slots), slots) - triangle_entries(first))
    return pairs.nodes - 1 - row, pairs.nodes - 1 - column, sign * weight


def triangle_entries_of(slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the rows of slots begin."""
    return slots * (slots - 1) // 2
