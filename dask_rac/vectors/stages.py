"""The stages of a graph of vectors: check, search, write, count components; what is done already is left out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_rac.config import Event, Progress, size_text
from dask_rac.errors import ResourceError
from dask_rac.graphs import single_task, spread
from dask_rac.planner import Budget
from dask_rac.store.bundles import bundles, read_bundle, read_json, write_bundle
from dask_rac.store.edgelist import edges_size
from dask_rac.store.files import Folder
from dask_rac.store.vectors import VectorSource
from dask_rac.vectors import balls, neighbours
from dask_rac.vectors.approximate import library
from dask_rac.vectors.check import Checked, check_span, united, view_of
from dask_rac.vectors.job import GROUP_EDGES, WORK, Edges, Job, Written, bundle, write_file
from dask_rac.vectors.plan import (
    EDGE_WEIGHT,
    FILE_EDGES,
    Request,
    Span,
    even_spans,
    even_steps,
    ids_of,
    knn_disk,
    knn_spans,
    near_spans,
    other_rows,
    refuse_large,
    steps_of,
    tree_spans,
    wants_tree,
)
from dask_rac.vectors.search import View
from dask_rac.workers import Scheduler

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


class Stages:
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
        neighbours.compile_kernels(self._request.kind, self._request.metric, self._source.dtype, self._source.sparse)
        job = self._job(self._check(), spans, tree)
        stages = {"knn": self._knn, "eps": self._eps, "complete": self._complete}
        written, recall = stages[self._request.kind](job)
        edges, dropped = sum(part.edges for part in written), sum(part.dropped for part in written)
        components, largest = self._components(edges)
        neighbours.forget(job.token)
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
        if request.method == "approximate":
            library()
            refuse_large(source, request.k, budget)
        spans = tree_spans(source, request.k, budget) if tree else knn_spans(source, request.k, budget)
        self._refuse_bytes(rows * request.k, knn_disk(rows, request.k, len(spans)))
        return spans, tree

    def _check(self) -> View:
        """Look at all vectors, or at what was found when that was done before."""
        metric, rows = self._request.metric, self._source.rows
        name = bundle("checked", 0)
        if name not in bundles(self._folder, f"{WORK}/checked"):
            values = max(1, int(self._budget.process / self._budget.threads / CHECKED_BYTES))
            items = [(self._source, values, *span) for span in even_spans(rows, 4 * self._budget.threads)]
            found = united(self._compute("vectors", check_span, items))
            view_of(found, rows, metric)
            known = {"whole": found.whole, "square": found.square, "largest": found.largest}
            arrays = {key: np.array(value) for key, value in known.items()}
            write_bundle(self._folder, name, arrays | ({} if found.total is None else {"total": found.total}))
        arrays = read_bundle(self._folder, name)
        numbers = float(arrays["square"]), float(arrays["largest"])
        return view_of(Checked(None, arrays.get("total"), bool(arrays["whole"]), *numbers), rows, metric)

    def _compute(
        self,
        stage: Any,
        function: Callable[..., Any],
        items: Sequence[tuple[Any, ...]],
        look: Callable[[Any], None] | None = None,
    ) -> list[Any]:
        """What tasks return; `look` sees each at once."""
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
            self._compute("neighbours", neighbours.tree_lists, self._missing("lists", each))
        else:
            self._search(job, each)
        steps = even_steps(job.nodes, max(1, FILE_EDGES // self._request.k))
        return self._write(job, neighbours.listed_edges, _files(steps)), recall

    def _search(self, job: Job, each: list[tuple[Any, ...]]) -> None:
        """The k nearest by products of all pairs."""
        count = len(each)
        pairs = [(job, a, b) for a in range(count) for b in range(a + 1, count)]
        self._compute("neighbours", neighbours.search_self, self._missing("self", each))
        self._compute("neighbours", neighbours.search_cross, self._missing("cross", pairs))
        self._compute("lists", neighbours.settle_lists, self._missing("lists", each))

    def _approximate(self, job: Job) -> float:
        """Most of the k nearest; gives the recall."""
        name = bundle("recall", 0)
        if name not in bundles(self._folder, f"{WORK}/recall"):
            (recall,) = self._compute("neighbours", neighbours.approximate_lists, [(job,)])
            write_bundle(self._folder, name, {"recall": np.array(recall)})
        return float(read_bundle(self._folder, name)["recall"])

    def _eps(self, job: Job) -> tuple[list[Written], None]:
        """All pairs in a ball: counted first."""
        each = [(job, number) for number in range(len(job.spans))]
        found = 0

        def refuse(count: int) -> None:
            nonlocal found
            found += count
            groups = -(-found // GROUP_EDGES) + len(job.spans)
            self._refuse_bytes(found, edges_size(found, groups, ids_of(job.nodes), EDGE_WEIGHT), "at least ")

        self._compute("neighbours", balls.find_near, self._missing("near", each), refuse)
        counts = balls.read_counts(self._folder, job.spans)
        found = 0
        refuse(int(counts.sum()))
        return self._write(job, balls.near_edges, _files(steps_of(counts, FILE_EDGES))), None

    def _complete(self, job: Job) -> tuple[list[Written], None]:
        """All pairs."""
        steps = steps_of(job.nodes - 1 - np.arange(job.nodes), FILE_EDGES)
        return self._write(job, balls.all_edges, _files(steps)), None

    def _write(
        self, job: Job, edges: Callable[[Job, int, int], Edges], files: Sequence[tuple[str, Span]]
    ) -> list[Written]:
        """Write all files of edges; what each holds is kept for whoever goes on."""
        names = set(self._folder.names())
        kept = {name: self._folder.exists(f"{WORK}/{name}.json") for name, _ in files if name in names}
        missing = [(name, span) for name, span in files if not kept.get(name)]
        items = [(job, edges, name, *span) for name, span in missing]
        self._compute("edges", write_file, items)
        return [Written(**read_json(self._folder, f"{WORK}/{name}.json")) for name, _ in files]

    def _components(self, edges: int) -> tuple[int, int]:
        """How many components there are, and how large the largest is."""
        rows = self._source.rows
        if edges == rows * (rows - 1) // 2:
            return 1, rows
        self._report(Event("components"))
        graph = single_task(neighbours.find_components, os.urandom(4).hex(), self._folder.url, rows)
        return self._options.scheduler.compute(graph, lambda *_: None)[neighbours.find_components.__name__][0]  # type: ignore[no-any-return]

    def _refuse_bytes(self, edges: int, disk: int, least: str = "") -> None:
        """Raise if edges do not fit where they are to go."""
        free, most = self._folder.free_bytes(), self._options.most_bytes
        held = edges * (2 * ids_of(self._source.rows).itemsize + EDGE_WEIGHT)
        text = f"{self._source.name}: {least}{edges:,} edges"
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


def _files(spans: Sequence[Span]) -> list[tuple[str, Span]]:
    """A name for the edges of each span of rows."""
    digits = len(str(len(spans) - 1))
    return [(f"part-{number:0{digits}}.parquet", span) for number, span in enumerate(spans)]
