"""Single linkage out of core: Boruvka's rounds, the rest in memory, then the merges that the forest makes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dask_rac.base.events import Event, RoundRecord
from dask_rac.base.names import TREE
from dask_rac.base.spans import starts_of
from dask_rac.engines.contract import Step, Work
from dask_rac.engines.forest.in_memory import boruvka_rounds
from dask_rac.engines.forest.round import Components
from dask_rac.engines.forest.state import ForestEdges, forest_state, tree_groups
from dask_rac.engines.forest.tasks import (
    Joined,
    Lightened,
    component_of,
    forest_graph,
    forest_record,
    load_node_rows,
    save_tree,
    unite_tree,
)
from dask_rac.engines.rows.receipts import Job, new_job
from dask_rac.engines.rows.stored import begin, facts_of, require_room, rest_is_due, step_job
from dask_rac.files.arrays import read_array
from dask_rac.files.folder import FileRecord
from dask_rac.kernels.arrays import Rows
from dask_rac.store.manifest import State
from dask_rac.store.statistics import reporting
from dask_rac.tasks import scratch
from dask_rac.tasks.cache import forget_state
from dask_rac.tasks.task_graph import single_task
from dask_rac.tasks.team import Team

UNITE_BYTES = 80  # per node, for its edge of the forest to be sorted and united
FOREST_BYTES = 24  # per node, whatever the number of parts
BEFORE = 0  # in place of the round of edges that an earlier run has found


@dataclass(frozen=True)
class Extension:
    """New edges, and the spanning forest of the edges before them."""

    edges: Any
    """What a run begins with."""
    forest: Iterable[ForestEdges]
    """In parts; smaller weights are nearer, as in the rounds."""


def extend(given: Extension, work: Work) -> Step:
    """Read the new edges into the rows of single nodes, and keep the forest for the end.

    The spanning forest of all edges is that of the two forests together, so the rounds see the new edges only.
    """
    step = begin(given.edges, work)
    assert step.state is not None
    assert step.facts is not None
    job = new_job(work, step.facts.nodes, step.facts.edges, 0)
    groups, files = [], []
    for part in given.forest:
        ids = np.dtype(job.ids)
        tree = ForestEdges(part.source.astype(ids), part.target.astype(ids), np.asarray(part.weight, np.float64))
        name, written = save_tree(job, tree, len(tree.weight), BEFORE)
        groups.append(name)
        files += written
    state = step.state
    return replace(step, state=forest_state(0, state.clusters, state.shards, tuple(files), "", groups))


def advance(state: State, work: Work) -> Step:
    """Do one round, all that are left, or the merges of the finished forest."""
    if not state.entries and state.round:
        return _unite(state, work)
    return _rest(state, work) if rest_is_due(state, work) else _round(state, work)


def _round(state: State, work: Work) -> Step:
    """One round out of core."""
    require_room(state, work)
    results = work.compute(forest_graph(step_job(work), state))
    lightened: list[Lightened] = results["lighten"]
    joined: Joined = results["join"][0]
    work.account([*lightened, joined])
    shards = tuple(receipt.shard for receipt in lightened)
    after = forest_state(
        state.round + 1,
        joined.components,
        shards if joined.merges else (),
        (*_tree_files(state), *joined.files),
        joined.component,
        (*tree_groups(state), joined.tree),
    )
    scratch_bytes = sum(receipt.disk for receipt in lightened)
    if not joined.merges:
        return Step(after, scratch=scratch_bytes)
    record = forest_record(after.round, joined, sum(shard.entries for shard in shards), lightened)
    nodes = facts_of(work).nodes
    event = Event("round", nodes, nodes - joined.components, record)
    return Step(after, (), (record,), scratch_bytes, event)


def _rest(state: State, work: Work) -> Step:
    """All rounds that are left, in memory."""
    job = step_job(work)
    work.report(Event("rest", job.nodes, job.nodes - state.clusters))
    with work.listening():
        results = work.compute(single_task(finish_forest, job.attempt, job, state, work.budget.most_threads))
    tree, files, records = results["finish_forest"][0]
    after = forest_state(
        max(1, state.round + len(records)), 0, (), (*_tree_files(state), *files), "", (*tree_groups(state), tree)
    )
    return Step(after, (), tuple(records))


def _unite(state: State, work: Work) -> Step:
    """The merges that the forest makes."""
    job, budget = step_job(work), work.budget
    room = max(budget.process - FOREST_BYTES * job.nodes, budget.process // 10, 1)
    buckets = max(1, -(-UNITE_BYTES * max(job.nodes, _tree_edges(state)) // room))
    tables = work.compute(single_task(unite_tree, job.attempt, job, state, buckets))["unite_tree"][0]
    return Step(None, tables)


def finish_forest(job: Job, state: State, threads: int) -> tuple[str, list[FileRecord], list[RoundRecord]]:
    """Run Boruvka's rounds on what is left, in the memory of this process."""
    forget_state()
    scratch.end_tasks()
    label = component_of(job, state).copy()
    forget_state()
    rows = _whole_rows(job, state)
    rule = job.rule(state.round)
    with Team(threads) as team, reporting(job.store, job.attempt) as report:
        start = Components(rows, label, state.clusters)
        tree, when, records = boruvka_rounds(start, rows, rule, team, report, state.round)
    name, files = save_tree(job, tree, len(when), when)
    return name, files, records


def _whole_rows(job: Job, state: State) -> Rows:
    """Return the rows of all nodes."""
    lengths = [read_array(job.store, f"{shard.name}/length") for shard in state.shards]
    starts = starts_of(np.concatenate([np.empty(0, job.ids), *lengths]))
    neighbour, weight = np.empty(state.entries, job.ids), np.empty(state.entries)
    at = 0
    for shard in state.shards:
        scratch.begin_task()
        rows = load_node_rows(job, state, shard)
        neighbour[at : at + shard.entries], weight[at : at + shard.entries] = rows.neighbour, rows.weight
        at += shard.entries
    scratch.end_tasks()
    counts = np.empty(0, job.counts)
    return Rows(starts[:-1], starts[1:].copy(), neighbour, weight, counts, np.empty(0, np.uint16))


def _tree_edges(state: State) -> int:
    """The edges of the forest found so far, and of that before it, if the run extends another; at most a few more."""
    return sum(file.bytes for file in _tree_files(state) if file.name.endswith("/weight")) // 8


def _tree_files(state: State) -> tuple[FileRecord, ...]:
    """The files of the forest found so far."""
    return tuple(file for file in state.files if file.name.startswith(f"{TREE}/"))
