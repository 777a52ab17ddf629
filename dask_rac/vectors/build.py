"""A graph of vectors from the outside: check, search, write, and go on where it was stopped.

The folder is `EDGES.partial` until all edges are there (on an object store EDGES itself, with a file `_incomplete`). In
it `work/header.json` says what is being made of what, and every task leaves a file in `work`: who asks for the same
graph again goes on with the tasks that have left none. At the end `work` goes, `_graph.json` tells what came out, and
the folder gets its name.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from hashlib import sha256
from time import perf_counter
from typing import Any

from dask_rac.config import Event, Progress
from dask_rac.errors import InputError, StoppedError, StoreError, StoreInUseError
from dask_rac.graphs import spread
from dask_rac.store.bundles import bundles
from dask_rac.store.edgelist import refuse_taken_folder
from dask_rac.store.edges import INCOMPLETE
from dask_rac.store.files import Folder
from dask_rac.store.vectors import (
    VectorSource,
    is_dask_array,
    open_parts,
    open_vectors,
    spool_vectors,
    whole_rows,
    write_part,
)
from dask_rac.vectors.job import WORK
from dask_rac.vectors.metrics import refuse_sparse
from dask_rac.vectors.plan import Request, check_request
from dask_rac.vectors.stages import GraphFacts, Options, Stages
from dask_rac.workers import Scheduler, Workers

FACTS = "_graph.json"
HEADER = f"{WORK}/header.json"


def build(vectors: Any, request: Request, target: Folder, options: Options, report: Progress) -> GraphFacts:
    """Write the edges of a graph into a new folder, or go on with it."""
    started = perf_counter()
    array = whole_rows(vectors) if is_dask_array(vectors) else None
    source = None if array is not None else open_vectors(vectors, options.columns)
    if source is not None and source.sparse:
        refuse_sparse(request.metric, source.name)
    check_request(request, vectors.shape[0] if source is None else source.rows, source.name if source else "the array")
    identity = _identity(request, _mark(vectors, source))
    if (finished := read_facts(target)) is not None and (target.local or not target.exists(INCOMPLETE)):
        _refuse_other(finished.identity, identity, target.url)
        return finished
    _refuse_inside(source, target)
    with _place(target) as folder, folder.locked():
        facts = read_facts(folder)
        if facts is not None:  # all was there but the name
            _refuse_other(facts.identity, identity, folder.url)
        else:
            _begin(folder, identity)
            options.scheduler.check(folder, source if source is not None and source.on_disk else None)
            with _resumable():
                report(Event("load"))
                if source is None or (not source.on_disk and isinstance(options.scheduler, Workers)):
                    source = _spooled(folder, source, array, options.scheduler)
                token = sha256(identity.encode()).hexdigest()
                facts = Stages(folder, source, request, options, report, token).run()
            facts = replace(facts, identity=identity, seconds=round(perf_counter() - started, 3))
            folder.write(FACTS, json.dumps(asdict(facts), indent=1).encode())
        folder.remove(WORK)
        folder.remove("lock")
        _finish(folder, target)
    return facts


def read_facts(folder: Folder) -> GraphFacts | None:
    """What a finished graph is, if one is there."""
    try:
        return GraphFacts(**json.loads(folder.read(FACTS)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError) as error:
        raise StoreError(f"{folder.at(FACTS)} cannot be read ({error}): the folder is not as it was written") from error


def _mark(vectors: Any, source: VectorSource | None) -> str:
    """What tells vectors from others: of a Dask array, its name."""
    return str(vectors.name) if source is None else source.fingerprint


def _identity(request: Request, mark: str) -> str:
    """What tells a graph from others."""
    told = {**asdict(request), "metric": request.metric.name}
    return json.dumps([told, mark], sort_keys=True)


def _refuse_inside(source: VectorSource | None, target: Folder) -> None:
    """Raise if edges would be put among the files that vectors are read from."""
    if source is not None and source.on_disk and target.local:
        inside = os.path.realpath(target.path)
        if inside.startswith(f"{os.path.realpath(os.path.expanduser(source.name))}/"):
            raise InputError(f"{target.url} is in the folder of the vectors, {source.name}: give another path")


@contextmanager
def _place(target: Folder) -> Iterator[Folder]:
    """Where to write until all is there; what was made in vain goes again."""
    refuse_taken_folder(target)
    folder = Folder(f"{target.path}.partial") if target.local else target
    fresh = not set(folder.names()) - {"lock"}
    if folder.is_file() or (not fresh and not folder.exists(HEADER) and not folder.exists(FACTS)):
        raise InputError(f"{folder.url} is there, and no graph on its way: delete it, or give another path")
    if folder.local:
        try:
            os.makedirs(folder.path, exist_ok=True)
        except OSError as error:
            raise InputError(f"{target.url} cannot be written: {error}; give a folder that can be made") from error
    try:
        yield folder
    except StoreInUseError:
        raise
    except BaseException:
        if fresh and not bundles(folder, f"{WORK}/checked"):  # nothing has come of it yet
            folder.remove("")
        raise


def _begin(folder: Folder, identity: str) -> None:
    """Make a folder this graph's, or see that it is."""
    if not folder.exists(HEADER):
        if not folder.local:
            folder.write(INCOMPLETE, b"")
        folder.write(HEADER, json.dumps({"identity": identity}).encode())
        return
    try:
        before = json.loads(folder.read(HEADER))["identity"]
    except (ValueError, KeyError, TypeError):
        before = "[{}, null]"
    _refuse_other(before, identity, folder.url)


def _refuse_other(before: str, now: str, place: str) -> None:
    """Raise if what is there is not the graph that is asked for."""
    if before == now:
        return
    (told, mark), (wanted, other) = json.loads(before), json.loads(now)
    differ = [name for name, value in wanted.items() if told.get(name) != value]
    differ = ["kind"] if "kind" in differ else differ
    changed = [f"{name} was {told.get(name)!r}, is {wanted[name]!r}" for name in differ]
    if mark != other:
        changed.append("the vectors are others")
    raise InputError(f"{place} is another graph's ({'; '.join(changed)}): delete it, or give another path")


def _finish(folder: Folder, target: Folder) -> None:
    """Give a folder its name."""
    if not target.local:
        target.remove(INCOMPLETE)
        return
    try:
        os.replace(folder.path, target.path)
    except OSError as error:
        raise InputError(f"{folder.path} is complete but cannot be renamed: {error}; rename it") from error


@contextmanager
def _resumable() -> Iterator[None]:
    """Say how to go on when somebody stops it, or the disk is full."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        stopped.add_note("what is done is kept; give the same again to go on")
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoppedError("the disk is full: make room, and give the same again to go on") from error
        raise


def _spooled(folder: Folder, source: VectorSource | None, array: Any, scheduler: Scheduler) -> VectorSource:
    """Vectors in memory, or in a Dask array, where all tasks can read them."""
    name = f"{WORK}/vectors"
    if source is not None:
        return spool_vectors(source, folder, name)
    if not folder.exists(f"{WORK}/spooled"):
        items = [(block, folder, name, number) for number, block in enumerate(array.to_delayed().ravel())]
        scheduler.compute(spread(write_part, "vectors", items), lambda *_: None)
        folder.write(f"{WORK}/spooled", b"")
    return open_parts(folder, name)
