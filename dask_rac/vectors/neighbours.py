"""The k nearest neighbours of all vectors: each task reads spans of vectors, and leaves one file.

By products of all pairs:

1. `search_self`: the k nearest of each vector within its span; they bound those elsewhere.
2. `search_cross`: of two spans those nearer than that, for both.
3. `settle_lists`: the k nearest of each vector of a span, out of all that was found.

`tree_lists` or `approximate_lists` take the place of these three. Then

4. `listed_edges`: edges. Of two vectors that have each other among their nearest only the first gives the edge; the
   second knows without looking into the other's list, as that goes as far as its last neighbour and no further.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import cache
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
from dask_rac.store.edges import BATCH_ROWS, open_edges
from dask_rac.vectors.approximate import approximate_neighbours
from dask_rac.vectors.blas import one_core
from dask_rac.vectors.job import Edges, Job, batches, bundle
from dask_rac.vectors.metrics import Metric
from dask_rac.vectors.plan import ids_of
from dask_rac.vectors.search import Bounds, Found, View, as_points, near, prepare, search
from dask_rac.vectors.trees import forget_tree, shared_tree, tree_search

FLOODED = 8  # weighed pairs for each neighbour wanted: then scores of float32 tell too little
SAMPLE = 1_000  # vectors whose neighbours are searched exactly, to measure recall

_bounds: dict[str, Bounds] = {}
_reading = threading.Lock()


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
    chance = np.random.default_rng(job.request.seed)
    sample = np.sort(chance.choice(job.nodes, min(SAMPLE, job.nodes), replace=False))
    return float((found.weight[sample] <= _exact_reach(job, block, sample)[:, None]).mean())


def _exact_reach(job: Job, block: Any, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The weight of the last of the k nearest of some vectors among all."""
    k = job.request.k + 1  # the vector itself is found as well
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


def _flat(found: Found) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Where the neighbours of each row begin, and all of them in a row."""
    held = np.arange(found.neighbour.shape[1]) < found.count[:, None]
    return np.append(0, np.cumsum(found.count, dtype=np.int64)), found.neighbour[held], found.weight[held]


def listed_edges(job: Job, first: int, last: int) -> Edges:
    """The edges of lists, some vectors at a time."""
    mutual = job.request.mode == "mutual"
    for number, (start, stop) in enumerate(job.spans):
        if start >= last or first >= stop:
            continue
        arrays = read_bundle(job.folder, bundle("lists", number))
        for low, high in batches(max(first, start), min(last, stop), max(1, job.kept // job.request.k)):
            some = slice(low - start, high - start)
            neighbour, weight = arrays["neighbour"][some].astype(np.int64), arrays["weight"][some]
            returned, picked = np.empty(weight.shape, np.bool), np.empty(weight.shape, np.bool)
            if "returned" in arrays:
                returned = arrays["returned"][some]
            else:
                bounds = shared_bounds(job)
                mark_returned(neighbour, weight, low, (bounds.reach, bounds.last), returned)
            pick_edges(neighbour, returned, low, mutual, picked)
            own, other = np.repeat(np.arange(low, high), picked.sum(axis=1)), neighbour[picked]
            yield np.minimum(own, other), np.maximum(own, other), weight[picked]


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


def find_components(url: str, nodes: int) -> tuple[int, int]:
    """How many components a graph has, and how many nodes the largest."""
    source, parent = open_edges(url, complete=False), new_parents(nodes)
    for unit in source.units(BATCH_ROWS):
        for columns, _ in source.read(unit):
            join_ends(columns["source"], columns["target"], parent)
    size = np.zeros(nodes, parent.dtype)
    component_sizes(parent, size)
    return int(np.count_nonzero(size)), int(size.max(initial=0))
