"""A run in memory: in the threads of this process, or as one task on a worker of a client."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike, fspath
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from dask_rac.base.errors import InputError, ResourceError, StoppedError
from dask_rac.base.events import Event, Listener
from dask_rac.base.settings import EDGE_COLUMNS, Settings
from dask_rac.base.text import size_text
from dask_rac.edges.checks import check_missing
from dask_rac.edges.given import is_dask_frame, require_columns
from dask_rac.edges.source import is_table, open_edges
from dask_rac.engines.choice import choose_engine, expected_pairs
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.engines.given import open_pairs
from dask_rac.engines.in_memory import run, run_pairs
from dask_rac.engines.rows.load import load_graph
from dask_rac.engines.rows.needs import EntrySizes, rest_bytes
from dask_rac.engines.warmup import compile_kernels, compile_pair_kernels
from dask_rac.kernels.arrays import Merges
from dask_rac.kernels.jit import compiling
from dask_rac.runs.options import PlanOptions, RunOptions, given_bytes
from dask_rac.tasks import messages
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.client import choose_scheduler
from dask_rac.tasks.machine import memory_limit, new_team
from dask_rac.tasks.task_graph import computed, is_lazy, lazy_list, single_task
from dask_rac.tasks.team import Team
from dask_rac.tasks.threads import Threads
from dask_rac.tasks.workers import Workers, WorkersDiedError
from dask_rac.vectors.sources.opening import is_dask_array

SHARE = 0.95  # fraction of its memory that a worker may use: above, Dask kills it
PROCESS_BYTES = 300_000_000  # of the interpreter and its libraries
ROW_BYTES = 24  # per edge of the input
ATTEMPTS = 3  # to send edges to a worker: they are lost if it dies
REMEDY = "give store= as well, to run through the disk, or start workers with more memory"


@dataclass(frozen=True)
class Task:
    """What a worker receives beside the edges."""

    n_nodes: int | None
    settings: Settings
    limits: Limits
    token: str = ""
    """Under which it sends its events."""
    engine: str = ""
    """For all pairs, if the user names one."""
    memory: int | None = None
    """For all pairs, the bytes of arrays, if the user limits them."""


def cluster_edges(edges: Any, settings: Settings, options: PlanOptions, report: Listener) -> MergeList:
    """Cluster edges in the memory of this process or of a worker; objects that are not edges are refused here."""
    place, task = choose_scheduler(options.client), Task(options.n_nodes, settings, options.limits)
    if isinstance(place, Threads) or not _known(edges):
        with new_team() as team:
            return find_merges(edges, task, team, memory_limit(), report)
    limits = place.ready()
    most = max(limits.values())
    shipped = _shippable(edges)
    if not isinstance(shipped, str) and not is_lazy(shipped):
        check_room(shipped, options.n_nodes, settings, most)
    _prefer_largest(place, limits)
    return _compute(place, shipped, task, report)


def _prefer_largest(place: Workers, limits: dict[str, int]) -> None:
    """Run on one of the workers with most memory."""
    most = max(limits.values())
    if min(limits.values()) < most:
        place.preferred = [address for address, limit in limits.items() if limit == most]


def cluster_pairs(given: Any, settings: Settings, options: PlanOptions, report: Listener) -> MergeList:
    """Cluster all pairs of vectors, or of a matrix, in the memory of this process or of a worker."""
    named = None if options.names is None else options.names.count
    place, memory = choose_scheduler(options.client), given_bytes(options)
    task = Task(named, settings, options.limits, engine=options.engine, memory=memory)
    if isinstance(place, Threads):
        with new_team() as team:
            return find_merges(given, task, team, memory_limit(), report)
    limits = place.ready()
    most = max(limits.values())
    shipped = shippable_pairs(given)
    if not isinstance(shipped, str):
        _check_fits(shipped, settings, memory or pairs_room(shipped, most), options.engine)
    _prefer_largest(place, limits)
    return _compute(place, shipped, task, report)


def check_pairs(given: Any, settings: Settings, options: PlanOptions) -> None:
    """Raise if all pairs cannot be opened, or do not fit in this process; workers are asked when the run starts."""
    nodes, place = open_pairs(given, settings).nodes, choose_scheduler(options.client)
    if options.names is not None:
        options.names.check_count(nodes, "vectors")
    if isinstance(place, Threads):
        stored = isinstance(options, RunOptions)
        room = (
            place.budget(options.memory).process
            if stored
            else given_bytes(options) or pairs_room(given, memory_limit())
        )
        _check_fits(given, settings, room, options.engine)


def _check_fits(given: Any, settings: Settings, room: int, name: str) -> None:
    """Raise if no engine, or not the named one, can cluster all pairs in so many bytes."""
    choose_engine(expected_pairs(open_pairs(given, settings)), settings, Budget(room, 1, 1), name)


def pairs_room(given: Any, limit: int) -> int:
    """Return the bytes for all pairs in a process of so much memory: what the interpreter and the input leave."""
    held = given.nbytes if isinstance(given, np.ndarray) and not isinstance(given, np.memmap) else 0
    return max(0, int(SHARE * limit) - PROCESS_BYTES - held)


def shippable_pairs(given: Any) -> Any:
    """Return vectors or distances in a form for a worker: a path, or data in memory here."""
    if isinstance(given, str | PathLike):
        return absolute(given)
    return given.compute() if is_dask_array(given) else given


def absolute(path: str | PathLike[str]) -> str:
    """Return a path that means the same in other processes."""
    name = fspath(path)
    return name if "://" in name or not name else os.path.abspath(name)


def find_merges(given: Any, task: Task, team: Team, memory: int, report: Listener) -> MergeList:
    """Cluster edges or all pairs in the memory of this process, which may use `memory` bytes."""
    return (_merge_pairs if task.settings.metric else _merge_edges)(given, task, team, memory, report)


def _merge_pairs(given: Any, task: Task, team: Team, memory: int, report: Listener) -> MergeList:
    """Cluster all pairs."""
    pairs = open_pairs(given, task.settings)
    if task.n_nodes not in (None, pairs.nodes):
        raise InputError(f"there are {task.n_nodes:,} names for {pairs.nodes:,} vectors: give one name for each")
    room = task.memory or pairs_room(given, memory)
    with compiling(partial(report, Event("compile", pairs.nodes))):
        compile_pair_kernels()
        found = run_pairs(pairs, task.settings, team, report, task.limits, memory=room, name=task.engine)
    report(Event("done", pairs.nodes, len(found.round)))
    return found


def _merge_edges(edges: Any, task: Task, team: Team, memory: int, report: Listener) -> MergeList:
    """Cluster edges."""
    with compiling(partial(report, Event("compile"))):
        compile_kernels("int32", task.settings.epsilon > 0)
    report(Event("load"))
    loaded = load_graph(edges, task.n_nodes, task.settings, team, memory)
    nodes, ids = len(loaded.rows.start), loaded.rows.neighbour.dtype.name
    settings = task.settings.resolved(loaded.largest)
    check_missing(settings, nodes, loaded.least, loaded.largest)
    if ids != "int32":
        with compiling(partial(report, Event("compile", nodes))):
            compile_kernels(ids, task.settings.epsilon > 0)
    found = run(loaded, settings, team, report, task.limits)
    report(Event("done", nodes, len(found.round)))
    return replace(found, names=loaded.names)


def cluster_in_memory(edges: Any, task: Task) -> MergeList | InputError | ResourceError:
    """The task: cluster edges with all threads of the worker that runs it.

    Errors that users can act on are returned: if they were raised, the worker would log them as well.
    """
    worker = messages.current_worker()
    assert worker is not None
    limit = int(worker.memory_manager.memory_limit or memory_limit())
    try:
        if not task.settings.metric:
            check_room(edges, task.n_nodes, task.settings, limit)
        joined = isinstance(edges, list) and not task.settings.metric  # the partitions of a Dask DataFrame
        given = pd.concat(edges, ignore_index=True) if joined else edges
        with Team(worker.state.nthreads) as team, messages.sending(task.token) as report:
            return find_merges(given, task, team, limit, report)
    except (InputError, ResourceError) as error:
        if isinstance(edges, str):
            error.add_note(f"as seen by worker {worker.address}")
        return error.with_traceback(None)


def check_room(edges: Any, n_nodes: int | None, settings: Settings, limit: int) -> None:
    """Raise if a run on these edges cannot fit in a worker with `limit` bytes of memory."""
    rows, nodes = _rows(edges), n_nodes if isinstance(n_nodes, int) else 0
    needed = rest_bytes(EntrySizes.of(settings, nodes, rows, "float64"), nodes, 2 * rows) + ROW_BYTES * rows
    if needed + PROCESS_BYTES > SHARE * limit:
        raise ResourceError(
            f"{rows:,} edges need at least {size_text(needed)} of memory, and a worker has {size_text(limit)}: {REMEDY}"
        )


def _rows(edges: Any) -> int:
    """Return the least number of edges, without reading them."""
    if isinstance(edges, str):
        return open_edges(edges).rows
    if isinstance(edges, list):
        return sum(map(len, edges))
    if hasattr(edges, "nnz"):
        return int(edges.nnz) // 2
    first = edges[0] if isinstance(edges, tuple) else edges
    return len(first) if hasattr(first, "__len__") else 0


def _known(edges: Any) -> bool:
    """Return whether edges are of a type that can be sent to a worker, or opened there."""
    return (
        isinstance(edges, str | PathLike | tuple | pd.DataFrame)
        or sp.issparse(edges)
        or is_table(edges)
        or is_dask_frame(edges)
    )


def _shippable(edges: Any) -> Any:
    """Return edges in a form for a worker: a path, partitions to compute there, or data in memory here."""
    if isinstance(edges, str | PathLike):
        return absolute(edges)
    if is_dask_frame(edges):
        require_columns(edges.columns)
        return lazy_list(edges[list(EDGE_COLUMNS)].to_delayed())
    if isinstance(edges, tuple) and any(hasattr(column, "__dask_graph__") for column in edges):
        return computed(edges)
    return edges


def _compute(place: Workers, shipped: Any, task: Task, report: Listener, attempts: int = ATTEMPTS) -> MergeList:
    """Cluster edges on a worker. Edges in memory are sent to one first, and to another if it dies."""
    in_memory = not isinstance(shipped, str) and not is_lazy(shipped)
    with _without_store():
        held = place.send(shipped) if in_memory else shipped
    try:
        answer = _answer(place, held, replace(task, token=uuid.uuid4().hex[:8]), report)
    except CancelledError:
        if not in_memory or attempts == 1 or place.client.status != "running":
            raise
        return _compute(place, shipped, task, report, attempts - 1)
    finally:
        if in_memory:
            held.release()
    if isinstance(answer, MergeList):
        return _owned(answer)
    raise answer


def _answer(place: Workers, held: Any, task: Task, report: Listener) -> MergeList | InputError | ResourceError:
    """Run the task and return its result."""
    graph = single_task(cluster_in_memory, task.token, held, task)
    with _without_store(), place.listening(task.token, report):
        answer: MergeList | InputError | ResourceError = place.compute(graph, lambda *_: None)["cluster_in_memory"][0]
    return answer


@contextmanager
def _without_store() -> Iterator[None]:
    """Explain what has stopped a run that cannot be resumed."""
    try:
        yield
    except StoppedError as error:
        died = isinstance(error, WorkersDiedError)
        raise ResourceError(f"workers died repeatedly during this run: {REMEDY}" if died else str(error)) from error


def _owned(found: MergeList) -> MergeList:
    """The same with arrays that kernels accept: what comes over a wire cannot be written to."""
    merges = Merges._make(np.require(column, requirements="W") for column in found.merges)
    ratio = None if found.ratio is None else np.require(found.ratio, requirements="W")
    return replace(found, merges=merges, round=np.require(found.round, requirements="W"), ratio=ratio)
