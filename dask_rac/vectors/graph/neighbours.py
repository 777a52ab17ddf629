"""The k nearest neighbours of all vectors: each task reads spans of vectors and leaves one file.

With products of all pairs:

1. `search_self` finds the k nearest of each vector within its span; they bound those in other spans.
2. `search_cross` finds, for two spans and in both directions, the vectors nearer than that bound.
3. `settle_lists` picks the k nearest of each vector of a span from everything found.

`tree_lists` or `approximate_lists` replace these three. Then

4. `listed_edges` yields the edges. If two vectors are each in the other's list, only the first yields the edge. The
   second knows this without reading the other's list: it is enough to know how far that list reaches.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.base.ids import edge_id_dtype
from dask_rac.base.spans import batches, starts_of
from dask_rac.edges.source import BATCH_ROWS, open_edges
from dask_rac.files.npz import read_bundle, write_bundle
from dask_rac.kernels.vectors.lists import (
    component_sizes,
    join_ends,
    mark_listed,
    mark_returned,
    pick_edges,
    rank_candidates,
    unite_lists,
)
from dask_rac.kernels.vectors.pairs import weigh_later
from dask_rac.tasks.cache import forget, kept
from dask_rac.vectors.compare.blas import one_core
from dask_rac.vectors.compare.kdtree import shared_tree, tree_search
from dask_rac.vectors.compare.metrics import Metric
from dask_rac.vectors.compare.search import Bounds, NeighbourLists, View, as_points, near, prepare, search
from dask_rac.vectors.graph.approximate import approximate_neighbours
from dask_rac.vectors.graph.job import Edges, GraphJob, bundle

SAMPLE = 1_000  # vectors whose exact neighbours are found, to measure recall


@cache
def compile_graph_kernels(kind: str, metric: Metric, dtype: str, sparse: bool) -> None:
    """Compile the kernels that a graph needs, or load them from the cache."""
    few = np.eye(3, 2, dtype=dtype) + 1
    block: Any = sp.csr_array(few) if sparse else few
    view = View(metric, "float32", False, None)
    own, others = prepare(block, 0, view), prepare(block, 3, view)
    if kind == "knn":
        search(own, others, 1)
    elif kind == "eps":
        list(near(own, others, 1.0, False))
    else:
        weigh_later(own.points, others.points, (0, 3, 6), np.arange(3) * 3, metric.code, np.empty(20))


def search_self(job: GraphJob, number: int) -> None:
    """Find the k nearest of each vector within its own span."""
    with one_core():
        found, _, weighed = search(job.side(job.spans[number]), None, job.request.k)
    _write_found(job, bundle("self", number), found, weighed=np.array(weighed))


def _write_found(job: GraphJob, name: str, found: NeighbourLists, **more: NDArray[Any]) -> None:
    """Write lists of neighbours."""
    neighbour = found.neighbour.astype(edge_id_dtype(job.nodes))
    write_bundle(job.folder, name, {"count": found.count, "neighbour": neighbour, "weight": found.weight, **more})


def search_cross(job: GraphJob, a: int, b: int) -> None:
    """Find the nearest of each vector in the other span, for both spans, if nearer than those in its own."""
    known = [read_bundle(job.folder, bundle("self", number)) for number in (a, b)]
    most = job.limits.flooded * job.request.k
    floods = [most * len(lists["count"]) < int(lists["weighed"]) for lists in known]
    view = replace(job.view, screen="float64") if any(floods) and not job.view.whole else job.view
    bounds = _bounds_of(known[0]), _bounds_of(known[1])
    del known
    with one_core():
        sides = job.side(job.spans[a], view), job.side(job.spans[b], view)
        found = search(*sides, job.request.k, bounds)[:2]
    arrays: dict[str, NDArray[Any]] = {}
    for name, lists in zip("ab", found, strict=True):
        assert lists is not None
        start, neighbour, weight = _flat(lists)
        arrays[f"start_{name}"] = start
        arrays[f"neighbour_{name}"] = neighbour.astype(edge_id_dtype(job.nodes))
        arrays[f"weight_{name}"] = weight
    write_bundle(job.folder, bundle("cross", a, b), arrays)


def _bounds_of(found: dict[str, NDArray[Any]]) -> Bounds:
    """Return how far the list of each row reaches."""
    full = found["count"] == found["neighbour"].shape[1]
    reach = np.where(full, found["weight"][:, -1], np.inf)
    return Bounds(reach, np.where(full, found["neighbour"][:, -1], np.iinfo(np.int64).max).astype(np.int64))


def settle_lists(job: GraphJob, number: int) -> None:
    """Pick the k nearest of each vector of a span from what was found in all spans."""
    found = read_bundle(job.folder, bundle("self", number))
    best = found["count"], found["neighbour"].astype(np.int64), found["weight"]
    for other in range(len(job.spans)):
        if other != number:
            name, side = bundle("cross", *sorted((number, other))), "a" if number < other else "b"
            start, neighbour, weight = read_bundle(
                job.folder, name, f"start_{side}", f"neighbour_{side}", f"weight_{side}"
            ).values()
            unite_lists(best, (start, neighbour.astype(np.int64), weight), job.request.k)
    _write_lists(job, number, NeighbourLists(*best))


def _write_lists(job: GraphJob, number: int, found: NeighbourLists, **more: NDArray[Any]) -> None:
    """Write the final lists of a span, and how far they reach."""
    reach, last = found.weight[:, -1], found.neighbour[:, -1].astype(edge_id_dtype(job.nodes))
    _write_found(job, bundle("lists", number), found, reach=reach, last=last, **more)


def tree_lists(job: GraphJob, number: int) -> None:
    """Find the k nearest of each vector of a span with a k-d tree of all vectors."""
    tree = shared_tree(job.source, job.request.metric, job.token)
    _write_lists(job, number, tree_search(tree, job.request.metric, *job.spans[number], job.request.k))


def approximate_lists(job: GraphJob) -> float:
    """Find most of the k nearest of each vector, and return the recall measured on a sample."""
    k, metric = job.request.k, job.request.metric
    block = job.source.read(0, job.nodes)
    guess = approximate_neighbours(block, k, metric.name, job.threads, job.request.seed)
    points = as_points(block, metric)
    found = NeighbourLists.empty(job.nodes, k)
    rows, start = np.arange(job.nodes), np.arange(job.nodes + 1) * k
    out = found.count, found.neighbour, found.weight
    rank_candidates(points, rows, (start, guess.astype(np.int64).ravel()), k, metric.code, out)
    returned = np.empty(found.neighbour.shape, np.bool)
    mark_listed(found.neighbour, returned)
    for number, (first, last) in enumerate(job.spans):
        part = NeighbourLists(found.count[first:last], found.neighbour[first:last], found.weight[first:last])
        _write_lists(job, number, part, returned=returned[first:last])
    chance = np.random.default_rng(job.request.seed)
    sample = np.sort(chance.choice(job.nodes, min(SAMPLE, job.nodes), replace=False))
    return float((found.weight[sample] <= _exact_reach(job, block, sample)[:, None]).mean())


def _exact_reach(job: GraphJob, block: Any, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the weight of the k-th nearest among all vectors, for each of the given rows."""
    k = job.request.k + 1  # the vector itself is found, too
    best = np.zeros(len(rows), np.int32), np.empty((len(rows), k), np.int64), np.empty((len(rows), k))
    with one_core():
        own = prepare(block[rows], 0, job.view)
        for first, last in batches(0, job.nodes, job.others):
            found = search(own, prepare(block[first:last], first, job.view), k)[0]
            unite_lists(best, _flat(found), k)
    out = np.empty(len(rows), np.int32), np.full((len(rows), k - 1), -1, np.int64), np.empty((len(rows), k - 1))
    candidates = np.arange(len(rows) + 1) * k, best[1].ravel()
    rank_candidates(as_points(block, job.request.metric), rows, candidates, k - 1, job.request.metric.code, out)
    return out[2][:, -1]


