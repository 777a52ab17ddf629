"""What tasks do on the way from vectors to edges: each reads spans of vectors, and leaves one file.

k nearest neighbours, by products of all pairs:

1. `search_self`: the k nearest of each vector within its span; they bound those elsewhere.
2. `search_cross`: of two spans those nearer than that, for both.
3. `settle_lists`: the k nearest of each vector of a span, out of all that was found.

`tree_lists` or `approximate_lists` take the place of these three. Then

4. `write_lists`: edges. Of two vectors that have each other among their nearest only the first writes the edge; the
   second knows without looking into the other's list, as that goes as far as its last neighbour and no further.

Balls: `find_near` counts the pairs of a span and keeps them if they are not too many, `write_near` writes them, or
looks for them once more. `write_all` writes all pairs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.kernels.lists import (
    component_sizes,
    join_ends,
    mark_listed,
    mark_returned,
    new_parents,
    pick_edges,
    rank_candidates,
    unite_lists,
)
from dask_rac.kernels.pairs import weigh_later
from dask_rac.store.bundles import read_bundle, write_bundle
from dask_rac.store.edgelist import NewFolder, row_groups
from dask_rac.store.edges import BATCH_ROWS, open_edges
from dask_rac.store.files import Folder
from dask_rac.store.vectors import VectorSource
from dask_rac.vectors.approximate import approximate_neighbours
from dask_rac.vectors.blas import one_core
from dask_rac.vectors.metrics import Metric
from dask_rac.vectors.plan import Request, Span, ids_of, steps_of
from dask_rac.vectors.search import Bounds, Found, Near, Side, View, as_points, near, prepare, search
from dask_rac.vectors.trees import forget_tree, shared_tree, tree_near, tree_search

WORK = "work"
GROUP_EDGES = 2**20
FLOODED = 8  # weighed pairs for each neighbour wanted: then scores of float32 tell too little
SAMPLE = 1_000  # vectors whose neighbours are searched exactly, to measure recall

_bounds: dict[str, Bounds] = {}
_reading = threading.Lock()


@dataclass(frozen=True)
class Job:
    """What all tasks of a graph are told."""

    url: str
    """Of the folder that is being written."""
    token: str
    """What tells this graph from others."""
    source: VectorSource
    view: View
    request: Request
    spans: tuple[Span, ...]
    tree: bool
    """Whether a tree finds neighbours."""
    others: int
    """Rows of the other side that are read at a time."""
    kept: int
    """Pairs that a task may keep."""
    threads: int
    """Of a process."""

    @property
    def folder(self) -> Folder:
        """The folder that is being written."""
        return Folder(self.url)

    @property
    def nodes(self) -> int:
        """The vectors."""
        return self.source.rows

    def side(self, span: Span, view: View | None = None) -> Side:
        """A span of vectors, ready to be compared."""
        return prepare(self.source.read(*span), span[0], view or self.view)


@dataclass(frozen=True)
class Written:
    """What a task has written."""

    edges: int
    dropped: int = 0
    """Pairs left out because their similarity is negative."""


def bundle(kind: str, *numbers: int) -> str:
    """The name of what a task leaves."""
    return f"{WORK}/{kind}/{'-'.join(f'{number:05d}' for number in numbers)}"


@cache
def compile_kernels(kind: str, metric: Metric, dtype: str, sparse: bool) -> None:
    """Have the kernels compiled that a graph takes, or loaded from the cache."""
    few = np.eye(3, 2, dtype=dtype) + 1
    block: Any = sp.csr_array(few) if sparse else few
    view = View(metric, "float32", False, None)
    one, two = prepare(block, 0, view), prepare(block, 3, view)
    if kind == "knn":
        search(one, two, 1)
    elif kind == "eps":
        list(near(one, two, 1.0, False))
    else:
        weigh_later(one.points, two.points, (0, 3, 6), np.arange(3) * 3, metric.code, np.empty(20))


def search_self(job: Job, number: int) -> None:
    """The k nearest of each vector in its own span."""
    with one_core():
        found, _, weighed = search(job.side(job.spans[number]), None, job.request.k)
    _write_found(job, bundle("self", number), found, weighed=np.array(weighed))


def _write_found(job: Job, name: str, found: Found, **more: NDArray[Any]) -> None:
    """Leave lists of neighbours."""
    neighbour = found.neighbour.astype(ids_of(job.nodes))
    write_bundle(job.folder, name, {"count": found.count, "neighbour": neighbour, "weight": found.weight, **more})


def search_cross(job: Job, a: int, b: int) -> None:
    """Of two spans, the nearest of each vector on the other side, if they are nearer than those on its own."""
    known = [read_bundle(job.folder, bundle("self", number)) for number in (a, b)]
    floods = [FLOODED * len(one["count"]) * job.request.k < int(one["weighed"]) for one in known]
    view = replace(job.view, screen="float64") if any(floods) and not job.view.whole else job.view
    bounds = _bounds_of(known[0]), _bounds_of(known[1])
    del known
    with one_core():
        sides = job.side(job.spans[a], view), job.side(job.spans[b], view)
        found = search(*sides, job.request.k, bounds)[:2]
    arrays: dict[str, NDArray[Any]] = {}
    for name, one in zip("ab", found, strict=True):
        assert one is not None
        start, neighbour, weight = _flat(one)
        arrays[f"start_{name}"] = start
        arrays[f"neighbour_{name}"] = neighbour.astype(ids_of(job.nodes))
        arrays[f"weight_{name}"] = weight
    write_bundle(job.folder, bundle("cross", a, b), arrays)


def _bounds_of(found: dict[str, NDArray[Any]]) -> Bounds:
    """How far the lists of some rows reach."""
    full = found["count"] == found["neighbour"].shape[1]
    reach = np.where(full, found["weight"][:, -1], np.inf)
    return Bounds(reach, np.where(full, found["neighbour"][:, -1], np.iinfo(np.int64).max).astype(np.int64))


def settle_lists(job: Job, number: int) -> None:
    """The k nearest of each vector of a span, out of what was found in all spans."""
    found = read_bundle(job.folder, bundle("self", number))
    best = found["count"], found["neighbour"].astype(np.int64), found["weight"]
    for other in range(len(job.spans)):
        if other != number:
            name, side = bundle("cross", *sorted((number, other))), "a" if number < other else "b"
            start, neighbour, weight = read_bundle(
                job.folder, name, f"start_{side}", f"neighbour_{side}", f"weight_{side}"
            ).values()
            unite_lists(best, (start, neighbour.astype(np.int64), weight), job.request.k)
    _write_lists(job, number, Found(*best))


def _write_lists(job: Job, number: int, found: Found, **more: NDArray[Any]) -> None:
    """Leave the final lists of a span, and how far they reach."""
    reach, last = found.weight[:, -1], found.neighbour[:, -1].astype(ids_of(job.nodes))
    _write_found(job, bundle("lists", number), found, reach=reach, last=last, **more)


def tree_lists(job: Job, number: int) -> None:
    """The k nearest of each vector of a span, by a tree of all."""
    tree = shared_tree(job.source, job.request.metric, job.token)
    _write_lists(job, number, tree_search(tree, job.request.metric, *job.spans[number], job.request.k))


def approximate_lists(job: Job) -> float:
    """Most of the k nearest of each vector; gives the recall, measured on a sample."""
    k, metric = job.request.k, job.request.metric
    block = job.source.read(0, job.nodes)
    guess = approximate_neighbours(block, k, metric.name, job.threads, job.request.seed)
    points = as_points(block, metric)
    found = Found(np.zeros(job.nodes, np.int32), np.full((job.nodes, k), -1, np.int64), np.full((job.nodes, k), np.inf))
    rows, start = np.arange(job.nodes), np.arange(job.nodes + 1) * k
    out = found.count, found.neighbour, found.weight
    rank_candidates(points, rows, (start, guess.astype(np.int64).ravel()), k, metric.code, out)
    returned = np.empty(found.neighbour.shape, np.bool)
    mark_listed(found.neighbour, returned)
    for number, (first, last) in enumerate(job.spans):
        part = Found(found.count[first:last], found.neighbour[first:last], found.weight[first:last])
        _write_lists(job, number, part, returned=returned[first:last])
    sample = np.sort(np.random.default_rng(job.request.seed).permutation(job.nodes)[:SAMPLE])
    return float((found.weight[sample] <= _exact_reach(job, block, sample)[:, None]).mean())


def _exact_reach(job: Job, block: Any, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The weight of the last of the k nearest of some vectors among all."""
    k = job.request.k + 1  # the vector itself is found as well
    best = np.zeros(len(rows), np.int32), np.empty((len(rows), k), np.int64), np.empty((len(rows), k))
    with one_core():
        own = prepare(block[rows], 0, job.view)
        for first, last in _batches(0, job.nodes, job.others):
            found = search(own, prepare(block[first:last], first, job.view), k)[0]
            unite_lists(best, _flat(found), k)
    out = np.empty(len(rows), np.int32), np.full((len(rows), k - 1), -1, np.int64), np.empty((len(rows), k - 1))
    candidates = np.arange(len(rows) + 1) * k, best[1].ravel()
    rank_candidates(as_points(block, job.request.metric), rows, candidates, k - 1, job.request.metric.code, out)
    return out[2][:, -1]


