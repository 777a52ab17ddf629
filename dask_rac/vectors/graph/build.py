"""Build a graph of vectors: check, search, write, and resume where an earlier attempt stopped.

The folder is `EDGES.partial` until all edges are written (on an object store EDGES itself, with a file `_incomplete`).
In it, `work/header.json` records the vectors and the requested graph: it is there from the first moment, and a folder
without it is not touched. Every task leaves a file in `work`. A second request for the same graph runs only the tasks
that have left no file. At the end `_graph.json` records the result, `work` is deleted, and the folder gets its final
name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from hashlib import sha256
from time import perf_counter
from typing import Any

from dask_rac.base.errors import InputError, StoppedError, StoreError, StoreInUseError
from dask_rac.base.events import Event, Listener
from dask_rac.base.names import GRAPH_FACTS, GRAPH_HEADER, INCOMPLETE, LOCK, WORK, is_temporary
from dask_rac.base.records import decoded, parse_json
from dask_rac.base.text import quoted
from dask_rac.edges.source import open_edges
from dask_rac.files.flushing import flush_tree
from dask_rac.files.folder import Folder
from dask_rac.files.full import explain_full
from dask_rac.files.npz import bundles
from dask_rac.files.output import continued, refuse_taken_folder, replace_file, unfinished
from dask_rac.tasks.scheduler import Scheduler
from dask_rac.tasks.task_graph import spread
from dask_rac.tasks.workers import Workers
from dask_rac.vectors.compare.metrics import METRICS, refuse_sparse
from dask_rac.vectors.graph.request import Request, check_request
from dask_rac.vectors.graph.stages import GraphFacts, Options, Stages
from dask_rac.vectors.sources.opening import (
    VectorSource,
    is_dask_array,
    open_parts,
    open_vectors,
    spool_vectors,
    whole_rows,
    write_part,
)


def build(vectors: Any, request: Request, target: Folder, options: Options, report: Listener) -> GraphFacts:
    """Write the edges of a graph into a new folder, or resume an unfinished one."""
    started = perf_counter()
    array = whole_rows(vectors) if is_dask_array(vectors) else None
    source = None if array is not None else _opened(vectors, options)
    if source is not None and source.sparse:
        refuse_sparse(request.metric, source.name)
    check_request(request, vectors.shape[0] if source is None else source.rows, source.name if source else "the array")
    identity = _identity(request, _mark(vectors, source))
    if (finished := read_facts(target)) is not None and (target.local or not target.exists(INCOMPLETE)):
        _refuse_other(finished.identity, identity, target.url)
        open_edges(target.url)  # raises if a file of edges is lost
        return finished
    _refuse_inside(source, target)
    with _working_folder(target, identity) as folder, folder.locked() as held:
        if held:
            _remove_left_over(folder)
        facts = read_facts(folder)
        if facts is not None:  # complete, but not yet renamed
            _refuse_other(facts.identity, identity, folder.url)
        else:
            _refuse_other(_recorded(folder), identity, folder.url)
            options.scheduler.check(folder, source if source is not None and source.on_disk else None)
            with _resumable(target):
                report(Event("load"))
                if source is None or (not source.on_disk and isinstance(options.scheduler, Workers)):
                    source = _spooled(folder, source, array, options.scheduler)
                token = sha256(identity.encode()).hexdigest()
                facts = Stages(folder, source, request, options, report, token).run()
            facts = replace(facts, identity=identity, seconds=round(perf_counter() - started, 3))
            replace_file(folder, GRAPH_FACTS, json.dumps(asdict(facts), indent=1).encode())
        folder.remove(WORK)
        folder.remove(LOCK)
    return facts


def _opened(vectors: Any, options: Options) -> VectorSource:
    """Open vectors, unless they are open already."""
    return vectors if isinstance(vectors, VectorSource) else open_vectors(vectors, options.columns)


def read_facts(folder: Folder) -> GraphFacts | None:
    """Read the facts of a finished graph; None if there is none."""
    try:
        facts = decoded(GraphFacts, parse_json(folder.read(GRAPH_FACTS)))
        _parts(facts.identity)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, IsADirectoryError) as error:
        raise StoreError(
            f"{folder.at(GRAPH_FACTS)} cannot be read ({error}): the folder was changed or damaged; build the graph "
            "again in another folder"
        ) from error
    return facts


def _mark(vectors: Any, source: VectorSource | None) -> str:
    """Return what identifies the vectors: the name of a Dask array, else a fingerprint."""
    return str(vectors.name) if source is None else source.fingerprint


def _identity(request: Request, mark: str) -> str:
    """Return what identifies a graph: the request and the vectors."""
    settings = {**asdict(request), "metric": request.metric.name}
    if not request.complements:  # the metric says it, and graphs of earlier versions do not
        del settings["weights"]
    return json.dumps([settings, mark], sort_keys=True)


def _refuse_inside(source: VectorSource | None, target: Folder) -> None:
    """Raise if the edges would be written into the folder that the vectors are read from."""
    if source is not None and source.on_disk and target.local:
        inside = os.path.realpath(target.path)
        if inside.startswith(f"{os.path.realpath(os.path.expanduser(source.name))}/"):
            raise InputError(f"{target.url} is inside the folder of the vectors, {source.name}: choose another path")


@contextmanager
def _working_folder(target: Folder, identity: str) -> Iterator[Folder]:
    """Give the folder to write to until the graph is complete; delete it on failure if it holds no work yet."""
    if target.local or not target.exists(INCOMPLETE):
        refuse_taken_folder(target)
    folder = unfinished(target)

    def mark(new: Folder) -> None:
        new.write(GRAPH_HEADER, json.dumps({"identity": identity}).encode())

    def keep(error: BaseException) -> bool:
        in_use = isinstance(error, StoreInUseError)
        return in_use or bool(bundles(folder, f"{WORK}/checked")) or folder.exists(GRAPH_FACTS)

    with continued(target, mark, keep):
        yield folder


def _remove_left_over(folder: Folder) -> None:
    """Delete what was being written when an earlier attempt was killed; it would become part of the graph."""
    for name in folder.names():
        if is_temporary(name):
            folder.remove(name)


def _recorded(folder: Folder) -> str:
    """Return what the header of an unfinished graph says that it is."""
    try:
        before = parse_json(folder.read(GRAPH_HEADER))["identity"]
        _parts(before)
    except (ValueError, KeyError, TypeError, IsADirectoryError):
        return "[{}, null]"
    return str(before)


def _parts(identity: Any) -> tuple[dict[str, Any], str | None]:
    """Return what an identity is made of: settings, and what identifies the vectors; raise ValueError if it is not."""
    parts = parse_json(identity) if isinstance(identity, str) else None
    if not isinstance(parts, list) or len(parts) != 2 or not isinstance(parts[0], dict):
        raise ValueError("it does not say which graph this is")
    settings, mark = parts
    return settings, mark


def _refuse_other(before: str, now: str, place: str) -> None:
    """Raise if the graph at `place` is not the requested one."""
    if before == now:
        return
    (recorded, mark), (wanted, other) = _parts(before), _parts(now)
    recorded, wanted = _with_weights(recorded), _with_weights(wanted)
    differ = [name for name, value in wanted.items() if recorded.get(name) != value]
    differ = ["kind"] if "kind" in differ else differ
    changed = [f"{name} was {quoted(recorded.get(name))}, is now {quoted(wanted[name])}" for name in differ]
    if mark != other:
        changed.append("the vectors differ")
    raise InputError(f"{place} belongs to another graph ({'; '.join(changed)}): delete it, or choose another path")


def _with_weights(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a graph with its kind of weights, which they have only if the metric does not say it."""
    metric = METRICS.get(settings.get("metric", ""))
    return settings if metric is None else {**settings, "weights": settings.get("weights", metric.weights)}


