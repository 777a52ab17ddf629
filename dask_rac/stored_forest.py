"""The loop of a stored run for single linkage: Boruvka's rounds, the rest in memory, then the tree's merges."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np

from dask_rac import arena, rest, steps
from dask_rac.boruvka import (
    Joined,
    Lightened,
    component_of,
    forest_record,
    load_node_rows,
    save_tree,
    unite_tree,
)
from dask_rac.config import Event, RoundRecord
from dask_rac.driver import boruvka_rounds
from dask_rac.graphs import forest_graph, single_task
from dask_rac.kernels.arrays import Rows
from dask_rac.receipts import Job
from dask_rac.rounds import Components
from dask_rac.shard import Team, starts_of
from dask_rac.store.arrays import read_array
from dask_rac.store.files import FileRecord
from dask_rac.store.manifest import Manifest, State
from dask_rac.stored import StoredRun

UNITE_BYTES = 64  # a node, for its edge of the tree to be sorted and united
FOREST_BYTES = 24  # a node, whatever the number of parts


class ForestRun(StoredRun):
    """A run of single linkage on its way."""

    def advance(self, state: State) -> None:
        """One step on."""
        if not state.entries and state.round:
            self._unite(state)
        elif self.rest_is_due(state):
            self._rest(state)
        else:
            self._round(state)

    def _round(self, state: State) -> None:
        """One round out of core."""
        began = perf_counter()
        self.check_room(state)
        job = self.new_job(0)
        results = self.compute(forest_graph(job, state))
        lightened: list[Lightened] = results["lighten"]
        joined: Joined = results["join"][0]
        self.account([*lightened, joined])
        entries = sum(receipt.shard.entries for receipt in lightened)
        after = State(
            state.round + 1,
            joined.components,
            entries if joined.merges else 0,
            tuple(receipt.shard for receipt in lightened) if joined.merges else (),
            joined.component,
            (*state.tree, joined.tree),
            (*_tree_files(state), *joined.files),
        )
        record = forest_record(after.round, joined, entries, lightened)
        records = (record,) if joined.merges else ()
        step = Manifest(len(self.chain), "", self.facts, after, (), records, 0, 0.0)
        self.commit(step, sum(receipt.disk for receipt in lightened))
        if records:
            seconds, traffic = perf_counter() - began, sum(self.chain[-1].traffic.values())
            done = self.facts.nodes - joined.components
            self.report(Event("round", self.facts.nodes, done, record, seconds=seconds, bytes=traffic))

    def _rest(self, state: State) -> None:
        """All rounds that are left, in memory."""
        job = self.new_job(0)
        self.report(Event("rest", self.facts.nodes, self.facts.nodes - state.clusters))
        with self.scheduler.listening(job.attempt, self.report):
            results = self.compute(single_task(finish_forest, job.attempt, job, state, self.budget.threads))
        tree, files, records = results["finish_forest"][0]
        after = State(state.round + len(records), 0, 0, (), "", (*state.tree, tree), (*_tree_files(state), *files))
        after = replace(after, round=max(1, after.round))
        self.commit(Manifest(len(self.chain), "", self.facts, after, (), tuple(records), 0, 0.0), 0)

    def _unite(self, state: State) -> None:
        """The merges that the tree makes."""
        job, nodes = self.new_job(0), self.facts.nodes
        room = max(self.budget.process - FOREST_BYTES * nodes, self.budget.process // 10)
        buckets = max(1, -(-UNITE_BYTES * nodes // room))
        tables = self.compute(single_task(unite_tree, job.attempt, job, state, buckets))["unite_tree"][0]
        self.commit(Manifest(len(self.chain), "", self.facts, None, tables, (), 0, 0.0), 0)


def finish_forest(job: Job, state: State, threads: int) -> tuple[str, list[FileRecord], list[RoundRecord]]:
    """Boruvka's rounds on what is left, in the memory of this process."""
    steps.forget()
    arena.end_tasks()
    label = component_of(job, state).copy()
    steps.forget()
    rows = _whole_rows(job, state)
    rule = job.rule(state.round)
    with Team(threads) as team, rest.reporting(job) as report:
        start = Components(rows, label, state.clusters)
        tree, when, records = boruvka_rounds(start, rows, rule, team, report, state.round)
    name, files = save_tree(job, tree, len(when), when)
    return name, files, records


def _whole_rows(job: Job, state: State) -> Rows:
    """The rows of all nodes."""
    lengths = [read_array(job.store, f"{shard.name}/length") for shard in state.shards]
    starts = starts_of(np.concatenate([np.empty(0, job.ids), *lengths]))
    neighbour, weight = np.empty(state.entries, job.ids), np.empty(state.entries)
    at = 0
    for shard in state.shards:
        arena.begin_task()
        rows = load_node_rows(job, state, shard)
        neighbour[at : at + shard.entries], weight[at : at + shard.entries] = rows.neighbour, rows.weight
        at += shard.entries
    arena.end_tasks()
    counts = np.empty(0, job.counts)
    return Rows(starts[:-1].copy(), starts[1:].copy(), neighbour, weight, counts, np.empty(0, np.uint16))


def _tree_files(state: State) -> tuple[FileRecord, ...]:
    """The files of the tree so far."""
    return tuple(file for file in state.files if file.name.startswith("tree/"))