def _flat(found: Found) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Where the neighbours of each row begin, and all of them in a row."""
    held = np.arange(found.neighbour.shape[1]) < found.count[:, None]
    return np.append(0, np.cumsum(found.count, dtype=np.int64)), found.neighbour[held], found.weight[held]


def _batches(first: int, last: int, rows: int) -> Iterator[Span]:
    """Spans of at most so many rows."""
    return ((start, min(start + rows, last)) for start in range(first, last, rows))


def write_lists(job: Job, name: str, first: int, last: int) -> Written:
    """Write the edges of the lists of some vectors."""
    return write_edges(job, name, _listed_edges(job, first, last))


def _listed_edges(job: Job, first: int, last: int) -> Iterator[tuple[NDArray[Any], ...]]:
    """The edges of lists, some vectors at a time."""
    ids, mutual = ids_of(job.nodes), job.request.mode == "mutual"
    for number, (start, stop) in enumerate(job.spans):
        if start >= last or first >= stop:
            continue
        arrays = read_bundle(job.folder, bundle("lists", number))
        for low, high in _batches(max(first, start), min(last, stop), max(1, job.kept // job.request.k)):
            some = slice(low - start, high - start)
            neighbour, weight = arrays["neighbour"][some].astype(np.int64), arrays["weight"][some]
            returned, picked = np.empty(weight.shape, np.bool), np.empty(weight.shape, np.bool)
            if "returned" in arrays:
                returned = arrays["returned"][some]
            else:
                bounds = shared_bounds(job)
                mark_returned(neighbour, weight, low, (bounds.reach, bounds.last), returned)
            pick_edges(neighbour, returned, low, mutual, picked)
            source = np.repeat(np.arange(low, high, dtype=ids), picked.sum(axis=1))
            yield source, neighbour[picked], weight[picked]


def shared_bounds(job: Job) -> Bounds:
    """How far all lists reach, read once in a process; those of one graph are kept."""
    with _reading:
        if job.token not in _bounds:
            _bounds.clear()
            names = [bundle("lists", number) for number in range(len(job.spans))]
            parts = [read_bundle(job.folder, name, "reach", "last") for name in names]
            reach, last = (np.concatenate([part[key] for part in parts]) for key in ("reach", "last"))
            _bounds[job.token] = Bounds(reach, last)
        return _bounds[job.token]


def forget(token: str) -> None:
    """Let go of what is kept of a graph."""
    forget_tree(token)
    with _reading:
        _bounds.pop(token, None)


def write_edges(job: Job, name: str, parts: Iterator[tuple[NDArray[Any], ...]]) -> Written:
    """Write edges in row groups; similarities get their sign back, and those below 0 no edge."""
    ids, count = ids_of(job.nodes), [0, 0]

    def kept() -> Iterator[tuple[NDArray[Any], ...]]:
        for source, target, weight in parts:
            near = slice(None) if not job.request.metric.similarity else weight <= 0
            part = source[near], target[near], 0.0 - weight[near] if job.request.metric.similarity else weight
            count[0] += len(part[0])
            count[1] += len(source) - len(part[0])
            yield part

    groups = row_groups(kept(), (ids, ids, np.dtype(np.float64)), GROUP_EDGES)
    first = next(groups, (np.empty(0, ids), np.empty(0, ids), np.empty(0)))  # a file may hold no edge
    NewFolder(job.folder, job.nodes).write(name, chain((first,), groups))
    return Written(*count)


def find_near(job: Job, number: int) -> None:
    """Count the near ones after each vector of a span, and keep them unless they are too many."""
    first, last = job.spans[number]
    count = np.zeros(last - first, np.int64)
    parts: list[Near] | None = []
    held = 0
    for row, other, weight in _near(job, first, last):
        count += np.bincount(row, minlength=last - first)
        held += len(row)
        if held > job.kept:
            parts = None
        if parts is not None:
            parts.append((row, other, weight))
    arrays: dict[str, NDArray[Any]] = {"count": count}
    if parts is not None:
        row, other, weight = _in_order(parts)
        arrays |= {"other": other.astype(ids_of(job.nodes)), "weight": weight}
    write_bundle(job.folder, bundle("near", number), arrays)


def _near(job: Job, first: int, last: int) -> Iterator[Near]:
    """The near ones after each of some vectors, piece by piece; rows are counted from the first."""
    if job.tree:
        tree = shared_tree(job.source, job.request.metric, job.token)
        yield from tree_near(tree, job.request.metric, job.request.eps, (first, last), job.kept)
        return
    eps = -job.request.eps if job.request.metric.similarity else job.request.eps
    with one_core():
        own = job.side((first, last))
        yield from near(own, own, eps, True)
        for span in _batches(last, job.nodes, job.others):
            yield from near(own, job.side(span), eps, False)


def _in_order(parts: Sequence[Near]) -> Near:
    """Pairs by row and then by the other's id."""
    if not parts:
        return np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0)
    row, other, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((other, row))
    return row[order], other[order], weight[order]