def _flat(found: NeighbourLists) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Flatten lists: where the neighbours of each row begin, the neighbours, and their weights."""
    held = np.arange(found.neighbour.shape[1]) < found.count[:, None]
    return starts_of(found.count), found.neighbour[held], found.weight[held]


def listed_edges(job: GraphJob, first: int, last: int) -> Edges:
    """Yield the edges of the lists of a span of vectors, at most `job.kept` neighbours at a time."""
    mutual = job.request.mode == "mutual"
    for number, (start, stop) in enumerate(job.spans):
        if start >= last or first >= stop:
            continue
        arrays = read_bundle(job.folder, bundle("lists", number))
        for low, high in batches(max(first, start), min(last, stop), max(1, job.kept // job.request.k)):
            rows = slice(low - start, high - start)
            neighbour, weight = arrays["neighbour"][rows].astype(np.int64), arrays["weight"][rows]
            returned, picked = np.empty(weight.shape, np.bool), np.empty(weight.shape, np.bool)
            if "returned" in arrays:
                returned = arrays["returned"][rows]
            else:
                bounds = shared_bounds(job)
                mark_returned(neighbour, weight, low, (bounds.reach, bounds.last), returned)
            pick_edges(neighbour, returned, low, mutual, picked)
            own, other = np.repeat(np.arange(low, high), picked.sum(axis=1)), neighbour[picked]
            yield np.minimum(own, other), np.maximum(own, other), weight[picked]


def shared_bounds(job: GraphJob) -> Bounds:
    """Return how far all lists reach: read once per process, and kept for one graph at a time."""
    return kept("bounds", job.token, lambda: _read_bounds(job))


def _read_bounds(job: GraphJob) -> Bounds:
    """Read how far all lists reach."""
    names = [bundle("lists", number) for number in range(len(job.spans))]
    parts = [read_bundle(job.folder, name, "reach", "last") for name in names]
    reach, last = (np.concatenate([part[key] for part in parts]) for key in ("reach", "last"))
    return Bounds(reach, last)


def forget_graph(token: str) -> None:
    """Release what this process keeps of a graph, and nothing that it keeps of another."""
    forget("kdtree", token)
    forget("bounds", token)


def find_components(url: str, nodes: int) -> tuple[int, int]:
    """Return the number of components of a graph, and the number of nodes in the largest."""
    source, parent = open_edges(url, complete=False), np.arange(nodes, dtype=edge_id_dtype(nodes))
    for unit in source.units(BATCH_ROWS):
        for columns, _ in source.read(unit):
            join_ends(columns["source"], columns["target"], parent)
    size = np.zeros(nodes, parent.dtype)
    component_sizes(parent, size)
    return int(np.count_nonzero(size)), int(size.max(initial=0))
