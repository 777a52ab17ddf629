"""Begin a stored run: make the store, read the edges, run to the end."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from typing import Any

from dask_rac.base.checks import check_kind
from dask_rac.base.errors import InputError, ResourceError, StoppedError, StoreError, StoreInUseError
from dask_rac.base.events import Event, Listener
from dask_rac.base.names import HEADER, INPUT, LOCK, NAMES, STORE_FOLDERS, given_names_folder
from dask_rac.base.settings import EDGE_COLUMNS, Settings
from dask_rac.edges.checks import check_missing
from dask_rac.edges.conflicts import ConflictError, find_conflict
from dask_rac.edges.given import is_dask_frame, require_columns
from dask_rac.edges.given_names import GivenNames, open_names
from dask_rac.edges.numbering import refuse_stated_nodes
from dask_rac.edges.source import EdgeSource, open_edges
from dask_rac.edges.streams import EdgeStream
from dask_rac.engines.choice import choose_engine, expected_pairs
from dask_rac.engines.contract import Limits
from dask_rac.engines.forest.state import ForestEdges
from dask_rac.engines.forest.stored import Extension
from dask_rac.engines.given import open_pairs
from dask_rac.engines.numbering import NumberingPlan, name_sizes, new_attempt, number_edges
from dask_rac.engines.rows.load import Graph, load_graph
from dask_rac.engines.warmup import compile_kernels, compile_pair_kernels
from dask_rac.files.flushing import make_folders
from dask_rac.files.folder import Folder
from dask_rac.files.full import disk_full_text, is_disk_full
from dask_rac.files.listing import files_fingerprint
from dask_rac.files.stored_names import StoredNames, names_beside, write_names
from dask_rac.files.tables import write_frame
from dask_rac.files.urls import full_name
from dask_rac.kernels.jit import compiling
from dask_rac.runs.in_memory import shippable_pairs
from dask_rac.runs.loop import StoredRun, not_resumable
from dask_rac.runs.options import RunOptions, check_options, given_bytes
from dask_rac.store.advice import not_writable_text, refuse_taken_store, resumable, taken_text
from dask_rac.store.cleanup import remove_ours
from dask_rac.store.header import Header, write_header
from dask_rac.store.journal import Journal
from dask_rac.store.manifest import count_manifests
from dask_rac.tasks.client import choose_scheduler
from dask_rac.tasks.machine import memory_limit, new_team, versions
from dask_rac.tasks.scheduler import Scheduler
from dask_rac.tasks.task_graph import TaskGraph
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.vector_pairs import VectorPairs


def spool_graph(frame: Any, store: Folder) -> TaskGraph:
    """Write the partitions of a Dask DataFrame."""
    graph = TaskGraph(uuid.uuid4().hex[:8])
    for number, partition in enumerate(frame[list(EDGE_COLUMNS)].to_delayed()):
        graph.add(write_frame, partition, store, number, name="spool")
    return graph


def begin_run(
    edges: Any, settings: Settings, options: RunOptions, report: Listener, forest: Iterable[ForestEdges] | None = None
) -> Journal:
    """Begin a run in a new store, and bring it to its end; by single linkage it may extend a `forest`."""
    check_options(options)
    store, scheduler = Folder(options.store), choose_scheduler(options.client)
    budget = scheduler.budget(options.memory)
    source = open_edges(edges) if isinstance(edges, str | PathLike) else None
    if source is not None:
        check_kind(source.kind, settings.weights)
        if source.text:
            refuse_stated_nodes(options.n_nodes)
        if source.named and options.n_nodes is not None:
            check_named_nodes(source, options.n_nodes)
        nodes = source.nodes if options.names is None else options.names.count
        options = options if options.n_nodes is not None else replace(options, n_nodes=nodes)
    with compiling(partial(report, Event("compile"))):
        compile_kernels("int32", settings.epsilon > 0)
    given = source or _open_input(edges, options.n_nodes, settings)
    names = options.names or _own_names(given)
    with _new_store(store) as undo, store.locked() as held:
        scheduler.check(store, given if isinstance(given, EdgeSource) else None, budget)
        if held and store.exists(NAMES):
            remove_ours(store, NAMES)  # of a run that was killed as it began
        header = _header(given, settings, options)
        if forest is not None:  # resuming must not take the new edges for all
            header = replace(header, source=None, fingerprint="")
        header = _begin_store(store, header, names, options.limits)
        undo.append(HEADER)
        run = StoredRun(store, header, scheduler, budget, report, options.limits, exclusive=held)
        with resumable(store):
            run_to_end(run, _spool(given, store, scheduler, run) if _is_spooled(given) else given, forest)
    report(Event("done", run.facts.nodes, run.journal.merged))
    return run.journal


def begin_pairs_run(given: Any, settings: Settings, options: RunOptions, report: Listener) -> Journal:
    """Begin a run on all pairs in a new store, and bring it to its end."""
    check_options(options)
    store, scheduler = Folder(options.store), choose_scheduler(options.client)
    budget = scheduler.budget(options.memory)
    shipped = shippable_pairs(given)
    pairs = open_pairs(shipped, settings)
    if options.names is not None:
        options.names.check_count(pairs.nodes, "vectors")
    with new_team() as team:
        pairs.check(team, report)
    engine, _ = choose_engine(expected_pairs(pairs), settings, budget, options.engine)
    if engine.name != "matrix":
        _check_beyond_memory(pairs, given)
    with compiling(partial(report, Event("compile"))):
        compile_pair_kernels()
    on_disk = isinstance(given, str | PathLike)
    name, mark = (full_name(fspath(given)), files_fingerprint(fspath(given))) if on_disk else (None, "")
    with _new_store(store) as undo, store.locked() as held:
        scheduler.check(store, pairs.source if on_disk and isinstance(pairs, VectorPairs) else None, budget)
        if held and store.exists(NAMES):
            remove_ours(store, NAMES)
        memory = given_bytes(options)
        header = Header(settings, name, mark, "float64", None, None, versions(), engine.name, memory)
        header = _begin_store(store, header, options.names, options.limits)
        undo.append(HEADER)
        run = StoredRun(store, header, scheduler, budget, report, options.limits, exclusive=held)
        with resumable(store), compiling(partial(report, Event("compile"))):
            run.go(shipped)
    report(Event("done", run.facts.nodes, run.journal.merged))
    return run.journal


def _check_beyond_memory(pairs: AllPairs, given: Any) -> None:
    """Raise if distances that are gone through more than once are not where tasks can read them again."""
    if not isinstance(pairs, VectorPairs) and not isinstance(given, str | PathLike):
        raise InputError(
            f"the distances of {pairs.nodes:,} points would be read several times, and they are not on disk: write "
            "them with numpy.save or to_zarr, and give their path; or if they fit in memory twice, allow as much"
        )


def run_to_end(run: StoredRun, given: EdgeSource | Graph | None, forest: Iterable[ForestEdges] | None = None) -> None:
    """Run to the end; an edge with two weights is an error that names its rows."""
    if isinstance(given, EdgeSource):
        if given.text and not run.chain:
            _number_and_run(run, given)
            return
        given = replace(given, batch_rows=run.limits.batch_rows)
    try:
        run.go(given if forest is None else Extension(given, forest))
    except ConflictError as error:
        assert isinstance(given, EdgeSource)
        record = run.header.names
        names = None if record is None else StoredNames(run.store, record)
        raise InputError(find_conflict(given, error.edge, names)) from error


def _number_and_run(run: StoredRun, source: EdgeSource) -> None:
    """Number the nodes of edges whose ids are text, then run to the end."""
    refuse_stated_nodes(run.header.n_nodes)
    plan = NumberingPlan(run.store, run.scheduler, run.budget, run.header.settings, run.limits, new_attempt())
    with not_resumable(run.store) if run.header.source is None else nullcontext(), run.explained():
        numbered = number_edges(source, plan, run.report)
    run.names, run.beside = numbered.names, numbered.source.bytes
    edges = replace(numbered.source, batch_rows=run.limits.batch_rows)
    try:
        run.go(edges)
    except ConflictError as error:
        names = StoredNames(run.store, numbered.names)
        raise InputError(find_conflict(source, error.edge, names)) from error


def _open_input(edges: Any, n_nodes: int | None, settings: Settings) -> Graph | Any:
    """Return edges that are not on disk: a Dask DataFrame or a stream as it is, edges in memory as a graph."""
    if isinstance(edges, EdgeStream):
        return edges
    if is_dask_frame(edges):
        require_columns(edges.columns)
        return edges
    with new_team() as team:
        graph = load_graph(edges, n_nodes, settings, team, memory_limit())
    check_missing(settings.resolved(graph.largest), len(graph.rows.start), graph.least, graph.largest)
    return graph


def check_named_nodes(source: EdgeSource, n_nodes: int) -> None:
    """Raise if a stated number of nodes is not that of the names beside the edges."""
    names = names_beside(Folder(source.name))
    if names is not None and len(names) != n_nodes:
        raise InputError(f"n_nodes={n_nodes} differs from the {len(names)} names in {source.name}: leave it out")


def _own_names(given: Any) -> GivenNames | None:
    """Return the names that edges bring with them: beside their files, or as ids in memory."""
    if isinstance(given, EdgeSource) and given.named:
        return open_names(names_beside(Folder(given.name)))
    return open_names(given.names) if isinstance(given, Graph) and given.names is not None else None


def _header(given: Any, settings: Settings, options: RunOptions) -> Header:
    """Return the header that describes the run in its store."""
    n_nodes = None if options.n_nodes is None else int(options.n_nodes)
    shards = None if options.shards is None else int(options.shards)
    name, mark, dtype = None, "", "float64"
    if isinstance(given, EdgeSource):
        name, mark, dtype = full_name(given.name), given.fingerprint, _weights(given, settings)
    return Header(settings, name, mark, dtype, n_nodes, shards, versions(), memory=given_bytes(options))


def _weights(source: EdgeSource, settings: Settings) -> str:
    """Return the dtype of the weights in the first state; the mean of float32 weights may not be a float32."""
    return "float64" if settings.duplicates == "mean" else source.weight_dtype


@contextmanager
def _new_store(store: Folder) -> Iterator[list[str]]:
    """Create a folder to begin a run in, and remove its content again if that fails before anything is committed."""
    existed = store.exists()
    refuse_taken_store(store)
    if store.local:
        try:
            make_folders(store.path)
            os.close(store.open_lock())
        except OSError as error:
            raise StoreError(not_writable_text(store, error)) from error
    undo: list[str] = []
    try:
        yield undo
    except (StoppedError, StoreInUseError):  # the run goes on from what is there, or it is another's
        raise
    except Exception:
        with suppress(StoreError, OSError):  # the server may be out of reach, or the disk read-only
            _undo(store, undo, existed)
        raise


def _undo(store: Folder, written: list[str], existed: bool) -> None:
    """Delete what a run has written, the header last: without it, no run could take or resume what is left."""
    if written and count_manifests(store) == 0:
        for folder in STORE_FOLDERS:
            remove_ours(store, folder)
        for name in (LOCK, *written):
            store.remove(name)
    if store.local and not existed and set(store.names()) <= {LOCK}:
        store.remove(LOCK)
        with suppress(OSError):  # another run has begun in it meanwhile
            os.rmdir(store.path)


def _begin_store(store: Folder, header: Header, names: GivenNames | None, limits: Limits) -> Header:
    """Make a folder the store of this run, unless it belongs to another; names that are known come first."""
    if names is None:
        _write_header(store, header)
        return header
    folder = given_names_folder()
    try:
        record = write_names(store, folder, names.batches(), name_sizes(limits))
        store.flush(record.file_names())
        header = replace(header, names=record)
        _write_header(store, header)
    except BaseException:
        store.remove(folder)
        if not store.names(NAMES):
            store.remove(NAMES)
        raise
    return header


def _write_header(store: Folder, header: Header) -> None:
    """Begin a run; raise if the folder belongs to another."""
    try:
        begun = write_header(store, header)
    except OSError as error:
        if is_disk_full(error):
            raise ResourceError(disk_full_text(store.url, "make room, or use another disk")) from error
        raise StoreError(not_writable_text(store, error)) from error
    if not begun:
        raise StoreError(taken_text(store))


def _is_spooled(given: Any) -> bool:
    """Whether edges are written to the store before they are read."""
    return isinstance(given, EdgeStream) or is_dask_frame(given)


def _spool(given: Any, store: Folder, scheduler: Scheduler, run: StoredRun) -> EdgeSource:
    """Write the partitions of a Dask DataFrame, or a stream, to the store, so that tasks can read them twice."""
    run.report(Event("load"))
    stream = isinstance(given, EdgeStream)
    try:
        with run.explained():
            if stream:
                given.write(store)
            else:
                scheduler.compute(spool_graph(given, store), lambda *_: None)
    except StoppedError as error:
        what = "stream of edges" if stream else "Dask DataFrame"
        if not is_disk_full(error.__cause__):
            raise ResourceError(f"{error}; the {what} is not completely written") from error
        remedy = f"make room and start again; the {what} is not completely written"
        raise ResourceError(disk_full_text(store.url, remedy)) from error
    return open_edges(f"{store.url}/{INPUT}")
