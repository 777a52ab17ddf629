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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from time import perf_counter
from typing import Any

import numpy as np

from dask_rac.config import Event, Progress, size_text
from dask_rac.errors import InputError, ResourceError, StoppedError, StoreError, StoreInUseError
from dask_rac.graphs import single_task, spread
from dask_rac.planner import Budget
from dask_rac.store.bundles import bundles, read_bundle, read_json, write_bundle
from dask_rac.store.edgelist import edges_size, refuse_taken_folder
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
from dask_rac.vectors import tasks
from dask_rac.vectors.check import Checked, check_span, united, view_of
from dask_rac.vectors.metrics import refuse_sparse
from dask_rac.vectors.plan import (
    EDGE_WEIGHT,
    FILE_EDGES,
    Request,
    Span,
    check_request,
    even_spans,
    even_steps,
    ids_of,
    knn_disk,
    knn_spans,
    near_spans,
    other_rows,
    steps_of,
    tree_spans,
    wants_tree,
)
from dask_rac.vectors.search import View
from dask_rac.vectors.tasks import GROUP_EDGES, WORK, Job, Written, bundle
from dask_rac.workers import Scheduler, Workers

FACTS = "_graph.json"
HEADER = f"{WORK}/header.json"
KEPT_BYTES = 48  # of a pair that a task keeps, with what it takes to put them in order
CHECKED_BYTES = 48  # of a value while it is looked at
KEPT_DISK = 0.25  # of the free disk that pairs may take before their number is known


@dataclass(frozen=True)
class GraphFacts:
    """What came out."""

    kind: str
    metric: str
    nodes: int
    edges: int
    components: int
    largest: int
    """Nodes of the largest component."""
    method: str
    """How neighbours were found: products, tree, or approximate."""
    recall: float | None = None
    """Of an approximate search, measured on a sample."""
    dropped: int = 0
    """Pairs that would have been edges but for a negative similarity."""
    seconds: float = 0.0
    identity: str = ""
    """What tells this graph from others: the vectors, and what was asked for."""

    def advice(self) -> str | None:
        """What to say of a graph that is in pieces."""
        if self.components <= 1:
            return None
        wider = {"knn": "a larger k", "eps": "a larger eps"}.get(self.kind, "another metric")
        return (
            f"the graph has {self.components:,} components, the largest with {self.largest:,} of {self.nodes:,} nodes: "
            f"its clustering is a forest, a tree for each; {wider} connects more"
        )


@dataclass(frozen=True)
class Options:
    """How a graph is made, beside what it is."""

    scheduler: Scheduler
    budget: Budget
    columns: Sequence[str] | None = None
    most_bytes: float | None = None
    """Of all edges, where they must fit somewhere beside the disk."""


def build(vectors: Any, request: Request, target: Folder, options: Options, report: Progress) -> GraphFacts:
    """Write the edges of a graph into a new folder, or go on with it."""
    started = perf_counter()
    array = whole_rows(vectors) if is_dask_array(vectors) else None
    source = None if array is not None else open_vectors(vectors, options.columns)
    if source is not None and source.sparse:
        refuse_sparse(request.metric, source.name)
    check_request(request, vectors.shape[0] if source is None else source.rows, source.name if source else "the array")
    identity = _identity(request, _mark(vectors, source))
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
                facts = _Build(folder, source, request, options, report, token).run()
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


def refuse_other(vectors: Any, request: Request, columns: Sequence[str] | None, facts: GraphFacts, store: str) -> None:
    """Raise if a finished graph is not the one that is asked for."""
    source = None if is_dask_array(vectors) else open_vectors(vectors, columns)
    _refuse_other(facts.identity, _identity(request, _mark(vectors, source)), store)


def _mark(vectors: Any, source: VectorSource | None) -> str:
    """What tells vectors from others: of a Dask array, its name."""
    return str(vectors.name) if source is None else source.fingerprint


def _identity(request: Request, mark: str) -> str:
    """What tells a graph from others."""
    told = {**asdict(request), "metric": request.metric.name}
    return json.dumps([told, mark], sort_keys=True)


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


