"""A stored run from the outside: make the store, begin, go on, look."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from dask_rac import driver
from dask_rac.checks import check_missing, describe_conflict
from dask_rac.config import Event, Progress, Settings, check_kind
from dask_rac.edges import Graph, is_dask_frame, load_graph, require_columns
from dask_rac.errors import DamagedStoreError, InputError, ResourceError, StoppedError, StoreError
from dask_rac.graphs import forest_graph, round_graph, scan_graph, spool_graph
from dask_rac.outcome import Outcome, check_fingerprint
from dask_rac.planner import (
    REST_COPIES,
    REST_VECTORS,
    Budget,
    Plan,
    Sizes,
    projected_disk,
    projected_memory,
    rest_fits,
    shard_entries,
)
from dask_rac.store import manifest as manifests
from dask_rac.store.edges import BATCH_ROWS, EdgeSource, open_edges
from dask_rac.store.files import UNFINISHED, Folder
from dask_rac.store.manifest import Header, Manifest, ShardRecord, State
from dask_rac.stored import ConflictError, StoredRun, step_job
from dask_rac.stored_clustering import StoredClustering
from dask_rac.stored_forest import ForestRun
from dask_rac.upkeep import clean_store, newest_sound
from dask_rac.workers import Scheduler, chosen, memory_bytes, versions

SPOOL = "input"  # where the partitions of a Dask DataFrame lie until they are read


@dataclass(frozen=True)
class PlanOptions:
    """How a run is done, beside what it computes."""

    n_nodes: int | None
    memory: str | float | None
    shards: int | None
    client: Any


@dataclass(frozen=True)
class RunOptions(PlanOptions):
    """The same, and where."""

    store: str | PathLike[str]


@dataclass(frozen=True)
class Expected:
    """Edges as far as a plan must know them; they need not be there yet."""

    nodes: int
    rows: int
    weights: str
    """dtype."""
    bytes: int


def stored_cluster(
    edges: Any, settings: Settings, options: RunOptions, report: Progress
) -> tuple[StoredClustering, int]:
    """Begin a run in a new store, and bring it to its end: the result, and how many self loops were dropped."""
    check_options(options)
    store, scheduler = Folder(options.store), chosen(options.client)
    budget = scheduler.budget(options.memory)
    source = open_edges(edges) if isinstance(edges, str | PathLike) else None
    if source is not None:
        check_kind(source.kind, settings.weights)
        options = options if options.n_nodes is not None else replace(options, n_nodes=source.nodes)
    report(Event("compile"))
    driver.compile_kernels("int32")
    given = source or _open_input(edges, options.n_nodes, settings)
    with _new_store(store) as undo, store.locked() as held:
        scheduler.check(store, given if isinstance(given, EdgeSource) else None)
        header = _header(given, settings, options)
        _begin_store(store, header)
        undo.append(manifests.HEADER)
        run = _run_class(settings)(store, header, scheduler, budget, report, exclusive=held)
        with _resumable(store):
            if isinstance(given, Graph):
                run.begin_with(given)
            else:
                source = given if isinstance(given, EdgeSource) else _spool(given, store, scheduler, run)
                try:
                    run.go(source)
                except ConflictError as error:
                    raise InputError(_find_conflict(source, error.edge)) from error
    report(Event("done", run.facts.nodes, run.merged))
    return StoredClustering(Outcome(store, header, run.chain, report)), run.facts.loops


def resume_run(
    path: str | PathLike[str], memory: str | float | None, client: Any, report: Progress
) -> StoredClustering:
    """Bring the run in a store to its end."""
    store = Folder(path)
    header = manifests.read_header(store)
    scheduler = chosen(client)
    chain = manifests.read_chain(store)
    if chain and chain[-1].state is None and len(chain) == manifests.count_manifests(store):
        chain = newest_sound(store)
    if not chain or chain[-1].state is not None:
        with store.locked() as held, _resumable(store):
            run = _run_class(header.settings)(
                store, header, scheduler, scheduler.budget(memory), report, exclusive=held
            )
            chain = _go_on(run)
    else:
        with suppress(StoreError), store.locked() as held:  # the disk may be for reading only
            clean_store(store, chain, 0, everything=held)
    report(Event("done", chain[0].facts.nodes, sum(table.rows for step in chain for table in step.merges)))
    return StoredClustering(Outcome(store, header, chain, report))


def _go_on(run: StoredRun) -> list[Manifest]:
    """Run to the end from the newest step that is sound."""
    store, header = run.store, run.header
    run.chain = newest_sound(store)
    source = None
    if header.source is not None and (not run.chain or run.chain[-1].state is not None):
        source = _input_again(header, needed=not run.chain)
    if not run.chain and source is None:
        raise StoreError(
            f"{store.url} was stopped before its edges were read, and they were not on disk: start anew in another "
            "folder"
        )
    run.report(Event("compile"))
    driver.compile_kernels("int32")
    run.scheduler.check(store, source if not run.chain else None)
    run.clean_attempt()
    try:
        run.go(source)
    except ConflictError as error:
        assert source is not None
        raise InputError(_find_conflict(source, error.edge)) from error
    return run.chain


def plan_stored(edges: Any, settings: Settings, options: PlanOptions, report: Progress) -> Plan:
    """What a run would take."""
    check_options(options)
    scheduler = chosen(options.client)
    budget = scheduler.budget(options.memory)
    if not isinstance(edges, str | PathLike):
        raise InputError("plan() is for edges on disk: give the path of a Parquet file or folder, or of a Zarr group")
    source = open_edges(edges)
    nodes = options.n_nodes if options.n_nodes is not None else _count_nodes(source, settings, scheduler, report)
    return plan_sizes(Expected(nodes, source.rows, source.weight_dtype, source.bytes), settings, options.shards, budget)


def plan_sizes(given: Expected, settings: Settings, asked: int | None, budget: Budget) -> Plan:
    """What a run on edges of this size would take, `asked` the shards that were asked for."""
    nodes, rows = given.nodes, given.rows
    sizes = Sizes.of(settings, nodes, rows, given.weights)
    room = shard_entries(sizes, nodes, rows, budget, asked)
    if asked is None and rest_fits(sizes, nodes, 2 * rows, budget):
        shards, entries = 1, 2 * rows
        memory = int(REST_COPIES * sizes.entry * entries) + REST_VECTORS * nodes
    else:
        shards, entries = max(1, -(-2 * rows // room)), min(room, 2 * rows)
        memory = projected_memory(sizes, nodes, entries, budget)
    header = Header(settings, "", "", given.weights, nodes, asked, {})
    job = step_job(Folder("."), header, nodes, rows, room, 1)
    names = [ShardRecord(f"rounds/00000/shard-{k:05d}", 0, nodes, 2 * rows, ()) for k in range(shards)]
    state = State(0, nodes, 2 * rows, tuple(names))
    graph = (forest_graph if settings.linkage == "single" else round_graph)(job, state)
    disk = projected_disk(sizes, nodes, rows)
    return Plan(nodes, rows, shards, sizes.entry * entries, memory, budget, disk, given.bytes, graph)


def _count_nodes(source: EdgeSource, settings: Settings, scheduler: Scheduler, report: Progress) -> int:
    """The nodes by what the files say, by their statistics, or by reading them."""
    if source.nodes is not None:
        return source.nodes
    if source.top is not None:
        return source.top + 1
    report(Event("scan"))
    token = uuid.uuid4().hex[:8]
    scanned = scheduler.compute(scan_graph(token, source, source.units(BATCH_ROWS), None, settings), lambda *_: None)
    return 1 + max((receipt.top for receipt in scanned.get("scan", [])), default=-1)


def open_result(path: str | PathLike[str], report: Progress) -> StoredClustering:
    """The result in a store, as far as it is there."""
    store = Folder(path)
    header = manifests.read_header(store)
    written = manifests.count_manifests(store)  # before they are read: a run on its way adds to them
    chain = manifests.read_chain(store)
    if len(chain) < written:
        raise DamagedStoreError(
            f"{store.at(manifests.STEPS)}/{len(chain):05d}.json is damaged: dask_rac.resume({store.url!r}) goes back "
            "to the round before it"
        )
    if not chain:
        raise StoreError(
            f"{store.url} has nothing to show yet: its edges are still being read; if nobody works on it, "
            f"{_advice(store)}"
        )
    return StoredClustering(Outcome(store, header, chain, report))


def _run_class(settings: Settings) -> type[StoredRun]:
    """The loop for a linkage."""
    return ForestRun if settings.linkage == "single" else StoredRun


def check_options(options: PlanOptions) -> None:
    """Raise unless the options make sense by themselves."""
    shards = options.shards
    if shards is not None and (isinstance(shards, bool) or not isinstance(shards, int | np.integer) or shards < 1):
        raise InputError(f"shards={shards!r} is not a whole number, 1 or more")
    nodes = options.n_nodes
    if nodes is not None and (isinstance(nodes, bool) or not isinstance(nodes, int | np.integer) or nodes < 0):
        raise InputError(f"n_nodes={nodes!r} is not a whole number, 0 or more")
    memory_bytes(options.memory, 0)


def _open_input(edges: Any, n_nodes: int | None, settings: Settings) -> Graph | Any:
    """Edges that are not on disk: a Dask DataFrame as it is, what is in memory as a graph."""
    if is_dask_frame(edges):
        require_columns(edges.columns)
        return edges
    with driver.new_team() as team:
        graph = load_graph(edges, n_nodes, settings, team, driver.memory_limit())
    check_missing(settings, len(graph.rows.start), graph.least, graph.largest)
    return graph


def _header(given: Any, settings: Settings, options: RunOptions) -> Header:
    """What the store says of the run."""
    n_nodes = None if options.n_nodes is None else int(options.n_nodes)
    shards = None if options.shards is None else int(options.shards)
    if not isinstance(given, EdgeSource):
        return Header(settings, None, "", "float64", n_nodes, shards, versions())
    name = given.name if "://" in given.name else os.path.abspath(given.name)
    return Header(settings, name, given.fingerprint, _weights(given, settings), n_nodes, shards, versions())


def _weights(source: EdgeSource, settings: Settings) -> str:
    """dtype of the weights in the first state; a mean of float32 is none."""
    return "float64" if settings.duplicates == "mean" else source.weight_dtype


def refuse_taken(store: Folder) -> None:
    """Raise if no run can begin in a folder because of what is there."""
    if store.is_file():
        raise StoreError(f"{store.url} is a file: give the path of a folder to be made")
    if any(name != "lock" and not name.endswith(UNFINISHED) for name in store.names()):
        raise StoreError(_taken(store) if store.exists(manifests.HEADER) else _foreign(store))


@contextmanager
def _new_store(store: Folder) -> Iterator[list[str]]:
    """A folder to begin a run in; if that fails before anything is committed, what was made goes again."""
    there = store.exists()
    refuse_taken(store)
    if store.local:
        try:
            os.makedirs(store.path, exist_ok=True)
            os.close(os.open(store.at("lock"), os.O_RDWR | os.O_CREAT, 0o666))
        except OSError as error:
            raise StoreError(_not_writable(store, error)) from error
    undo: list[str] = []
    try:
        yield undo
    except StoppedError:
        raise
    except Exception:
        if undo and manifests.count_manifests(store) == 0:
            for name in (*undo, "rounds", "merges", "tree", SPOOL, "statistics", "manifests", "lock"):
                store.remove(name)
        if store.local and not there and set(store.names()) <= {"lock"}:
            store.remove("")
        raise


def _begin_store(store: Folder, header: Header) -> None:
    """Make a folder the store of this run, unless it is another's."""
    try:
        begun = manifests.write_header(store, header)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise ResourceError(f"the disk of {store.url} is full: make room, or use another disk") from error
        raise StoreError(_not_writable(store, error)) from error
    if not begun:
        raise StoreError(_taken(store))