def read_counts(folder: Folder, spans: Sequence[Span]) -> NDArray[np.int64]:
    """How many near ones come after each vector."""
    names = [bundle("near", number) for number in range(len(spans))]
    return np.concatenate([read_bundle(folder, name, "count")["count"] for name in names])


def write_near(job: Job, name: str, first: int, last: int) -> Written:
    """Write the edges to the near ones after each of some vectors."""
    return write_edges(job, name, _kept_or_found(job, first, last))


def _kept_or_found(job: Job, first: int, last: int) -> Iterator[tuple[NDArray[Any], ...]]:
    """Edges to the near ones, as they were kept, or found again, as many at a time as may be kept."""
    ids = ids_of(job.nodes)
    for number, (start, stop) in enumerate(job.spans):
        if start >= last or first >= stop:
            continue
        low, high = max(first, start), min(last, stop)
        arrays = read_bundle(job.folder, bundle("near", number))
        count = arrays["count"][low - start : high - start]
        if "other" in arrays:
            ends = np.append(0, np.cumsum(arrays["count"]))
            part = slice(ends[low - start], ends[high - start])
            yield np.repeat(np.arange(low, high, dtype=ids), count), arrays["other"][part], arrays["weight"][part]
            continue
        for begin, end in steps_of(count, job.kept):
            row, other, weight = _in_order(list(_near(job, low + begin, low + end)))
            yield row + ids.type(low + begin), other, weight


