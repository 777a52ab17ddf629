"""All pairs within a distance, and all pairs.

`find_near` counts the near vectors that follow each vector of a span, and keeps the pairs unless there are too many.
`near_edges` yields them as edges, searching again where they were not kept. `all_edges` yields all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.ids import edge_id_dtype
from dask_rac.base.spans import Span, batches, starts_of, steps_of
from dask_rac.files.folder import Folder
from dask_rac.files.npz import read_bundle, write_bundle
from dask_rac.kernels.vectors.pairs import weigh_later
from dask_rac.vectors.compare.blas import one_core
from dask_rac.vectors.compare.kdtree import shared_tree, tree_near
from dask_rac.vectors.compare.search import Near, as_points, near
from dask_rac.vectors.graph.job import Edges, GraphJob, bundle


def find_near(job: GraphJob, number: int) -> int:
    """Count the near vectors after each vector of a span, keep the pairs unless too many, and return their number."""
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
        arrays |= {"other": other.astype(edge_id_dtype(job.nodes)), "weight": weight}
    write_bundle(job.folder, bundle("near", number), arrays)
    return int(count.sum())


def _near(job: GraphJob, first: int, last: int) -> Iterator[Near]:
    """Yield the near vectors after each vector from `first` to `last`; rows are numbered from `first`."""
    request = job.request
    eps = 1.0 - request.eps if request.complements else request.eps
    if job.tree:
        tree = shared_tree(job.source, request.metric, job.token)
        yield from tree_near(tree, request.metric, eps, (first, last), job.kept)
        return
    eps = -eps if request.metric.similarity else eps
    with one_core():
        own = job.side((first, last))
        yield from near(own, own, eps, True)
        for span in batches(last, job.nodes, job.others):
            yield from near(own, job.side(span), eps, False)


def _in_order(parts: Sequence[Near]) -> Near:
    """Sort pairs by row, then by the id of the other vector."""
    if not parts:
        return np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0)
    row, other, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((other, row))
    return row[order], other[order], weight[order]


def read_counts(folder: Folder, spans: Sequence[Span]) -> NDArray[np.int64]:
    """Return the number of near vectors after each vector."""
    names = [bundle("near", number) for number in range(len(spans))]
    return np.concatenate([read_bundle(folder, name, "count")["count"] for name in names])


def near_edges(job: GraphJob, first: int, last: int) -> Edges:
    """Yield the edges to near vectors, as kept or found again, at most `job.kept` pairs at a time."""
    ids = edge_id_dtype(job.nodes)
    for number, (start, stop) in enumerate(job.spans):
        if start >= last or first >= stop:
            continue
        low, high = max(first, start), min(last, stop)
        arrays = read_bundle(job.folder, bundle("near", number))
        count = arrays["count"][low - start : high - start]
        if "other" in arrays:
            ends = starts_of(arrays["count"])
            part = slice(ends[low - start], ends[high - start])
            yield np.repeat(np.arange(low, high, dtype=ids), count), arrays["other"][part], arrays["weight"][part]
            continue
        for begin, end in steps_of(count, job.kept):
            row, other, weight = _in_order(list(_near(job, low + begin, low + end)))
            yield row + ids.type(low + begin), other, weight


def all_edges(job: GraphJob, first: int, last: int) -> Edges:
    """Yield all pairs of the vectors of a span with those after each, at most `job.kept` pairs at a time."""
    metric, ids = job.request.metric, edge_id_dtype(job.nodes)
    counts = job.nodes - 1 - np.arange(first, last)
    for low, high in steps_of(counts, job.kept):
        own = as_points(job.source.read(first + low, first + high), metric)
        count = counts[low:high]
        begin = starts_of(count)[:-1]
        weight = np.empty(int(count.sum()))
        for start, stop in batches(first + low, job.nodes, job.others):
            others = as_points(job.source.read(start, stop), metric)
            weigh_later(own, others, (first + low, start, stop), begin, metric.code, weight)
        target = np.arange(len(weight), dtype=ids)
        target -= np.repeat((begin - np.arange(first + low, first + high) - 1).astype(ids), count)
        yield np.repeat(np.arange(first + low, first + high, dtype=ids), count), target, weight