def _taken(store: Folder) -> str:
    """What to say of a store that holds a run."""
    if not _can_go_on(store):
        return f"{store.url} holds a run whose edges were in memory and are not yet in it: choose another folder"
    return (
        f"{store.url} holds a run already: go on with dask_rac.resume({store.url!r}), look at it with "
        f"dask_rac.open({store.url!r}), or choose another folder"
    )


def _not_writable(store: Folder, error: OSError) -> str:
    """What to say of a folder that takes no file."""
    return f"{store.url} cannot be written: {error.strerror or error}; choose another folder"


def _foreign(store: Folder) -> str:
    """What to say of a folder that holds something else."""
    return f"{store.url} is not empty and holds no run: nothing in it is touched; choose another folder"


@contextmanager
def _resumable(store: Folder) -> Iterator[None]:
    """Say how to go on when somebody stops the run."""
    try:
        yield
    except BaseException as error:
        if not _interrupted(error):
            raise
        stopped = KeyboardInterrupt()
        stopped.add_note(_advice(store))
        raise stopped from error


def _advice(store: Folder) -> str:
    """What to do about a run that was stopped."""
    if _can_go_on(store):
        return f"go on with dask_rac.resume({store.url!r})"
    return f"its edges were in memory and not yet in {store.url}: start anew in another folder"