class _Build:
    """A graph on its way."""

    def __init__(
        self,
        folder: Folder,
        source: VectorSource,
        request: Request,
        options: Options,
        report: Progress,
        token: str,
    ) -> None:
        self._folder, self._source, self._request, self._token = folder, source, request, token
        self._budget, self._options, self._report = options.budget, options, report

    def run(self) -> GraphFacts:
        """All stages in turn."""
        spans, tree = self._planned()
        self._report(Event("compile"))
        tasks.compile_kernels(self._request.kind, self._request.metric, self._source.dtype, self._source.sparse)
        job = self._job(self._check(), spans, tree)
        stages = {"knn": self._knn, "eps": self._eps, "complete": self._complete}
        written, recall = stages[self._request.kind](job)
        edges, dropped = sum(part.edges for part in written), sum(part.dropped for part in written)
        components, largest = self._components(edges)
        tasks.forget(job.token)
        facts = self._request.kind, self._request.metric.name, self._source.rows, edges, components, largest
        method = "approximate" if recall is not None else "tree" if job.tree else "products"
        return GraphFacts(*facts, method, recall, dropped)

    def _planned(self) -> tuple[list[Span], bool]:
        """The spans that tasks work on, and whether a tree helps; raises if memory or disk do not suffice."""
        source, request, budget = self._source, self._request, self._budget
        rows, ids = source.rows, ids_of(source.rows)
        if request.kind == "complete":
            total = rows * (rows - 1) // 2
            self._refuse_bytes(total, edges_size(total, -(-total // GROUP_EDGES), ids, EDGE_WEIGHT))
            other_rows(source, budget)
            return [(0, rows)], False
        tree = request.method == "exact" and wants_tree(source, request.metric, budget)
        if request.kind == "eps":
            return near_spans(source, budget), tree
        spans = tree_spans(source, request.k, budget) if tree else knn_spans(source, request.k, budget)
        self._refuse_bytes(rows * request.k, knn_disk(rows, request.k, len(spans)))
        return spans, tree

    def _check(self) -> View:
        """Look at all vectors, or at what was found when that was done before."""
        metric, rows = self._request.metric, self._source.rows
        name = bundle("checked", 0)
        if name not in bundles(self._folder, f"{WORK}/checked"):
            values = max(1, int(self._budget.process / self._budget.threads / CHECKED_BYTES))
            items = [(self._source, metric, values, *span) for span in even_spans(rows, 4 * self._budget.threads)]
            found = united(self._compute("vectors", check_span, items))
            view_of(found, rows, metric)
            known = {"whole": found.whole, "square": found.square, "largest": found.largest}
            arrays = {key: np.array(value) for key, value in known.items()}
            write_bundle(self._folder, name, arrays | ({} if found.total is None else {"total": found.total}))
        arrays = read_bundle(self._folder, name)
        numbers = float(arrays["square"]), float(arrays["largest"])
        return view_of(Checked(None, arrays.get("total"), bool(arrays["whole"]), *numbers), rows, metric)

    def _compute(self, stage: Any, function: Callable[..., Any], items: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What tasks return."""
        done = 0

        def watch(*_: Any) -> None:
            nonlocal done
            done += 1
            self._report(Event(stage, done=done, total=len(items)))

        self._report(Event(stage, total=len(items)))
        if not items:
            return []
        results = self._options.scheduler.compute(spread(function, os.urandom(4).hex(), items), watch)
        return results[function.__name__]

    def _missing(self, kind: str, items: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The tasks that have left no file."""
        done = bundles(self._folder, f"{WORK}/{kind}")
        return [item for item in items if bundle(kind, *item[1:]) not in done]

    def _job(self, view: View, spans: Sequence[Span], tree: bool) -> Job:
        """What tasks are told; spans stay what they were when it began."""
        if self._folder.exists(f"{WORK}/spans.json"):
            plan = read_json(self._folder, f"{WORK}/spans.json")
            spans, tree = [(int(a), int(b)) for a, b in plan["spans"]], bool(plan["tree"])
        else:
            self._folder.write(f"{WORK}/spans.json", json.dumps({"spans": list(spans), "tree": tree}).encode())
        budget = self._budget
        others = other_rows(self._source, budget)
        kept = max(1, int(0.5 * budget.process / budget.threads / KEPT_BYTES))
        free = self._folder.free_bytes()
        if free is not None:
            kept = min(kept, int(KEPT_DISK * free / len(spans) / (EDGE_WEIGHT + 8)))
        facts = self._source, view, self._request, tuple(spans), tree
        return Job(self._folder.url, self._token, *facts, others, kept, budget.threads)

    def _knn(self, job: Job) -> tuple[list[Written], float | None]:
        """k nearest neighbours."""
        recall = None
        each = [(job, number) for number in range(len(job.spans))]
        if self._request.method == "approximate":
            recall = self._approximate(job)
        elif job.tree:
            self._compute("neighbours", tasks.tree_lists, self._missing("lists", each))
        else:
            self._search(job, each)
        steps = even_steps(job.nodes, max(1, FILE_EDGES // self._request.k))
        return self._write(job, tasks.write_lists, _files(steps)), recall

    def _search(self, job: Job, each: list[tuple[Any, ...]]) -> None:
        """The k nearest by products of all pairs."""
        count = len(each)
        pairs = [(job, a, b) for a in range(count) for b in range(a + 1, count)]
        self._compute("neighbours", tasks.search_self, self._missing("self", each))
        self._compute("neighbours", tasks.search_cross, self._missing("cross", pairs))
        self._compute("lists", tasks.settle_lists, self._missing("lists", each))

    def _approximate(self, job: Job) -> float:
        """Most of the k nearest; gives the recall."""
        name = bundle("recall", 0)
        if name not in bundles(self._folder, f"{WORK}/recall"):
            (recall,) = self._compute("neighbours", tasks.approximate_lists, [(job,)])
            write_bundle(self._folder, name, {"recall": np.array(recall)})
        return float(read_bundle(self._folder, name)["recall"])

    def _eps(self, job: Job) -> tuple[list[Written], None]:
        """All pairs in a ball: counted first."""
        each = [(job, number) for number in range(len(job.spans))]
        self._compute("neighbours", tasks.find_near, self._missing("near", each))
        counts = tasks.read_counts(self._folder, job.spans)
        total = int(counts.sum())
        groups = -(-total // GROUP_EDGES) + len(job.spans)
        self._refuse_bytes(total, edges_size(total, groups, ids_of(job.nodes), EDGE_WEIGHT))
        return self._write(job, tasks.write_near, _files(steps_of(counts, FILE_EDGES))), None

    def _complete(self, job: Job) -> tuple[list[Written], None]:
        """All pairs."""
        steps = steps_of(job.nodes - 1 - np.arange(job.nodes), FILE_EDGES)
        return self._write(job, tasks.write_all, _files(steps)), None

    def _write(self, job: Job, function: Callable[..., Written], files: Sequence[tuple[str, Span]]) -> list[Written]:
        """Write all files of edges; what each holds is kept for whoever goes on."""
        names = set(self._folder.names())
        kept = {name: self._folder.exists(f"{WORK}/{name}.json") for name, _ in files if name in names}
        missing = [(name, span) for name, span in files if not kept.get(name)]
        items = [(job, function.__name__, name, *span) for name, span in missing]
        self._compute("edges", write_file, items)
        return [Written(**read_json(self._folder, f"{WORK}/{name}.json")) for name, _ in files]

    def _components(self, edges: int) -> tuple[int, int]:
        """How many components there are, and how large the largest is."""
        rows = self._source.rows
        if edges == rows * (rows - 1) // 2:
            return 1, rows
        self._report(Event("components"))
        graph = single_task(tasks.find_components, os.urandom(4).hex(), self._folder.url, rows)
        return self._options.scheduler.compute(graph, lambda *_: None)[tasks.find_components.__name__][0]  # type: ignore[no-any-return]

    def _refuse_bytes(self, edges: int, disk: int) -> None:
        """Raise if edges do not fit where they are to go."""
        free, most = self._folder.free_bytes(), self._options.most_bytes
        held = edges * (2 * ids_of(self._source.rows).itemsize + EDGE_WEIGHT)
        text = f"{self._source.name}: {edges:,} edges"
        fewer = {"knn": "a smaller k", "eps": "a smaller eps", "complete": "an eps ball or the k nearest neighbours"}
        if most is not None and held > most:
            raise ResourceError(
                f"{text} take {size_text(held)} of memory, and {size_text(most)} may be used: give store= to have them "
                f"on a disk, or use {fewer[self._request.kind]}"
            )
        if free is not None and disk > free:
            raise ResourceError(
                f"{text} take {size_text(disk)} of disk, and {size_text(free)} are free: make room, give a path on "
                f"another disk, or use {fewer[self._request.kind]}"
            )


def write_file(job: Job, function: str, name: str, first: int, last: int) -> None:
    """Write a file of edges, and then what it holds."""
    written: Written = getattr(tasks, function)(job, name, first, last)
    job.folder.write(f"{WORK}/{name}.json", json.dumps(asdict(written)).encode())


def _files(spans: Sequence[Span]) -> list[tuple[str, Span]]:
    """A name for the edges of each span of rows."""
    digits = len(str(len(spans) - 1))
    return [(f"part-{number:0{digits}}.parquet", span) for number, span in enumerate(spans)]