def write_all(job: Job, name: str, first: int, last: int) -> Written:
    """Write the edges to all vectors after each of some."""
    return write_edges(job, name, _all_later(job, first, last))


def _all_later(job: Job, first: int, last: int) -> Iterator[tuple[NDArray[Any], ...]]:
    """All pairs of some vectors and those after each of them, as many at a time as may be kept."""
    metric, ids = job.request.metric, ids_of(job.nodes)
    counts = job.nodes - 1 - np.arange(first, last)
    for low, high in steps_of(counts, job.kept):
        own = as_points(job.source.read(first + low, first + high), metric)
        count = counts[low:high]
        begin = np.cumsum(count) - count
        weight = np.empty(int(count.sum()))
        for start, stop in _batches(first + low, job.nodes, job.others):
            others = as_points(job.source.read(start, stop), metric)
            weigh_later(own, others, (first + low, start, stop), begin, metric.code, weight)
        target = np.arange(len(weight), dtype=ids)
        target -= np.repeat((begin - np.arange(first + low, first + high) - 1).astype(ids), count)
        yield np.repeat(np.arange(first + low, first + high, dtype=ids), count), target, weight


def find_components(url: str, nodes: int) -> tuple[int, int]:
    """How many components a graph has, and how many nodes the largest."""
    source, parent = open_edges(url, complete=False), new_parents(nodes)
    for unit in source.units(BATCH_ROWS):
        for columns, _ in source.read(unit):
            join_ends(columns["source"], columns["target"], parent)
    size = np.zeros(nodes, parent.dtype)
    component_sizes(parent, size)
    return int(np.count_nonzero(size)), int(size.max(initial=0))
