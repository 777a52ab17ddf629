"""Single linkage of all pairs through a store: each step spans some bands of pairs, and the forest so far is the state.

Phases: "start" is what `engines.prepare` leaves, "span" while bands are left, "unite" when the forest is the lightest.
A step that is killed is done again; the forest, and so the result, does not depend on where the bands are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dask_rac.base.events import RoundRecord
from dask_rac.base.names import unique
from dask_rac.base.spans import Span
from dask_rac.engines.certain.spanning import merge_forest
from dask_rac.engines.certain.spanning_rows import row_bands, span_rows
from dask_rac.engines.certain.spanning_state import (
    ForestEdges,
    Outline,
    join_parts,
    no_forest,
    outline_of,
)
from dask_rac.engines.certain.spanning_vectors import VectorSpans, first_forest, vector_bands, vectors_view
from dask_rac.engines.contract import Step, Work
from dask_rac.engines.prepare import StoredPairs, carried, stored_pairs, write_merges
from dask_rac.engines.rows.receipts import Job, new_job
from dask_rac.files.arrays import read_array, write_group
from dask_rac.files.folder import FileRecord
from dask_rac.files.tables import TableRecord
from dask_rac.store.manifest import State
from dask_rac.tasks.cache import forget, kept
from dask_rac.tasks.task_graph import TaskGraph, single_task
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.vector_pairs import VectorPairs


class Written(NamedTuple):
    """Arrays that a task has written."""

    group: str
    files: tuple[FileRecord, ...]


class Begun(NamedTuple):
    """What the first step leaves."""

    forest: Written
    outline: Written
    """Without a name for given distances, which are spanned as they are."""
    nodes: int


def advance(state: State, work: Work) -> Step:
    """Begin a forest, span some bands, or write the merges of the finished forest."""
    phase = state.own["phase"]
    if phase == "start":
        return _begin(state, work)
    return _unite(state, work) if phase == "unite" else _span(state, work)


def _job(work: Work) -> Job:
    """Return what tasks of this step receive."""
    assert work.facts is not None
    return new_job(work, work.facts.nodes, work.facts.edges, 0)


def _begin(state: State, work: Work) -> Step:
    """Find a first forest, and the order in which its rows are spanned."""
    job = _job(work)
    graph = single_task(begin_spans, job.attempt, job, stored_pairs(state, work), work.budget.threads)
    begun: Begun = work.compute(graph)["begin_spans"][0]
    own = {"outline": begun.outline.group, "rows": begun.nodes, "next": 0}
    return Step(_state(state, begun.forest, begun.outline.files, own, "span"))


def _span(state: State, work: Work) -> Step:
    """Span the next bands, as many as keep all threads busy for about a minute, and join their forests."""
    job, rows = _job(work), int(state.own["rows"])
    stored, before, outline = stored_pairs(state, work), str(state.own["forest"]), str(state.own["outline"])
    bands = _next_bands(state, work)
    graph = TaskGraph(job.attempt)
    found = [graph.add(span_band, job, stored, outline, before, band) for band in bands]
    graph.add(join_bands, job, stored, before, found)
    forest: Written = work.compute(graph)["join_bands"][0]
    last = bands[-1][1]
    files = tuple(file for file in state.files if _is_in(file, outline))
    own = {"outline": outline, "rows": rows, "next": last}
    return Step(_state(state, forest, files, own, "unite" if last == rows else "span"))


def _next_bands(state: State, work: Work) -> list[Span]:
    """Return the bands of this step: as many as keep all threads busy for about a minute."""
    rows, first = int(state.own["rows"]), int(state.own["next"])
    at_once = work.budget.processes * work.budget.threads
    if not state.own["outline"]:  # what is known of the rows before leaves out most pairs: few bands at a time
        return row_bands(rows, work.budget.process // (8 * work.budget.threads), first)[:at_once]
    bands = vector_bands(rows, first)
    pairs = (bands[0][1] - first) * (rows - first)
    return bands[: max(at_once, at_once * work.limits.span_pairs // max(1, pairs))]


def _unite(state: State, work: Work) -> Step:
    """Write the merges that the forest makes."""
    job = _job(work)
    graph = single_task(unite_spanned, job.attempt, job, stored_pairs(state, work), state.own["forest"], state.round)
    tables, records = work.compute(graph)["unite_spanned"][0]
    return Step(None, tables, records)


def _state(state: State, forest: Written, others: Sequence[FileRecord], own: dict[str, Any], phase: str) -> State:
    """Return the next state."""
    rest, files = carried(state)
    own = {**rest, **own, "phase": phase, "forest": forest.group}
    return State(state.round, state.clusters, (), (*files, *others, *forest.files), own)


def _is_in(file: FileRecord, group: str) -> bool:
    """Whether a file belongs to a group."""
    return bool(group) and file.name.startswith(f"{group}/")


def begin_spans(job: Job, stored: StoredPairs, threads: int) -> Begun:
    """Find a spanning tree of vectors to begin with, and write it with the order of its leaves."""
    pairs, _ = stored.open()
    if not isinstance(pairs, VectorPairs):
        return Begun(_write(job, "forest", no_forest()), Written("", ()), pairs.nodes)
    with Team(threads) as team:
        forest = first_forest(pairs, vectors_view(pairs, team), team)
    outline = outline_of(forest, pairs.nodes)
    return Begun(_write(job, "forest", forest), _write(job, "outline", outline), pairs.nodes)


def span_band(job: Job, stored: StoredPairs, outline: str, before: str, band: Span) -> Written:
    """Span a band of pairs, and write its forest."""
    pairs, start = stored.open()
    if not isinstance(pairs, VectorPairs):
        found = span_rows(pairs, start, _read_forest(job, before), band)
        return _write(job, "band", found)

    def prepared() -> VectorSpans:
        order = Outline(*(read_array(job.store, f"{outline}/{name}") for name in Outline._fields))
        with Team(1) as team:
            return VectorSpans(pairs, vectors_view(pairs, team), order)

    spans = kept("spans", (job.url, outline), prepared)
    return _write(job, "band", join_parts(spans.span_band(band), start))


def join_bands(job: Job, stored: StoredPairs, before: str, found: Sequence[Written]) -> Written:
    """Join the forests of bands with that before, and write the lightest among their edges."""
    _, start = stored.open()
    forests = (_read_forest(job, name) for name in (before, *(written.group for written in found)))
    return _write(job, "forest", join_parts(forests, start))


def unite_spanned(
    job: Job, stored: StoredPairs, forest: str, before: int
) -> tuple[tuple[TableRecord, ...], tuple[RoundRecord, ...]]:
    """Write the merges of the lightest forest."""
    forget("spans")
    _, start = stored.open()
    found = merge_forest(_read_forest(job, forest), start, job.settings, before=before)
    return write_merges(job, found), tuple(found.records)


def _write(job: Job, name: str, arrays: ForestEdges | Outline) -> Written:
    """Write a bundle of arrays."""
    group = f"{job.folder}/{unique(name)}"
    return Written(group, tuple(write_group(job.store, group, arrays._asdict())))


def _read_forest(job: Job, group: str) -> ForestEdges:
    """Read the edges of a forest."""
    return ForestEdges(*(np.asarray(read_array(job.store, f"{group}/{name}")) for name in ForestEdges._fields))
