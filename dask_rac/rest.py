"""What is left of a run when it fits in memory: one task, the rounds and the finisher of the driver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac import arena, relay, steps
from dask_rac.config import HAND_OVER, Event, Progress, RoundRecord
from dask_rac.driver import Start, merge_rounds
from dask_rac.kernels import ingest
from dask_rac.kernels.arrays import Merges, Rows, part
from dask_rac.kernels.tree import raise_heights
from dask_rac.receipts import Job
from dask_rac.shard import Shard, Space, Team, needs_counts, rule_of, starts_of
from dask_rac.steps import entry_columns, load_column, write_round
from dask_rac.store.arrays import read_array
from dask_rac.store.files import Folder
from dask_rac.store.manifest import State
from dask_rac.store.tables import TableRecord

PART_MERGES = 4_000_000  # a file
STATISTICS_SECONDS = 1  # between two on an object store, where each is a request


@dataclass(frozen=True)
class Rest:
    """What the last step did."""

    merges: tuple[TableRecord, ...]
    records: tuple[RoundRecord, ...]


def finish_rest(job: Job, state: State, merged: int, pays: bool, finisher_edges: int, threads: int) -> Rest:
    """Merge all that is left of a state, in the memory of this process."""
    steps.forget()
    arena.end_tasks()
    with Team(threads) as team, reporting(job) as report:
        rule = rule_of(job.settings)._replace(scale=job.rule(state.round).scale)
        rows, top = _load(job, state)
        space = Space(rows, ("neighbour", "weight", "tie", "edges"), needs_counts(rule))
        clusters = space.clusters(state.clusters)
        _load_clusters(job, state, clusters)
        start = Start(Shard(rows, clusters), space, rule, state.round, merged, job.nodes, pays, finisher_edges)
        ids = clusters.ids.copy()
        outcome = merge_rounds(start, job.settings, team, report, HAND_OVER)
    tops = np.full(job.nodes, -np.inf)
    tops[ids] = top
    raise_heights(outcome.merges.left, outcome.merges.right, outcome.merges.height, tops)
    return Rest(_write_parts(job, outcome.merges, outcome.round), tuple(outcome.records))


@contextmanager
def reporting(job: Job) -> Iterator[Progress]:
    """Leaves the statistics of each round in the store, and tells who waits for the step."""
    store, written = job.store, 0.0
    with relay.telling(job.attempt) as tell:

        def report(event: Event) -> None:
            nonlocal written
            if event.record is not None and (store.local or monotonic() - written > STATISTICS_SECONDS):
                write_statistics(store, event.record)
                written = monotonic()
            tell(event)

        yield report


def write_statistics(store: Folder, record: RoundRecord) -> None:
    """Leave what a round did where others can look."""
    store.write(f"statistics/{record.round:05d}.json", json.dumps(asdict(record)).encode())


def _write_parts(job: Job, merges: Merges, rounds: NDArray[np.int32]) -> tuple[TableRecord, ...]:
    """Write merges in files of bounded size."""
    starts = range(0, len(rounds), PART_MERGES)
    return tuple(
        write_round(job, k, part(merges, at, at + PART_MERGES), rounds[at : at + PART_MERGES])
        for k, at in enumerate(starts)
    )


def _load(job: Job, state: State) -> tuple[Rows, NDArray[np.float64]]:
    """All rows of a state, and the height of each cluster's last merge."""
    length = _column(job, state, "length", np.dtype(job.ids))
    starts = starts_of(length)
    columns: dict[str, NDArray[Any]] = {
        name: np.empty(state.entries, np.float64 if name == "weight" else kind)
        for name, kind in job.columns(state.round).items()
    }
    at = 0
    for shard in state.shards:
        for name, column in columns.items():
            out = column[at : at + shard.entries]
            if name == "weight" and not state.round:
                out[:] = read_array(job.store, f"{shard.name}/weight")
            else:
                load_column(job.store, shard.name, name, entry_columns(shard), (0, shard.entries), out)
        at += shard.entries
    tie = columns.get("tie")
    rows = Rows(
        starts[:-1].copy(),
        starts[1:].copy(),
        columns["neighbour"],
        columns["weight"],
        columns.get("edges", np.empty(0, job.counts)),
        np.empty(state.entries, np.uint16) if tie is None else tie,
    )
    if tie is None:
        ingest.fill_ties(rows, np.arange(state.clusters, dtype=job.ids))
        return rows, np.full(state.clusters, -np.inf)
    return rows, _column(job, state, "top", np.dtype(np.float64))


def _load_clusters(job: Job, state: State, clusters: Any) -> None:
    """Fill in the clusters of a state."""
    for name in ("nearest", "height"):
        _column(job, state, name, getattr(clusters, name).dtype, getattr(clusters, name))
    if state.round:
        for name in ("ids", "size"):
            _column(job, state, name, np.dtype(job.ids), getattr(clusters, name))
    else:
        clusters.ids[:], clusters.size[:] = np.arange(state.clusters), 1


def _column(job: Job, state: State, name: str, kind: np.dtype[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """A column of all clusters of a state."""
    column = np.empty(state.clusters, kind) if out is None else out
    for shard in state.shards:
        read_array(job.store, f"{shard.name}/{name}", out=column[shard.first : shard.first + shard.clusters])
    return column
