"""The intake: edges on disk become the first state, in two passes, and are never all in memory.

1. `scanning.py` checks every row, and counts the ids by bin.
2. `layout.py` cuts the nodes into shards with about the same number of entries.
3. `routing.py` reads the input again, and sends each edge to the shards that own its ends.
4. `build` reads the edges of its shard, builds rows from them, merges parallel edges and finds the nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.names import shard_name
from dask_rac.base.spans import starts_of
from dask_rac.edges.checks import duplicates_policy
from dask_rac.edges.source import EdgeSource
from dask_rac.edges.units import Unit
from dask_rac.engines.rows.layout import Layout
from dask_rac.engines.rows.packing import node_vectors, row_lengths
from dask_rac.engines.rows.receipts import Clock, Job, Receipt, fresh_name
from dask_rac.engines.rows.routing import Edges, Sent, Sorted, read_edges, route_tasks
from dask_rac.files.arrays import write_group
from dask_rac.kernels.arrays import Clusters, Rows
from dask_rac.kernels.rows import ingest
from dask_rac.kernels.rows.fold import find_nearest
from dask_rac.kernels.rows.move import copy_rows
from dask_rac.store.manifest import ShardRecord
from dask_rac.tasks.scratch import begin_task, borrow
from dask_rac.tasks.task_graph import TaskGraph


@dataclass(frozen=True)
class Built(Receipt):
    """A shard of the first state."""

    number: int
    shard: ShardRecord
    later: int
    """Entries that point to a later node."""
    least: float
    largest: float
    repeats: int
    """Entries that repeat an edge."""
    conflict: tuple[int, int] | None
    """An edge with two different weights, if that is an error."""


def build(job: Job, layout: Layout, arrived: Sequence[Sent | Sorted], number: int) -> Built:
    """Build the rows of one shard and find its nearest."""
    begin_task()
    clock, store = Clock(), job.store
    lo, hi = layout.bounds[number : number + 2]
    with clock.phase("read"):
        edges = read_edges(job, layout, arrived, number)
        clock.count("read", list(edges))
    with clock.phase("route"):
        degree = np.zeros(hi - lo, np.int64)
        ingest.count_degrees(edges[0], edges[1], degree, (lo, hi))
        starts = starts_of(degree)
        del degree
        rows = _scatter(job, edges, starts, (lo, hi))
    with clock.phase("fold"):
        span = 0, hi - lo, lo
        conflicts, left, right = ingest.unify(rows, span)
        if conflicts and job.settings.duplicates != "error":
            rows = _scatter(job, edges, starts, (lo, hi))  # `unify` has overwritten them
            ingest.settle(rows, duplicates_policy(job.settings), span)
        repeats = int(starts[-1]) - int(ingest.close_gaps(rows))
        kept = int(starts[-1]) - repeats
        ids, size = node_vectors(job)
        clusters = Clusters(ids, size, np.empty(hi - lo, job.ids), np.empty(hi - lo))
        find_nearest(rows, clusters, job.rule(0), span)
        later = int(ingest.count_later(rows, lo))
    with clock.phase("write"):
        columns = {
            "nearest": clusters.nearest,
            "height": clusters.height,
            "length": row_lengths(rows, job.ids),
            "neighbour": rows.neighbour[:kept],
            "weight": rows.weight[:kept],
        }
        name = fresh_name(job, shard_name(number))
        files = write_group(store, name, columns)
        clock.count("write", list(columns.values()))
    weight = columns["weight"]
    return Built(
        number,
        ShardRecord(name, lo, hi - lo, kept, tuple(files)),
        later,
        float(weight.min(initial=np.inf)),
        float(weight.max(initial=-np.inf)),
        repeats,
        (min(left, right), max(left, right)) if conflicts and job.settings.duplicates == "error" else None,
        seconds=clock.seconds,
        bytes=clock.bytes,
    )


def save_rows(job: Job, rows: Rows, span: tuple[int, int, int]) -> Built:
    """Write a range of rows in memory as a shard of the first state."""
    number, lo, hi = span
    own = rows._replace(start=rows.start[lo:hi], stop=rows.stop[lo:hi])
    length = row_lengths(own, job.ids)
    clusters = Clusters(*node_vectors(job), np.empty(hi - lo, job.ids), np.empty(hi - lo))
    find_nearest(own, clusters, job.rule(0), (0, hi - lo, lo))
    columns: dict[str, NDArray[Any]] = {"nearest": clusters.nearest, "height": clusters.height, "length": length}
    for name in ("neighbour", "weight"):
        column = getattr(rows, name)
        columns[name] = np.empty(int(length.sum(dtype=np.int64)), column.dtype)
        copy_rows(np.arange(hi - lo), own.start, length, column, columns[name])
    name = fresh_name(job, shard_name(number))
    shard = ShardRecord(name, lo, hi - lo, len(columns["weight"]), tuple(write_group(job.store, name, columns)))
    return Built(number, shard, int(ingest.count_later(own, lo)), np.inf, -np.inf, 0, None)


def _scatter(job: Job, edges: Edges, starts: NDArray[np.int64], span: tuple[int, int]) -> Rows:
    """Return the rows of one shard's edges; parallel edges are not merged yet."""
    lo, hi = span
    total = int(starts[-1])
    rows = Rows(
        starts[:-1],
        starts[:-1].copy(),
        borrow(total, job.ids),
        borrow(total, job.weights),
        np.empty(0, job.counts),
        borrow(total, np.uint16),
    )
    ingest.scatter(edges, rows.stop, rows.neighbour, rows.weight, (lo, hi, lo))
    return rows


def intake_graph(job: Job, source: EdgeSource, units: Sequence[Unit], layout: Layout, rows: int) -> TaskGraph:
    """Read the whole input into the first state: route, sort if there are groups, then build."""
    graph = TaskGraph(job.attempt)
    given, cuts = graph.constant(source, "source"), graph.constant(layout, "layout")
    for number, arrived in enumerate(route_tasks(graph, job, units, layout, (given, cuts, rows))):
        graph.add(build, job, cuts, arrived, number)
    return graph