def _can_go_on(store: Folder) -> bool:
    """Whether what a run needs is in its store, or on disk elsewhere; what is damaged is told by `resume`."""
    with suppress(StoreError):
        return manifests.count_manifests(store) > 0 or manifests.read_header(store).source is not None
    return True


def _interrupted(error: BaseException | None) -> bool:
    """Whether somebody has stopped the run; what was interrupted may fail at something else in consequence."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _input_again(header: Header, needed: bool) -> EdgeSource | None:
    """The edges of a run that goes on, unchanged; they may be gone once they have been read."""
    assert header.source is not None
    try:
        source = open_edges(header.source)
    except InputError:
        if needed:
            raise
        return None
    check_fingerprint(source, header)
    return source


def _spool(frame: Any, store: Folder, scheduler: Scheduler, run: StoredRun) -> EdgeSource:
    """Write the partitions of a Dask DataFrame where tasks can read them twice."""
    run.report(Event("load"))
    try:
        with run.explained():
            scheduler.compute(spool_graph(frame, store), lambda *_: None)
    except StoppedError as error:
        text = f"the disk of {store.url} is full, and the Dask DataFrame not yet there: make room and start again"
        raise ResourceError(text) from error
    return open_edges(f"{store.url}/{SPOOL}")


def _find_conflict(source: EdgeSource, edge: tuple[int, int]) -> str:
    """Which rows give an edge two weights; read again, as few have such an edge."""
    found: list[tuple[int, int, float]] = []
    places: list[str] = []
    for unit in source.units(BATCH_ROWS):
        for columns, where in source.read(unit):
            ends = columns["source"].astype(np.int64), columns["target"].astype(np.int64)
            lo, hi = np.minimum(*ends), np.maximum(*ends)
            for row in np.flatnonzero((lo == edge[0]) & (hi == edge[1])).tolist():
                found.append((*edge, float(columns["weight"][row])))
                places.append(where(row))
    low, high, weight = np.array(found).T
    return describe_conflict((low.astype(np.int64), high.astype(np.int64), weight), lambda row: places[row])
