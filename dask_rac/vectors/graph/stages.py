"""The stages of building a graph of vectors: check, search, write, count components; finished tasks are skipped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dask_rac.base.errors import ResourceError
from dask_rac.base.events import Event, Listener
from dask_rac.base.ids import edge_id_dtype
from dask_rac.base.names import WORK, part_name
from dask_rac.base.records import decoded
from dask_rac.base.spans import Span, batches, even_spans, steps_of
from dask_rac.base.text import size_text
from dask_rac.edges.writing import edges_size
from dask_rac.files.folder import Folder
from dask_rac.files.npz import bundles, read_bundle, read_json, write_bundle
from dask_rac.files.output import replace_file
from dask_rac.kernels.jit import compiling
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.scheduler import Scheduler
from dask_rac.tasks.task_graph import single_task, spread
from dask_rac.vectors.compare.check import Checked, check_span, combined, view_of
from dask_rac.vectors.compare.search import View
from dask_rac.vectors.graph import balls, neighbours
from dask_rac.vectors.graph.approximate import library
from dask_rac.vectors.graph.job import Edges, GraphJob, Written, bundle, write_file
from dask_rac.vectors.graph.plan import (
    EDGE_WEIGHT,
    GraphLimits,
    knn_disk,
    knn_spans,
    near_spans,
    other_rows,
    refuse_large,
    tree_is_faster,
    tree_spans,
)
from dask_rac.vectors.graph.request import Request
from dask_rac.vectors.sources.opening import VectorSource

CHECKED_BYTES = 48  # per value while it is checked
KEPT_DISK = 0.25  # share of the free disk that pairs may take before their number is known


@dataclass(frozen=True)
class GraphFacts:
    """What is known of a finished graph; written to `_graph.json`."""

    kind: str
    metric: str
    nodes: int
    edges: int
    components: int
    largest: int
    """Nodes in the largest component."""
    method: str
    """How neighbours were found: products, tree, or approximate."""
    recall: float | None = None
    """Recall of an approximate search, measured on a sample."""
    dropped: int = 0
    """Pairs left out because their similarity is negative."""
    seconds: float = 0.0
    identity: str = ""
    """Identifies this graph: the vectors and the request."""
    files: int | None = None
    """Number of files of edges; None if the graph was built by a version that did not record it."""
    weights: str | None = None
    """Whether the edges have distances or similarities; None in graphs of a version that did not record it."""

    def advice(self) -> str | None:
        """Return advice for a graph with several components, None for a connected one."""
        if self.components <= 1:
            return None
        wider = {"knn": "a larger k", "eps": "a larger eps"}.get(self.kind, "another metric")
        return (
            f"the graph has {self.components:,} components, the largest with {self.largest:,} of {self.nodes:,} nodes: "
            f"its clustering is a forest, one tree per component; {wider} connects more"
        )


@dataclass(frozen=True)
class Options:
    """Settings that affect how a graph is built, but not its edges."""

    scheduler: Scheduler
    budget: Budget
    columns: Sequence[str] | None = None
    most_bytes: float | None = None
    """Limit on the size of all edges, where they must also fit in memory."""
    limits: GraphLimits = field(default_factory=GraphLimits)


class Stages:
    """A graph that is being built."""

    def __init__(
        self,
        folder: Folder,
        source: VectorSource,
        request: Request,
        options: Options,
        report: Listener,
        token: str,
    ) -> None:
        self._folder, self._source, self._request, self._token = folder, source, request, token
        self._budget, self._limits, self._options, self._report = options.budget, options.limits, options, report

    def run(self) -> GraphFacts:
        """Run all stages in turn."""
        spans, tree = self._planned()
        request, source = self._request, self._source
        with compiling(partial(self._report, Event("compile"))):
            neighbours.compile_graph_kernels(request.kind, request.metric, source.dtype, source.sparse)
        job = self._job(self._check(), spans, tree)
        stages = {"knn": self._knn, "eps": self._eps, "complete": self._complete}
        written, recall = stages[request.kind](job)
        edges, dropped = sum(part.edges for part in written), sum(part.dropped for part in written)
        components, largest = self._components(edges)
        neighbours.forget_graph(job.token)
        facts = request.kind, request.metric.name, source.rows, edges, components, largest
        method = "approximate" if recall is not None else "tree" if job.tree else "products"
        return GraphFacts(*facts, method, recall, dropped, files=len(written), weights=request.weights)

    def _planned(self) -> tuple[list[Span], bool]:
        """Return the spans that tasks work on, and whether to use a tree; raise if memory or disk do not suffice."""
        source, request, budget, limits = self._source, self._request, self._budget, self._limits
        rows, ids = source.rows, edge_id_dtype(source.rows)
        if request.kind == "complete":
            total = rows * (rows - 1) // 2
            self._refuse_bytes(total, edges_size(total, -(-total // limits.group_edges), ids, EDGE_WEIGHT))
            other_rows(source, budget, limits)
            return [(0, rows)], False
        tree = request.method == "exact" and tree_is_faster(source, request.metric, budget, limits)
        if request.kind == "eps":
            return near_spans(source, budget, limits), tree
        if request.method == "approximate":
            library()
            refuse_large(source, request.k, budget)
        spans = (tree_spans if tree else knn_spans)(source, request.k, budget, limits)
        self._refuse_bytes(rows * request.k, knn_disk(rows, request.k, len(spans)))
        return spans, tree

    def _check(self) -> View:
        """Check all vectors, or read the result of an earlier check."""
        metric, rows = self._request.metric, self._source.rows
        name = bundle("checked", 0)
        if name not in bundles(self._folder, f"{WORK}/checked"):
            values = max(1, int(self._budget.process / self._budget.threads / CHECKED_BYTES))
            items = [(self._source, values, *span) for span in even_spans(rows, 4 * self._budget.threads)]
            found = combined(self._compute("vectors", check_span, items))
            view_of(found, rows, metric, self._limits.compare)
            known = {"whole": found.whole, "square": found.square, "largest": found.largest}
            arrays = {key: np.array(value) for key, value in known.items()}
            write_bundle(self._folder, name, arrays | ({} if found.total is None else {"total": found.total}))
        arrays = read_bundle(self._folder, name)
        numbers = float(arrays["square"]), float(arrays["largest"])
        checked = Checked(None, arrays.get("total"), bool(arrays["whole"]), *numbers)
        return view_of(checked, rows, metric, self._limits.compare)

    def _compute(
        self,
        stage: Any,
        function: Callable[..., Any],
        items: Sequence[tuple[Any, ...]],
        look: Callable[[Any], None] | None = None,
    ) -> list[Any]:
        """Run tasks and return their results; `look` receives each as soon as it is there."""
        done = 0

        def watch(_: str, result: Any) -> None:
            nonlocal done
            done += 1
            if look is not None:
                look(result)
            self._report(Event(stage, done=done, total=len(items)))

        self._report(Event(stage, total=len(items)))
        if not items:
            return []
        results = self._options.scheduler.compute(spread(function, os.urandom(4).hex(), items), watch)
        return results[function.__name__]

    def _missing(self, kind: str, items: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return the tasks that have left no file yet."""
        done = bundles(self._folder, f"{WORK}/{kind}")
        return [item for item in items if bundle(kind, *item[1:]) not in done]

    def _job(self, view: View, spans: Sequence[Span], tree: bool) -> GraphJob:
        """Return what tasks receive; the spans of an unfinished graph are kept."""
        if self._folder.exists(f"{WORK}/spans.json"):
            spans, tree = read_json(self._folder, f"{WORK}/spans.json", _decode_spans)
        else:
            # On disk before any file that depends on it: another attempt may choose other spans.
            replace_file(self._folder, f"{WORK}/spans.json", json.dumps({"spans": list(spans), "tree": tree}).encode())
        budget, limits = self._budget, self._limits
        others = other_rows(self._source, budget, limits)
        kept = max(1, int(0.5 * budget.process / budget.threads / limits.kept_bytes))
        free = self._folder.free_bytes()
        if free is not None:
            kept = min(kept, int(KEPT_DISK * free / len(spans) / (EDGE_WEIGHT + 8)))
        facts = self._source, view, self._request, tuple(spans), tree
        return GraphJob(self._folder, self._token, *facts, others, kept, budget.threads, limits)

    def _knn(self, job: GraphJob) -> tuple[list[Written], float | None]:
        """Build a graph of the k nearest neighbours."""
        recall = None
        each = [(job, number) for number in range(len(job.spans))]
        if self._request.method == "approximate":
            recall = self._approximate(job)
        elif job.tree:
            self._compute("neighbours", neighbours.tree_lists, self._missing("lists", each))
        else:
            self._search(job, each)
        steps = list(batches(0, job.nodes, max(1, self._limits.file_edges // self._request.k)))
        return self._write(job, neighbours.listed_edges, _files(steps)), recall

    def _search(self, job: GraphJob, each: list[tuple[Any, ...]]) -> None:
        """Find the k nearest with products of all pairs."""
        count = len(each)
        pairs = [(job, a, b) for a in range(count) for b in range(a + 1, count)]
        self._compute("neighbours", neighbours.search_self, self._missing("self", each))
        self._compute("neighbours", neighbours.search_cross, self._missing("cross", pairs))
        self._compute("lists", neighbours.settle_lists, self._missing("lists", each))

    def _approximate(self, job: GraphJob) -> float:
        """Find most of the k nearest, and return the recall."""
        name = bundle("recall", 0)
        if name not in bundles(self._folder, f"{WORK}/recall"):
            (recall,) = self._compute("neighbours", neighbours.approximate_lists, [(job,)])
            write_bundle(self._folder, name, {"recall": np.array(recall)})
        return float(read_bundle(self._folder, name)["recall"])

    def _eps(self, job: GraphJob) -> tuple[list[Written], None]:
        """Build a graph of all pairs within eps; they are counted before any edge is written."""
        each = [(job, number) for number in range(len(job.spans))]
        found = 0

        def refuse(count: int) -> None:
            nonlocal found
            found += count
            groups = -(-found // self._limits.group_edges) + len(job.spans)
            self._refuse_bytes(found, edges_size(found, groups, edge_id_dtype(job.nodes), EDGE_WEIGHT), "at least ")

        self._compute("neighbours", balls.find_near, self._missing("near", each), refuse)
        counts = balls.read_counts(self._folder, job.spans)
        found = 0
        refuse(int(counts.sum()))
        return self._write(job, balls.near_edges, _files(steps_of(counts, self._limits.file_edges))), None

    def _complete(self, job: GraphJob) -> tuple[list[Written], None]:
        """Build the graph of all pairs."""
        steps = steps_of(job.nodes - 1 - np.arange(job.nodes), self._limits.file_edges)
        return self._write(job, balls.all_edges, _files(steps)), None

    def _write(
        self, job: GraphJob, edges: Callable[[GraphJob, int, int], Edges], files: Sequence[tuple[str, Span]]
    ) -> list[Written]:
        """Write all files of edges, with a record of what each holds for a resumed attempt."""
        names = set(self._folder.names())
        kept = {name: self._folder.exists(f"{WORK}/{name}.json") for name, _ in files if name in names}
        missing = [(name, span) for name, span in files if not kept.get(name)]
        items = [(job, edges, name, *span) for name, span in missing]
        self._compute("edges", write_file, items)
        decode = partial(decoded, Written)
        return [read_json(self._folder, f"{WORK}/{name}.json", decode) for name, _ in files]

    def _components(self, edges: int) -> tuple[int, int]:
        """Return the number of components, and the number of nodes in the largest."""
        rows = self._source.rows
        if edges == rows * (rows - 1) // 2:
            return 1, rows
        self._report(Event("components"))
        graph = single_task(neighbours.find_components, os.urandom(4).hex(), self._folder.url, rows)
        return self._options.scheduler.compute(graph, lambda *_: None)[neighbours.find_components.__name__][0]  # type: ignore[no-any-return]

    def _refuse_bytes(self, edges: int, disk: int, least: str = "") -> None:
        """Raise if the edges exceed the allowed memory or the free disk."""
        free, most = self._folder.free_bytes(), self._options.most_bytes
        held = edges * (2 * edge_id_dtype(self._source.rows).itemsize + EDGE_WEIGHT)
        text = f"{self._source.name}: {least}{edges:,} edges"
        fewer = {"knn": "a smaller k", "eps": "a smaller eps", "complete": "an eps ball or the k nearest neighbours"}
        if most is not None and held > most:
            raise ResourceError(
                f"{text} take {size_text(held)} of memory, and {size_text(most)} may be used: give store= to write "
                f"them to disk, or use {fewer[self._request.kind]}"
            )
        if free is not None and disk > free:
            raise ResourceError(
                f"{text} take {size_text(disk)} of disk, and {size_text(free)} are free: make room, give a path on "
                f"another disk, or use {fewer[self._request.kind]}"
            )


def _files(spans: Sequence[Span]) -> list[tuple[str, Span]]:
    """Name the file of edges of each span of rows."""
    digits = len(str(len(spans) - 1))
    return [(part_name(number, digits), span) for number, span in enumerate(spans)]


def _decode_spans(fields: Any) -> tuple[list[Span], bool]:
    """Return the spans of vectors as they were written, and whether a k-d tree is used."""
    return [(int(first), int(last)) for first, last in fields["spans"]], bool(fields["tree"])
