"""All pairs within a distance, and all pairs.

`find_near` counts the near ones after each vector of a span and keeps them if they are not too many; `near_edges` gives
them as edges, or looks for them once more. `all_edges` gives all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.pairs import weigh_later
from dask_rac.store.bundles import read_bundle, write_bundle
from dask_rac.store.files import Folder
from dask_rac.vectors.blas import one_core
from dask_rac.vectors.job import Edges, Job, batches, bundle
from dask_rac.vectors.plan import Span, ids_of, steps_of
from dask_rac.vectors.search import Near, as_points, near
from dask_rac.vectors.trees import shared_tree, tree_near


def find_near(job: Job, number: int) -> int:
    """Count the near ones after each vector of a span, and keep them unless they are too many; gives their number."""
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
    return int(count.sum())


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
        for span in batches(last, job.nodes, job.others):
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


def near_edges(job: Job, first: int, last: int) -> Edges:
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


def all_edges(job: Job, first: int, last: int) -> Edges:
    """All pairs of some vectors and those after each of them, as many at a time as may be kept."""
    metric, ids = job.request.metric, ids_of(job.nodes)
    counts = job.nodes - 1 - np.arange(first, last)
    for low, high in steps_of(counts, job.kept):
        own = as_points(job.source.read(first + low, first + high), metric)
        count = counts[low:high]
        begin = np.cumsum(count) - count
        weight = np.empty(int(count.sum()))
        for start, stop in batches(first + low, job.nodes, job.others):
            others = as_points(job.source.read(start, stop), metric)
            weigh_later(own, others, (first + low, start, stop), begin, metric.code, weight)
        target = np.arange(len(weight), dtype=ids)
        target -= np.repeat((begin - np.arange(first + low, first + high) - 1).astype(ids), count)
        yield np.repeat(np.arange(first + low, first + high, dtype=ids), count), target, weight
