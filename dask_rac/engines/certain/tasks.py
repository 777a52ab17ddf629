"""The tasks of certain rounds in a run with a store: each opens the pairs, does one thing, and writes what it found.

What they leave between steps, in groups of arrays: near pairs, where they are not a graph of vectors; the clusters that
are left; bands of rows of the triangle of clusters, or of its near pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import RoundRecord
from dask_rac.base.names import NEAR
from dask_rac.base.spans import Span
from dask_rac.engines.certain.given_pairs import near_given, near_given_clusters, reduce_given
from dask_rac.engines.certain.groups import Grouped
from dask_rac.engines.certain.in_memory import CertainRun, joined
from dask_rac.engines.certain.left import Left, all_left, groups_left
from dask_rac.engines.certain.near_pairs import in_rounds, reach_of
from dask_rac.engines.certain.order import Reducer
from dask_rac.engines.certain.reduce import fill_span, near_of, reducer_of
from dask_rac.engines.certain.state import Reach, first_state, up_to
from dask_rac.engines.certain.survey import Survey, survey_pairs
from dask_rac.engines.contract import MergeList
from dask_rac.engines.matrix.in_memory import merge_reduced
from dask_rac.engines.matrix.state import CODES
from dask_rac.engines.near import NearPairs, read_near
from dask_rac.engines.prepare import StoredPairs, write_merges
from dask_rac.engines.rows.receipts import Job, fresh_name
from dask_rac.files.arrays import read_array, write_group
from dask_rac.files.folder import FileRecord, Folder
from dask_rac.files.tables import TableRecord
from dask_rac.kernels.tree.merges import raise_heights
from dask_rac.store.statistics import reporting
from dask_rac.tasks.cache import forget, kept
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.triangle import rows_of, triangle_entries
from dask_rac.vectors.pairs.vector_pairs import VectorPairs


@dataclass(frozen=True)
class Place:
    """Where the clusters of a step are."""

    stored: StoredPairs
    left: str
    """The group of the clusters that are left; empty before the first rounds."""
    rounds: int
    """Rounds completed."""


class Band(NamedTuple):
    """What a task has written of a pass."""

    name: str
    files: tuple[FileRecord, ...]
    pairs: int
    """Near pairs in it."""


class Merged(NamedTuple):
    """What rounds have done and left."""

    tables: tuple[TableRecord, ...]
    records: tuple[RoundRecord, ...]
    clusters: int
    ended: bool
    """Whether nothing is left to merge."""
    left: str
    files: tuple[FileRecord, ...]


def survey_stored(job: Job, stored: StoredPairs, memory: int, threads: int, most: int | None) -> Survey:
    """Choose how far near pairs reach."""
    pairs, _ = stored.open()
    with Team(threads) as team:
        return survey_pairs(pairs, memory, job.settings, team, job.limits, most)


def find_given(job: Job, stored: StoredPairs, survey: Survey, most: int) -> Band:
    """Write the near pairs of given distances."""
    pairs, _ = stored.open()
    with reporting(job.store, job.attempt) as report:
        return _write_near(job, near_given(pairs, survey.eps, most, report))


def merge_near(job: Job, place: Place, survey: Survey, groups: Sequence[str], memory: int, threads: int) -> Merged:
    """Run the first certain rounds, with the near pairs that the store has."""
    pairs, _ = place.stored.open()
    known = (reach_of(survey, pairs), False)
    if groups:
        return _merge(job, place, _read_pairs(job.store, groups), known, memory, threads)
    return _merge(job, place, in_rounds(read_near(_near_folder(job)), pairs), known, memory, threads)


def merge_stage(job: Job, place: Place, radius: float, groups: Sequence[str], memory: int, threads: int) -> Merged:
    """Run the certain rounds of a stage."""
    return _merge(job, place, _read_pairs(job.store, groups), (up_to(radius), True), memory, threads)


def _merge(job: Job, place: Place, near: NearPairs, known: tuple[Reach, bool], memory: int, threads: int) -> Merged:
    """Run certain rounds, and write what they did and left; `known` is as `first_state` takes it."""
    forget("pass")
    left, top = read_left(job.store, place)
    with Team(threads) as team, reporting(job.store, job.attempt) as report:
        run = _run(job, place, left, memory, team, report)
        state = first_state(near, run.clusters, known[0], job.settings, team, known[1])
        del near
        ended = run.rounds(state)
    found = numbered(run.found, run.start.nodes, place.rounds)
    tables = _write_merges(job, found, top)
    name = fresh_name(job, "left")
    arrays = {"label": run.left.label, "share": run.left.share, "top": top[run.clusters.ids]}
    files = () if ended else tuple(write_group(job.store, name, arrays))
    return Merged(tables, tuple(found.records), len(run.clusters.ids), ended, name, files)


def merge_matrix(
    job: Job, place: Place, bands: Sequence[tuple[Span, str]], memory: int, threads: int
) -> tuple[tuple[TableRecord, ...], tuple[RoundRecord, ...]]:
    """Merge what is left by the matrix of the clusters, of which the store has all rows."""
    forget("pass")
    left, top = read_left(job.store, place)
    with Team(threads) as team, reporting(job.store, job.attempt) as report:
        run = _run(job, place, left, memory, team, report)
        triangle = np.empty(triangle_entries(len(run.clusters.ids)))
        for span, name in bands:
            read_array(job.store, f"{name}/entry", out=rows_of(triangle, *span))
        merged = merge_reduced(triangle, run.clusters, job.settings, team, report, job.limits)
    found = numbered([merged], run.start.nodes, place.rounds)
    return _write_merges(job, found, top), tuple(found.records)


def stage_radii_stored(job: Job, place: Place, memory: int, threads: int) -> list[float]:
    """Return the radii that a stage may have, the largest first."""
    left, _ = read_left(job.store, place)
    with Team(threads) as team, reporting(job.store, job.attempt) as report:
        return _run(job, place, left, memory, team, report).radii()


def reduce_band(job: Job, place: Place, span: Span, threads: int) -> Band:
    """Write some rows of the triangle of clusters."""
    code = CODES[job.settings.linkage]
    passing = _passing(job, place)
    if passing.reducer is None:
        with Team(threads) as team, reporting(job.store, job.attempt) as report:
            entry = reduce_given(passing.pairs, passing.groups, code, span, team, report)
    else:
        entry = np.empty(triangle_entries(span[1]) - triangle_entries(span[0]))
        fill_span(passing.reducer, passing.groups.clusters, code, span, entry)
    name = fresh_name(job, f"band-{span[0]:09d}")
    return Band(name, tuple(write_group(job.store, name, {"entry": entry})), 0)


def near_band(job: Job, place: Place, span: Span, radius: float, threads: int, most: int) -> Band:
    """Write the near pairs of some rows of the triangle of clusters, of which at most so many entries are held."""
    code = CODES[job.settings.linkage]
    passing = _passing(job, place)
    if passing.reducer is None:
        with Team(threads) as team:
            near = near_given_clusters(passing.pairs, passing.groups, code, span, radius, team)
    else:
        near = near_of(passing.reducer, passing.groups, code, span, radius, most)
    return _write_near(job, NearPairs(*near))


class _Passing(NamedTuple):
    """What the tasks of a pass share in a process."""

    pairs: Any
    groups: Grouped
    reducer: Reducer | None


def _passing(job: Job, place: Place) -> _Passing:
    """Return what a pass needs of the vectors; each process prepares it once."""

    def make() -> _Passing:
        pairs, start = place.stored.open()
        left, code = read_left(job.store, place)[0], CODES[job.settings.linkage]
        groups = groups_left(start, left, code)
        return _Passing(pairs, groups, reducer_of(pairs, groups, code) if isinstance(pairs, VectorPairs) else None)

    return kept("pass", (job.url, place.left), make)


def _run(job: Job, place: Place, left: Left, memory: int, team: Team, report: Any) -> CertainRun:
    """Return a run that has come to these clusters."""
    pairs, start = place.stored.open()
    run = CertainRun(pairs, start, memory, job.settings, team, report, job.limits)
    run.take(left)
    return run


def read_left(store: Folder, place: Place) -> tuple[Left, NDArray[np.float64]]:
    """Read the clusters that are left, and for each node the height below which no merge of its cluster may be."""
    _, start = place.stored.open()
    top = np.full(start.nodes, -np.inf)
    if not place.left:
        return all_left(start), top
    left = Left(*(read_array(store, f"{place.left}/{name}") for name in Left._fields))
    first = np.unique(left.label, return_index=True)[1]
    top[start.ids[first]] = read_array(store, f"{place.left}/top")
    return left, top


def numbered(parts: Sequence[MergeList], nodes: int, before: int) -> MergeList:
    """Return the merges of a step, whose rounds go on from those before it."""
    none = joined([], nodes)
    blank = MergeList(nodes, none.merges, none.round, [RoundRecord(0, 0, 0, round=n + 1) for n in range(before)])
    found = joined([blank, *parts], nodes)
    return MergeList(nodes, found.merges, found.round, found.records[before:])


def _write_merges(job: Job, found: MergeList, top: NDArray[np.float64]) -> tuple[TableRecord, ...]:
    """Write merges; none is lower than those below it, also of earlier steps."""
    merges = found.merges
    raise_heights(merges.left, merges.right, merges.height, top)
    return write_merges(job, found) if len(found.round) else ()


def _near_folder(job: Job) -> Folder:
    """Return the folder of the graph of near pairs."""
    return Folder(f"{job.url.rstrip('/')}/{NEAR}")


def _write_near(job: Job, near: NearPairs) -> Band:
    """Write near pairs to a new group."""
    name = fresh_name(job, "pairs")
    return Band(name, tuple(write_group(job.store, name, near._asdict())), len(near.weight))


def _read_pairs(store: Folder, groups: Sequence[str]) -> NearPairs:
    """Read the near pairs of several groups."""
    columns = (np.concatenate([read_array(store, f"{group}/{name}") for group in groups]) for name in NearPairs._fields)
    return NearPairs(*columns)
