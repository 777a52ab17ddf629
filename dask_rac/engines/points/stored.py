"""The points engine in a run with a store.

    start    choose from how many neighbours to begin; of few vectors, from none: then `lists` comes next
    near     find them: a graph of the vectors in the folder `near`, which goes on where it was stopped
    lists    the first lists, and the nearest of every cluster
    rounds   rounds for about a minute in each step, to the end

From `lists` on a step is one task, with all threads of one worker. It leaves its merges, and all clusters that live.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple

from dask_rac.base.events import RoundRecord
from dask_rac.base.names import NEAR
from dask_rac.engines.contract import Step, Work
from dask_rac.engines.near import build_near, read_near
from dask_rac.engines.points.in_memory import NO_PAIRS, ceiling_of, merge_rounds, near_asked, near_request, points_of
from dask_rac.engines.points.needs import refuse_large
from dask_rac.engines.points.round import first_nearest
from dask_rac.engines.points.saved import Saved, load_points, save_points
from dask_rac.engines.prepare import StoredPairs, carried, stored_pairs, write_merges
from dask_rac.engines.rows.receipts import Job, new_job
from dask_rac.files.folder import FileRecord, Folder
from dask_rac.files.tables import TableRecord
from dask_rac.kernels.tree.merges import raise_heights
from dask_rac.store.manifest import State
from dask_rac.store.statistics import reporting
from dask_rac.tasks.task_graph import single_task
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.vector_pairs import VectorPairs


class Advanced(NamedTuple):
    """What a step has done."""

    tables: tuple[TableRecord, ...]
    records: tuple[RoundRecord, ...]
    clusters: int
    saved: Saved | None
    """The clusters that live; None at the end."""


def advance(state: State, work: Work) -> Step:
    """Do the next step."""
    step = {"start": _start, "near": _near, "lists": _lists, "rounds": _rounds}[state.own["phase"]]
    with work.listening():
        return step(state, work)


def _vectors(stored: StoredPairs) -> VectorPairs:
    """Open the vectors of a run."""
    pairs, _ = stored.open()
    assert isinstance(pairs, VectorPairs)
    return pairs


def _job(work: Work) -> Job:
    """What the tasks of a step receive."""
    assert work.facts is not None
    return new_job(work, work.facts.nodes, 0, 0)


def _near_folder(url: str) -> Folder:
    """Return where near pairs are."""
    return Folder(f"{url.rstrip('/')}/{NEAR}")


def _next(state: State, phase: str, own: dict[str, Any], files: tuple[FileRecord, ...] = ()) -> State:
    """Return the state of the next phase, before any round."""
    kept, start = carried(state, near=phase != "rounds")
    return State(state.round, state.clusters, (), (*start, *files), kept | own | {"phase": phase})


def _start(state: State, work: Work) -> Step:
    """Choose from how many neighbours to begin: a run that goes on with other limits finds the same graph."""
    pairs = _vectors(stored_pairs(state, work))
    refuse_large(pairs.source, work.budget.process, work.budget.threads, work.limits)
    asked = near_asked(pairs.nodes, work.limits)
    return Step(_next(state, "near" if asked else "lists", {"neighbours": asked}))


def _near(state: State, work: Work) -> Step:
    """Find the near pairs."""
    pairs, asked = _vectors(stored_pairs(state, work)), int(state.own["neighbours"])
    target = _near_folder(work.store.url)
    build_near(pairs.source, near_request(pairs, asked), target, work.scheduler, work.budget, work.report)
    return Step(_next(state, "lists", {"neighbours": asked}))


def _lists(state: State, work: Work) -> Step:
    """Find the nearest of every cluster."""
    job, asked = _job(work), int(state.own["neighbours"])
    saved: Saved = _alone(work, job, list_stored, stored_pairs(state, work), asked, state.round, work.budget.threads)
    return Step(_next(state, "rounds", {"points": saved.group}, saved.files))


def _rounds(state: State, work: Work) -> Step:
    """Run rounds for a while."""
    done: Advanced = _alone(work, _job(work), merge_stored, state.own["points"], state.round, work.budget.threads)
    after = None
    if done.saved is not None:
        kept, start = carried(state)
        own = kept | {"points": done.saved.group, "phase": "rounds"}
        after = State(state.round + len(done.records), done.clusters, (), (*start, *done.saved.files), own)
    return Step(after, done.tables, done.records)


def _alone(work: Work, job: Job, task: Callable[..., Any], *arguments: Any) -> Any:
    """Run a single task and return its result."""
    return work.compute(single_task(task, job.attempt, job, *arguments))[task.__name__][0]


def list_stored(job: Job, stored: StoredPairs, asked: int, rounds: int, threads: int) -> Saved:
    """The task: make lists of near pairs, and find the nearest of every cluster."""
    pairs, start = stored.open()
    assert isinstance(pairs, VectorPairs)
    with Team(threads) as team:
        near = read_near(_near_folder(job.url)) if asked else NO_PAIRS
        points = points_of(pairs, start, near, job.settings, job.limits, asked)
        del near
        points.rounds = rounds
        first_nearest(points, ceiling_of(job.settings), team, job.limits)
    return save_points(job, points)


def merge_stored(job: Job, group: str, rounds: int, threads: int) -> Advanced:
    """The task: run rounds for about as long as a step should take, and write what they leave."""
    points, top = load_points(job, group, rounds)
    end = monotonic() + job.limits.save_seconds
    with Team(threads) as team, reporting(job.store, job.attempt) as report:
        found = merge_rounds(points, job.settings, team, report, job.limits, lambda: monotonic() < end)
    merges = found.merges
    raise_heights(merges.left, merges.right, merges.height, top)
    saved = None if points.ended else save_points(job, points, top)
    return Advanced(write_merges(job, found), tuple(found.records), points.live, saved)
