"""The first step of a run on all pairs beyond memory: check vectors, merge equal ones, keep what later steps read.

A state of such a run names, in `own`, the group that holds the clusters after this step, and the folders of the store
that it still needs: copies of vectors, and near pairs. Folders that no state needs are deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from dask_rac.base.events import Listener, RoundRecord
from dask_rac.base.names import NEAR, VECTORS
from dask_rac.base.settings import Settings
from dask_rac.base.spans import batches
from dask_rac.engines.contract import MergeList, Step, Work
from dask_rac.engines.equal import distinct_pairs, merge_equal
from dask_rac.engines.given import open_pairs
from dask_rac.engines.rows.packing import write_round
from dask_rac.engines.rows.receipts import Job, new_job
from dask_rac.engines.start import Start, single_nodes
from dask_rac.files.arrays import read_array, write_group
from dask_rac.files.folder import FileRecord, Folder
from dask_rac.files.listing import files_fingerprint
from dask_rac.files.tables import TableRecord
from dask_rac.kernels.arrays import Ends, Merges, empty_merges, part
from dask_rac.store.header import check_source
from dask_rac.store.manifest import Facts, State
from dask_rac.store.statistics import reporting
from dask_rac.tasks.task_graph import single_task
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.stream import check_distances
from dask_rac.vectors.pairs.triangle import triangle_bytes, triangle_entries
from dask_rac.vectors.pairs.vector_pairs import VectorPairs
from dask_rac.vectors.sources.opening import spool_vectors

UNKNOWN = np.inf, -np.inf  # the least and the largest weight, which no step needs


class Prepared(NamedTuple):
    """What the first step leaves."""

    tables: tuple[TableRecord, ...]
    records: tuple[RoundRecord, ...]
    facts: Facts
    clusters: int
    files: tuple[FileRecord, ...]
    own: dict[str, Any]


@dataclass(frozen=True)
class StoredPairs:
    """Where the distinct vectors of a run are, or its distances, and its clusters; tasks open it."""

    store: Folder
    path: str
    settings: Settings
    group: str
    """The array group of the start, empty where every node is a cluster of its own."""

    def open(self) -> tuple[AllPairs, Start]:
        """Open the pairs, and read the start."""
        pairs = open_pairs(self.path, self.settings)
        return pairs, read_start(self.store, self.group) if self.group else single_nodes(pairs.nodes)


def begin(given: Any, work: Work) -> Step:
    """Check vectors or distances, and merge equal vectors, on one worker or in the threads of this process."""
    job = new_job(work, 0, 0, 0)
    with work.listening():
        graph = single_task(prepare, job.attempt, job, given, work.budget.most_threads)
        done: Prepared = work.compute(graph)["prepare"][0]
    state = None
    if done.clusters > 1:
        state = State(len(done.records), done.clusters, (), done.files, done.own)
    return Step(state, done.tables, done.records, facts=done.facts)


def stored_pairs(state: State, work: Work) -> StoredPairs:
    """Return where the pairs of a run are; raise if the input has changed since it began."""
    source = work.header.source
    if source is not None:
        check_source(work.header, source, files_fingerprint(source))
    path = f"{work.store.url.rstrip('/')}/{VECTORS}" if VECTORS in state.own["needs"] else source
    assert path is not None
    return StoredPairs(work.store, path, work.settings, state.own["start"])


def carried(state: State, near: bool = False) -> tuple[dict[str, Any], tuple[FileRecord, ...]]:
    """Return what the next state keeps of `own` and of the files; `near` if it still needs the near pairs."""
    needs = [name for name in state.own["needs"] if name != NEAR or near]
    group = state.own["start"]
    files = tuple(file for file in state.files if group and file.name.startswith(f"{group}/"))
    return {"start": group, "needs": needs}, files


def prepare(job: Job, given: Any, threads: int) -> Prepared:
    """Check vectors, merge equal ones, and write what is not on disk yet."""
    store = job.store
    with Team(threads) as team, reporting(store, job.attempt) as report:
        pairs = open_pairs(given, job.settings)
        pairs.check(team, report)
        if not isinstance(pairs, VectorPairs):
            check_distances(pairs, report)
        start, distinct, found = start_pairs(pairs, job.settings, team, report)
    kept = isinstance(given, str | PathLike) and distinct is pairs
    if not kept and len(start.ids) > 1:
        assert isinstance(distinct, VectorPairs), "distances beyond memory are at a path"
        spool_vectors(distinct.source, store, VECTORS)
    group, files = "", list[FileRecord]()
    if len(start.ids) < pairs.nodes:
        group = f"{job.folder}/start"
        files = write_group(store, group, start._asdict())
    own = {"phase": "start", "start": group, "needs": [NEAR, *([] if kept else [VECTORS])]}
    size = pairs.source.bytes if isinstance(pairs, VectorPairs) else triangle_bytes(pairs.nodes)
    facts = Facts(pairs.nodes, triangle_entries(pairs.nodes), size, *UNKNOWN, 0, 0)
    tables = write_merges(job, found) if len(found.round) else ()
    return Prepared(tables, tuple(found.records), facts, len(start.ids), tuple(files), own)


def start_pairs(pairs: AllPairs, settings: Settings, team: Team, report: Listener) -> tuple[Start, AllPairs, MergeList]:
    """Merge equal vectors; return the clusters, the pairs of the distinct ones, and the merges."""
    if isinstance(pairs, VectorPairs):
        start, found = merge_equal(pairs, team, report, settings.linkage == "single")
        return start, distinct_pairs(pairs, start), found
    none = MergeList(pairs.nodes, empty_merges(0, np.dtype(np.int64)), np.empty(0, np.int32), [])
    return single_nodes(pairs.nodes), pairs, none


def joined(before: MergeList, after: MergeList) -> MergeList:
    """Return the merges of equal vectors and those that follow as one list."""
    rounds = len(before.records)
    if not rounds:
        return after
    ends = None
    if before.ends is not None and after.ends is not None:
        ends = Ends._make(np.concatenate(both) for both in zip(before.ends, after.ends, strict=True))
    return MergeList(
        before.nodes,
        Merges._make(np.concatenate(both) for both in zip(before.merges, after.merges, strict=True)),
        np.concatenate([before.round, after.round + np.int32(rounds)]),
        [*before.records, *(replace(record, round=record.round + rounds) for record in after.records)],
        ends=ends,
    )


def read_start(store: Folder, group: str) -> Start:
    """Read the clusters that a run starts from."""
    return Start(*(read_array(store, f"{group}/{name}") for name in Start._fields))


def write_merges(job: Job, found: MergeList) -> tuple[TableRecord, ...]:
    """Write merges, whose heights do not fall, in files of limited size."""
    return tuple(
        write_round(
            job,
            number,
            part(found.merges, first, last),
            found.round[first:last],
            None if found.ends is None else part(found.ends, first, last),
        )
        for number, (first, last) in enumerate(batches(0, len(found.round), job.limits.part_merges))
    )
