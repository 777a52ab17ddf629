"""The constants of a machine from finished runs: seconds per unit of work that explain what their steps have taken.

Each phase is fitted on its own, by least squares without negative constants, over the rounds of all runs. What a run
does not separate, such as reading the input a second time, is what is left of the time of its threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from dask_rac.forecasts.machine import Machine, Rate
from dask_rac.forecasts.observe import Observed, Run


@dataclass(frozen=True)
class Sample:
    """Work, and the seconds that it took."""

    seconds: float
    work: float
    """Units."""
    clusters: float
    """On which the time of a unit may depend."""
    weight: float = 1.0


def calibrated(runs: Sequence[Run], start: Machine | None = None) -> Machine:
    """Return the constants that finished runs show; those that they do not show are as at the start."""
    machine = start or Machine()
    rounds = [(seen, 1 / _total(run)) for run in runs for seen in run.rounds]
    machine = _rounds(machine, rounds)
    machine = _rest(machine, runs)
    machine = _intake(machine, runs)
    names = tuple(f"{run.name}: {run.facts.edges:,} edges, {run.place.processes}x{run.place.threads}" for run in runs)
    return replace(_between(machine, runs), sources=machine.sources + names)


def _total(run: Run) -> float:
    """Return the seconds of all rounds of a run through the store, so that each run counts the same."""
    return max(1e-9, sum(seen.wall for seen in run.rounds))


def fitted(samples: Iterable[Sample]) -> Rate:
    """Return the rate that explains some samples."""
    given = [sample for sample in samples if sample.work > 0]
    if not given:
        return Rate()
    rows = np.array([[s.work, s.work * math.log2(max(2.0, s.clusters))] for s in given])
    weight = np.array([sample.weight for sample in given])
    scale = rows.max(axis=0)
    found, _ = nnls(rows / scale * weight[:, None], np.array([sample.seconds for sample in given]) * weight)
    return Rate(*map(float, found / scale))


def _rounds(machine: Machine, rounds: Sequence[tuple[Observed, float]]) -> Machine:
    """Fit the phases of rounds through the store."""
    works: dict[str, tuple[str, Callable[[Observed], float]]] = {
        "read": ("read", lambda seen: sum(traffic.read for traffic in seen.shape.layers().values())),
        "relabel": ("relabel", lambda seen: seen.shape.before.clusters * (1 + seen.shape.processes)),
        "move": ("route", _moves),
        "fold": ("fold", lambda seen: seen.shape.before.entries),
        "write": ("write", lambda seen: sum(traffic.written for traffic in seen.shape.layers().values())),
    }
    rates = {
        name: fitted(
            Sample(seen.seconds.get(phase, 0.0), work(seen), seen.shape.before.clusters, weight)
            for seen, weight in rounds
        )
        for name, (phase, work) in works.items()
    }
    return _with(machine, rates) if rounds else machine


def _with(machine: Machine, rates: Mapping[str, Rate]) -> Machine:
    """Return a machine with other rates."""
    values: dict[str, Any] = dict(rates)
    return replace(machine, **values)


def _moves(seen: Observed) -> float:
    """Return the units of moving: entries that move, and clusters, each of which two tasks look at."""
    return seen.shape.moved_entries + 2 * seen.shape.before.clusters


def _intake(machine: Machine, runs: Sequence[Run]) -> Machine:
    """Fit the reading of the edges: by its phases, and by what these leave of the time of all threads."""
    scan, route, build = [], [], []
    for run in runs:
        edges, nodes, sizes = run.facts.edges, run.facts.nodes, run.sizes
        row = 2 * sizes.ids + sizes.weight
        twice = edges * row * (2 - 1 / run.shards)
        phases = _without_sorting(machine, run, twice)
        read = min(machine.read.at(nodes) * twice, 0.9 * phases.get("read", 0.0))
        state = 2 * edges * (sizes.ids + sizes.weight)
        share = edges * row / (edges * row + state)
        again = max(0.0, run.intake_seconds * run.place.workers - sum(run.intake.values()))
        writing, ordering = phases.get("write", 0.0), phases.get("route", 0.0) / 2
        weight = 1 / max(1e-9, run.intake_seconds)
        scan.append(Sample(phases.get("read", 0.0) - read, edges, nodes, weight))
        route.append(Sample(again + ordering + share * writing, edges, nodes, weight))
        rest = read + ordering + phases.get("fold", 0.0) + (1 - share) * writing
        build.append(Sample(rest, edges, nodes, weight))
    return replace(machine, scan=fitted(scan), route=fitted(route), build=fitted(build))


def _without_sorting(machine: Machine, run: Run, size: float) -> Mapping[str, float]:
    """Return the phases of an intake without what it takes only by way of groups, which a model adds."""
    if not run.by_groups:
        return run.intake
    nodes, ends = run.facts.nodes, size / (2 * run.sizes.ids + run.sizes.weight)
    more = {
        "read": machine.read.at(nodes) * size,
        "route": machine.move.at(nodes) * ends,
        "write": machine.write.at(nodes) * 1.5 * size,
    }
    return {name: max(0.1 * seconds, seconds - more.get(name, 0.0)) for name, seconds in run.intake.items()}


def _rest(machine: Machine, runs: Sequence[Run]) -> Machine:
    """Fit what was done in memory."""
    match, fold, load, finish = [], [], [], []
    for run in runs:
        if run.rest is None:
            continue
        threads, slow = run.place.workers, run.place.slowdown
        weight = 1 / max(1e-9, run.rest.seconds)
        for record in run.rest.records:
            if record.finisher:
                finish.append(Sample(record.finish_seconds / slow, record.edges, record.clusters, weight))
                continue
            match.append(Sample(threads * record.match_seconds / slow, record.clusters, record.clusters, weight))
            fold.append(Sample(threads * record.fold_seconds / slow, 2 * record.edges, record.clusters, weight))
        inside = sum(r.match_seconds + r.fold_seconds + r.finish_seconds for r in run.rest.records) / slow
        load.append(Sample(max(0.0, run.rest.seconds - inside), run.rest.before.entries, 2, weight))
    rates = {"rest_match": match, "rest_fold": fold, "load": load, "finish": finish}
    return _with(machine, {name: fitted(samples) for name, samples in rates.items() if samples})


def _between(machine: Machine, runs: Sequence[Run]) -> Machine:
    """Find out what a step takes beside its tasks: what these leave of its time, fixed and for each task."""
    rows, seconds = [], []
    for run in runs:
        for seen in run.rounds:
            shape, workers = seen.shape, run.place.workers
            cut = machine.relabel.at(shape.before.clusters) * shape.before.clusters
            cut += machine.read.at(shape.before.clusters) * shape.layers()["cut"].read
            waves = [(max(0.0, seen.spent[0] - cut), shape.shards), (seen.spent[1], shape.shards_after)]
            busy = cut + sum(spent / tasks * -(-tasks // workers) for spent, tasks in waves)
            rows.append([1.0, shape.shards + shape.shards_after, shape.next_bytes])
            seconds.append(max(0.0, seen.wall - busy))
    if not rows:
        return machine
    scale = np.array(rows).max(axis=0)
    found, _ = nnls(np.array(rows) / scale, np.array(seconds))
    step, task, discard = map(float, found / scale)
    return replace(machine, step=step, task=task, discard=discard)
