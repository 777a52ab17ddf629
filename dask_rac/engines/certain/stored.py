"""Certain rounds in a run with a store: phases, each of them one step or several.

    start    choose how far near pairs reach
    near     find them: a graph of the vectors in the folder `near`, which goes on where it was stopped
    rounds   certain rounds; from here on only the clusters that are left are needed
    reduce   bands of rows of the triangle of these clusters, some in each step
    matrix   the rounds of the matrix engine, to the end

Where the matrix would not fit, a stage comes first:

    stage    choose how far it reaches
    search   bands of near pairs of clusters, some in each step
    again    certain rounds on them; then `reduce`, or another stage
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from dask_rac.base.errors import ResourceError, StoppedError
from dask_rac.base.events import Event
from dask_rac.base.names import NEAR
from dask_rac.base.settings import Settings
from dask_rac.base.spans import Span, steps_of
from dask_rac.base.text import size_text
from dask_rac.engines.certain import tasks
from dask_rac.engines.certain.left import groups_left
from dask_rac.engines.certain.near_pairs import request_for
from dask_rac.engines.certain.reduce import entries_of, reduce_bytes
from dask_rac.engines.certain.stages import refuse_stage
from dask_rac.engines.certain.survey import Survey, fewer_pairs, most_pairs
from dask_rac.engines.certain.tasks import Band, Merged, Place
from dask_rac.engines.contract import Limits, Step, Work
from dask_rac.engines.matrix.in_memory import pairs_bytes
from dask_rac.engines.matrix.state import CODES
from dask_rac.engines.near import TooManyPairsError, build_near
from dask_rac.engines.prepare import StoredPairs, carried, stored_pairs
from dask_rac.engines.rows.receipts import Job, new_job
from dask_rac.files.folder import FileRecord, Folder
from dask_rac.store.manifest import State
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.task_graph import single_task, spread
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.triangle import triangle_bytes, triangle_entries
from dask_rac.vectors.pairs.vector_pairs import VectorPairs

SCALE = 1_000_000  # parts of a band, by which rows are measured


def advance(state: State, work: Work) -> Step:
    """Do the next step."""
    step = {
        "start": _survey,
        "near": _near,
        "rounds": _rounds,
        "reduce": _reduce,
        "matrix": _matrix,
        "stage": _stage,
        "search": _search,
        "again": _again,
    }[state.own["phase"]]
    with work.listening():
        return step(state, work)


def _job(work: Work) -> Job:
    """What the tasks of a step receive."""
    assert work.facts is not None
    return new_job(work, work.facts.nodes, 0, 0)


def _alone(work: Work, job: Job, task: Callable[..., Any], *arguments: Any) -> Any:
    """Run a single task and return its result."""
    return work.compute(single_task(task, job.attempt, job, *arguments))[task.__name__][0]


def _place(state: State, work: Work) -> Place:
    """Where the clusters of this step are."""
    return Place(stored_pairs(state, work), state.own.get("left", ""), state.round)


def _next(state: State, phase: str, own: dict[str, Any], files: Sequence[FileRecord] = (), near: bool = False) -> State:
    """Return the state of the next phase; files of clusters that are left stay."""
    kept, start = carried(state, near)
    left = own.get("left", state.own.get("left", ""))
    held = [file for file in state.files if left and file.name.startswith(f"{left}/")]
    return State(
        state.round, state.clusters, (), (*start, *held, *files), kept | {"left": left} | own | {"phase": phase}
    )


def _survey(state: State, work: Work) -> Step:
    """Choose how far near pairs reach; after an attempt with too many pairs, not as far."""
    job, budget, stored = _job(work), work.budget, stored_pairs(state, work)
    refuse_pass(stored.open()[0], budget, work.settings, work.limits)
    work.store.remove(NEAR)
    most = state.own.get("most")
    chosen: Survey = _alone(work, job, tasks.survey_stored, stored, budget.process, budget.threads, most)
    return Step(_next(state, "near", {"survey": asdict(chosen)}, near=True))


def refuse_pass(pairs: AllPairs, budget: Budget, settings: Settings, limits: Limits) -> None:
    """Raise if a process cannot hold what a pass over all pairs of vectors needs."""
    needed = pass_bytes(pairs, budget, settings, limits)
    if needed > budget.process:
        raise ResourceError(
            f"a pass over all pairs of {pairs.nodes:,} vectors needs {size_text(needed)} in each process, and "
            f"{size_text(budget.process)} may be used: set memory='{-(-needed * budget.processes // 10**6)}MB' or more"
        )


def pass_bytes(pairs: AllPairs, budget: Budget, settings: Settings, limits: Limits) -> int:
    """Return what a pass over all pairs of vectors needs in a process: the vectors, and a band for each thread."""
    if not isinstance(pairs, VectorPairs):
        return 0
    bands = 8 * budget.threads * min(_most_entries(budget, limits), triangle_entries(pairs.nodes))
    return pairs.source.bytes + bands + reduce_bytes(pairs, 0, CODES[settings.linkage], budget.threads, near=0)


def _most_entries(budget: Budget, limits: Limits) -> int:
    """Return how many entries of the triangle of clusters a thread of a process holds."""
    return entries_of(budget.process, budget.threads, limits)


def _near(state: State, work: Work) -> Step:
    """Find near pairs."""
    survey, stored, budget = Survey(**state.own["survey"]), stored_pairs(state, work), work.budget
    most = most_pairs(state.clusters, budget.process)
    try:
        bands = _near_bands(survey, stored, most, work)
    except TooManyPairsError as error:
        fewer = fewer_pairs(survey, error.pairs, state.clusters, budget.process)
        return Step(_next(state, "start", {"most": fewer}, near=True))
    names, files = [band.name for band in bands], [file for band in bands for file in band.files]
    return Step(_next(state, "rounds", {"survey": asdict(survey), "pairs": names}, files, near=True))


def _near_bands(survey: Survey, stored: StoredPairs, most: int, work: Work) -> list[Band]:
    """Find near pairs: given ones in a group of the store, those of vectors as a graph in a folder of their own."""
    pairs, _ = stored.open()
    if not isinstance(pairs, VectorPairs):
        return [_alone(work, _job(work), tasks.find_given, stored, survey, most)]
    target = Folder(f"{work.store.url.rstrip('/')}/{NEAR}")
    facts = build_near(pairs.source, request_for(survey, pairs), target, work.scheduler, work.budget, work.report)
    if facts.edges > most:
        raise TooManyPairsError(facts.edges)
    return []


def _rounds(state: State, work: Work) -> Step:
    """Run certain rounds on near pairs."""
    job, budget, survey = _job(work), work.budget, Survey(**state.own["survey"])
    groups = state.own["pairs"]
    merged = _alone(work, job, tasks.merge_near, _place(state, work), survey, groups, budget.process, budget.threads)
    return _merged(state, merged, work)


def _merged(state: State, merged: Merged, work: Work) -> Step:
    """Go on after rounds: to the matrix if it fits, and otherwise to a stage."""
    if merged.ended:
        return Step(None, merged.tables, merged.records)
    fits = pairs_bytes(merged.clusters) <= work.budget.process
    after = _next(state, "reduce" if fits else "stage", {"left": merged.left}, merged.files)
    after = State(state.round + len(merged.records), merged.clusters, (), after.files, after.own)
    return Step(after, merged.tables, merged.records)


def _reduce(state: State, work: Work) -> Step:
    """Compute some rows of the triangle of clusters."""
    place, job = _place(state, work), _job(work)
    spans, done = _spans(state, place, work), list(state.own.get("done", []))
    if not done:
        matrix = f"the matrix of the {state.clusters:,} clusters that are left"
        work.require_disk(triangle_bytes(state.clusters), matrix, ": make room, then resume the run", StoppedError)
    wanted = spans[len(done) : len(done) + _together(work)]
    items = [(job, place, span, work.budget.threads) for span in wanted]
    bands: list[Band] = work.compute(spread(tasks.reduce_band, job.attempt, items))["reduce_band"]
    done += [band.name for band in bands]
    files = [*_held(state), *(file for band in bands for file in band.files)]
    phase = "matrix" if len(done) == len(spans) else "reduce"
    after = _next(state, phase, {"spans": spans, "done": done}, files)
    return Step(after, event=_progress(work, len(done), len(spans)))


def _matrix(state: State, work: Work) -> Step:
    """Merge what is left by its matrix."""
    spans = [(int(first), int(last)) for first, last in state.own["spans"]]
    bands = list(zip(spans, state.own["done"], strict=True))
    budget, place = work.budget, _place(state, work)
    tables, records = _alone(work, _job(work), tasks.merge_matrix, place, bands, budget.process, budget.threads)
    return Step(None, tables, records)


def _stage(state: State, work: Work) -> Step:
    """Choose how far a stage reaches."""
    budget, place = work.budget, _place(state, work)
    radii: list[float] = _alone(work, _job(work), tasks.stage_radii_stored, place, budget.process, budget.threads)
    if not radii:
        refuse_stage(state.clusters, budget.process)
    return Step(_next(state, "search", {"radii": radii}))


def _search(state: State, work: Work) -> Step:
    """Find near pairs in some rows of the triangle of clusters; with too many, start again with the next radius."""
    place, job, budget = _place(state, work), _job(work), work.budget
    radii, done, found = state.own["radii"], list(state.own.get("done", [])), int(state.own.get("found", 0))
    spans = _spans(state, place, work)
    wanted = spans[len(done) : len(done) + _together(work)]
    most = _most_entries(budget, work.limits)
    items = [(job, place, span, float(radii[0]), budget.threads, most) for span in wanted]
    bands: list[Band] = work.compute(spread(tasks.near_band, job.attempt, items))["near_band"]
    found += sum(band.pairs for band in bands)
    if found > most_pairs(state.clusters, budget.process):
        if len(radii) == 1:
            refuse_stage(state.clusters, budget.process)
        return Step(_next(state, "search", {"radii": radii[1:]}))
    done += [band.name for band in bands]
    files = [*_held(state), *(file for band in bands for file in band.files)]
    own = {"radii": radii, "spans": spans, "done": done, "found": found}
    after = _next(state, "again" if len(done) == len(spans) else "search", own, files)
    return Step(after, event=_progress(work, len(done), len(spans)))


def _again(state: State, work: Work) -> Step:
    """Run the certain rounds of a stage."""
    budget, place, radius = work.budget, _place(state, work), float(state.own["radii"][0])
    merged: Merged = _alone(
        work, _job(work), tasks.merge_stage, place, radius, state.own["done"], budget.process, budget.threads
    )
    if not merged.ended and state.clusters - merged.clusters < work.limits.stage_share * state.clusters:
        refuse_stage(merged.clusters, budget.process)
    return _merged(state, merged, work)


def _held(state: State) -> list[FileRecord]:
    """Return the files of the bands so far."""
    done = {str(name) for name in state.own.get("done", [])}
    return [file for file in state.files if file.name.rpartition("/")[0] in done]


def _together(work: Work) -> int:
    """Return how many bands a step has: one for each thread."""
    return work.budget.processes * work.budget.threads


def _progress(work: Work, done: int, total: int) -> Event:
    """Return how far a pass over all pairs has come."""
    return Event("pairs", work.facts.nodes if work.facts else 0, work.merged, done=done, total=total)


def _spans(state: State, place: Place, work: Work) -> list[Span]:
    """Return the bands of a pass: those that it began with, or new ones."""
    if "spans" in state.own:
        return [(int(first), int(last)) for first, last in state.own["spans"]]
    pairs, start = place.stored.open()
    if not isinstance(pairs, VectorPairs):
        return _given_spans(state.clusters, work)
    left, _ = tasks.read_left(work.store, place)
    begin, most = groups_left(start, left, CODES[work.settings.linkage]).begin, work.limits.band_pairs
    if state.own["phase"] == "search":  # what a task finds is little, however many entries it goes through
        return band_spans(begin, most)
    return band_spans(begin, most, _most_entries(work.budget, work.limits))


def band_spans(begin: Any, most_pairs: int, most_entries: float = math.inf) -> list[Span]:
    """Cut the rows of a triangle of clusters into bands, by pairs of vectors and by entries."""
    clusters = len(begin) - 1
    pairs = (np.diff(begin) * (begin[-1] - begin[1:]))[::-1]  # by slot: each cluster with all after it
    each = SCALE * (pairs / most_pairs + np.arange(clusters) / most_entries)
    return [(int(first), int(last)) for first, last in steps_of(each.astype(np.int64), SCALE)]


def _given_spans(clusters: int, work: Work) -> list[Span]:
    """Cut the rows of a triangle of clusters into as few bands as memory allows: each reads all given distances."""
    most = max(1, work.budget.process // 16)
    return [(int(first), int(last)) for first, last in steps_of(np.arange(clusters), max(most, clusters))]
