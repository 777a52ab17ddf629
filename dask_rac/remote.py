"""A run in memory: in the threads of this process, or as one task on a worker of a client."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from dask.base import compute
from dask.delayed import Delayed, delayed
from distributed import KilledWorker, get_worker

from dask_rac import driver, relay
from dask_rac.checks import check_missing
from dask_rac.config import EDGE_COLUMNS, Event, Progress, Settings, size_text
from dask_rac.edges import is_dask_frame, load_graph, require_columns
from dask_rac.errors import InputError, ResourceError, StoppedError
from dask_rac.graphs import single_task
from dask_rac.kernels.arrays import Merges
from dask_rac.planner import REST_COPIES, REST_VECTORS, Sizes
from dask_rac.shard import Team
from dask_rac.store.edges import is_table, open_edges
from dask_rac.workers import Threads, Workers

SHARE = 0.95  # of a worker's memory that it may use: above, Dask kills it
PROCESS_BYTES = 300_000_000  # of the interpreter and its libraries
ROW_BYTES = 24  # of an edge as it was given
ATTEMPTS = 3  # to send edges to a worker: those it holds die with it
REMEDY = "give store= as well, to run through the disk, or start workers with more memory"


@dataclass(frozen=True)
class Found:
    """What a run in memory found."""

    nodes: int
    outcome: driver.Outcome
    loops: int
    """Self loops that were dropped."""


@dataclass(frozen=True)
class Task:
    """What a worker is told beside the edges."""

    n_nodes: int | None
    settings: Settings
    token: str = ""
    """By which it tells how far it is."""


def cluster_edges(
    edges: Any, n_nodes: int | None, settings: Settings, place: Threads | Workers, report: Progress
) -> Found:
    """Cluster edges in memory: here, or on a worker. What are no edges is refused here."""
    if isinstance(place, Threads) or not _known(edges):
        with driver.new_team() as team:
            return find_merges(edges, n_nodes, settings, team, driver.memory_limit(), report)
    limits = place.ready()
    most = max(limits.values())
    shipped = _shippable(edges)
    if not isinstance(shipped, str | Delayed):
        check_room(shipped, n_nodes, settings, most)
    if min(limits.values()) < most:
        place.rather = [address for address, limit in limits.items() if limit == most]
    return _compute(place, shipped, Task(n_nodes, settings), report)


def find_merges(
    edges: Any, n_nodes: int | None, settings: Settings, team: Team, memory: int, report: Progress
) -> Found:
    """Cluster edges in the memory of this process, of which so many bytes may be used."""
    report(Event("compile"))
    driver.compile_kernels("int32")
    report(Event("load"))
    loaded = load_graph(edges, n_nodes, settings, team, memory)
    nodes, ids = len(loaded.rows.start), loaded.rows.neighbour.dtype.name
    check_missing(settings, nodes, loaded.least, loaded.largest)
    if ids != "int32":
        report(Event("compile", nodes))
        driver.compile_kernels(ids)
    outcome = driver.run(loaded, settings, team, report)
    report(Event("done", nodes, len(outcome.round)))
    return Found(nodes, outcome, loaded.loops)


def cluster_in_memory(edges: Any, task: Task) -> Found | InputError | ResourceError:
    """The task: cluster edges with all threads of the worker that runs it.

    An error that users can act on is a result: one that is raised fills the log of the worker, too.
    """
    worker = get_worker()
    limit = int(worker.memory_manager.memory_limit or driver.memory_limit())
    try:
        check_room(edges, task.n_nodes, task.settings, limit)
        given = pd.concat(edges, ignore_index=True) if isinstance(edges, list) else edges
        with Team(worker.state.nthreads) as team, relay.telling(task.token) as report:
            return find_merges(given, task.n_nodes, task.settings, team, limit, report)
    except (InputError, ResourceError) as error:
        if isinstance(edges, str):
            error.add_note(f"as worker {worker.address} sees it")
        return error.with_traceback(None)


def check_room(edges: Any, n_nodes: int | None, settings: Settings, limit: int) -> None:
    """Raise if a worker with so much memory has no room for a run on these edges, whatever they are like."""
    rows, nodes = _rows(edges), n_nodes if isinstance(n_nodes, int) else 0
    entry = Sizes.of(settings, nodes, rows, "float64").entry
    needed = int(REST_COPIES * entry * 2 * rows) + ROW_BYTES * rows + REST_VECTORS * nodes
    if needed + PROCESS_BYTES > SHARE * limit:
        raise ResourceError(
            f"{rows:,} edges take {size_text(needed)} of memory or more, and a worker has {size_text(limit)}: {REMEDY}"
        )


def _rows(edges: Any) -> int:
    """How many edges there are at least, without a look at them."""
    if isinstance(edges, str):
        return open_edges(edges).rows
    if isinstance(edges, list):
        return sum(map(len, edges))
    if hasattr(edges, "nnz"):
        return int(edges.nnz) // 2
    first = edges[0] if isinstance(edges, tuple) else edges
    return len(first) if hasattr(first, "__len__") else 0


def _known(edges: Any) -> bool:
    """Whether edges are of a kind that can be sent, or opened there."""
    return (
        isinstance(edges, str | PathLike | tuple | pd.DataFrame)
        or sp.issparse(edges)
        or is_table(edges)
        or is_dask_frame(edges)
    )


def _shippable(edges: Any) -> Any:
    """Edges as a worker takes them: a path, partitions that are computed there, or what is in memory here."""
    if isinstance(edges, str | PathLike):
        name = fspath(edges)
        return name if "://" in name or not name else os.path.abspath(name)
    if is_dask_frame(edges):
        require_columns(edges.columns)
        return delayed(edges[list(EDGE_COLUMNS)].to_delayed())
    if isinstance(edges, tuple) and any(hasattr(column, "__dask_graph__") for column in edges):
        columns: tuple[Any, ...] = compute(*edges, traverse=False)
        return columns
    return edges


def _compute(place: Workers, shipped: Any, task: Task, report: Progress, attempts: int = ATTEMPTS) -> Found:
    """Have a worker cluster edges; those in memory go to one first, and to another if it dies."""
    in_memory = not isinstance(shipped, str | Delayed)
    with _without_store():
        held = place.send(shipped) if in_memory else shipped
    try:
        found = _answer(place, held, replace(task, token=uuid.uuid4().hex[:8]), report)
    except CancelledError:
        if not in_memory or attempts == 1 or place.client.status != "running":
            raise
        return _compute(place, shipped, task, report, attempts - 1)
    finally:
        if in_memory:
            held.release()
    if isinstance(found, Found):
        return _owned(found)
    raise found


def _answer(place: Workers, held: Any, task: Task, report: Progress) -> Found | InputError | ResourceError:
    """What the task returns."""
    graph = single_task(cluster_in_memory, task.token, held, task)
    with _without_store(), place.listening(task.token, report):
        answer: Found | InputError | ResourceError = place.compute(graph, lambda *_: None)["cluster_in_memory"][0]
    return answer


@contextmanager
def _without_store() -> Iterator[None]:
    """Say what has stopped a run that cannot be resumed."""
    try:
        yield
    except StoppedError as error:
        died = isinstance(error.__cause__, KilledWorker)
        raise ResourceError(f"workers died again and again on this run: {REMEDY}" if died else str(error)) from error


def _owned(found: Found) -> Found:
    """The same with arrays that kernels may be given: what comes over a wire cannot be written to."""
    outcome = found.outcome
    merges = Merges._make(np.require(column, requirements="W") for column in outcome.merges)
    return replace(found, outcome=replace(outcome, merges=merges, round=np.require(outcome.round, requirements="W")))