@contextmanager
def _resumable(target: Folder) -> Iterator[None]:
    """Explain how to resume after an interrupt, or when the disk is full or fails."""
    again = "run it again with the same arguments to continue"
    try:
        with explain_full(target.url, f"make room, then {again}", StoppedError):
            yield
    except KeyboardInterrupt as stopped:
        stopped.add_note(f"finished work is kept; {again}")
        raise
    except OSError as error:
        if error.errno is None:  # not of a file
            raise
        raise StoreError(f"{target.url} cannot be written or read: {error}; check its disk, then {again}") from error


def _spooled(folder: Folder, source: VectorSource | None, array: Any, scheduler: Scheduler) -> VectorSource:
    """Write vectors from memory or a Dask array to the folder, where all tasks can read them."""
    name = f"{WORK}/vectors"
    if source is not None:
        return spool_vectors(source, folder, name)
    if not folder.exists(f"{WORK}/spooled"):
        items = [(block, folder, name, number) for number, block in enumerate(array.to_delayed().ravel())]
        scheduler.compute(spread(write_part, "vectors", items), lambda *_: None)
        if folder.local and folder.durable:
            flush_tree(folder.at(name))  # a part that is lost would not be missed
        folder.write(f"{WORK}/spooled", b"")
    return open_parts(folder, name)
