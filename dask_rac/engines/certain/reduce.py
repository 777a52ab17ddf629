"""The pass over all pairs of vectors that reduces them to those of the clusters that are left.

An entry of the triangle of clusters is a sum or a maximum over all pairs of their vectors, as `kernels.matrix.weights`
has it. The pass goes through pairs in an order of its own, cluster after cluster (`order.py`), in one of several ways.
Its numbers do not depend on how it is cut into jobs, parts and tiles, nor on who computes them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Listener
from dask_rac.base.spans import Span
from dask_rac.engines.certain.centres import Centres, suits_centres
from dask_rac.engines.certain.differences import Differences
from dask_rac.engines.certain.groups import Grouped
from dask_rac.engines.certain.order import Job, Reducer, job_run, jobs_of, order_of, whole_job
from dask_rac.engines.certain.postings import Postings
from dask_rac.engines.certain.products import Products, suits_products, tile_bytes
from dask_rac.engines.contract import Limits
from dask_rac.kernels.certain.near import take_near_clusters
from dask_rac.kernels.matrix.weights import LARGEST
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.condensed import points_of
from dask_rac.vectors.pairs.triangle import Progress, triangle_entries
from dask_rac.vectors.pairs.vector_pairs import VectorPairs

JOB_ROWS = 1024  # of vectors, on average: a tile needs many rows, as its columns are prepared once for all of them
JOBS = 4, 64  # per thread, at least and at most: progress is to be seen, and threads are to end together
ROW_BYTES = 64  # per vector: its cluster, share, norms
SPARSE_BYTES = 64  # per value: in the order of the pass, by term, and while it is sorted

Near = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""Pairs of clusters, the smaller index first, and their entries."""


def reducer_of(pairs: VectorPairs, groups: Grouped, code: int) -> Reducer:
    """Return the fastest way to reduce pairs of vectors to clusters by a linkage."""
    order = order_of(groups)
    if suits_centres(pairs, code):
        return Centres(pairs, order)
    if pairs.source.sparse:
        return Postings(pairs, order, code)
    if suits_products(pairs, code):
        products = Products(pairs, order, code)
        if products.pays:
            return products
    return Differences(pairs, order, code)


def entries_of(memory: int, threads: int, limits: Limits) -> int:
    """Return the most entries of a triangle that a thread holds: all together take no more than a quarter of memory.

    With few rows the columns, which are prepared for each part anew, cost more.
    """
    return max(1, min(limits.band_entries, memory // (4 * 8 * threads)))


def reduce_bytes(pairs: VectorPairs, clusters: int, code: int, threads: int, near: int) -> int:
    """Return the memory that a pass needs in one process, beside the vectors and the triangle of clusters.

    `near` are the entries that a thread searches for near clusters at a time.
    """
    source = pairs.source
    if source.sparse:
        copies = SPARSE_BYTES * source.entries + 16 * threads * source.rows
    else:
        copies = 8 * clusters * source.dimensions if suits_centres(pairs, code) else 0
    return ROW_BYTES * source.rows + copies + threads * (tile_bytes(source.dimensions) + 8 * near)


def reduced_triangle(
    pairs: VectorPairs, groups: Grouped, code: int, team: Team, report: Listener
) -> NDArray[np.float64]:
    """Return the triangle of clusters, with its rows computed in threads."""
    reducer, clusters = reducer_of(pairs, groups, code), groups.clusters
    triangle = np.empty(triangle_entries(clusters))
    jobs = jobs_of(
        reducer.begin, max(JOBS[0] * team.threads, min(JOBS[1] * team.threads, int(reducer.begin[-1]) // JOB_ROWS))
    )
    progress = Progress(pairs.nodes, len(jobs), report)

    def fill(job: Job) -> None:
        fill_job(reducer, job, clusters, code, (0, triangle))
        progress.add()

    team.run(fill, jobs)
    return triangle


def reduce_rows(pairs: VectorPairs, groups: Grouped, code: int, span: Span, out: NDArray[np.float64]) -> None:
    """Write rows `span` of the triangle of clusters to `out`, which holds these rows only."""
    fill_span(reducer_of(pairs, groups, code), groups.clusters, code, span, out)


def fill_span(reducer: Reducer, clusters: int, code: int, span: Span, out: NDArray[np.float64]) -> None:
    """Write rows `span` of the triangle of clusters to `out`, which holds these rows only."""
    fill_job(reducer, whole_job(span, clusters), clusters, code, (triangle_entries(span[0]), out))


def fill_job(reducer: Reducer, job: Job, clusters: int, code: int, target: tuple[int, NDArray[np.float64]]) -> None:
    """Fill a part of the triangle; the target holds its entries from a number on."""
    base, out = target
    first, last = job_run(job, clusters)
    out[first - base : last - base] = -np.inf if code == LARGEST else 0.0
    reducer.fill(job, base, out)


def near_of(reducer: Reducer, groups: Grouped, code: int, span: Span, radius: float, most: int) -> Near:
    """Return the pairs of clusters in rows `span` of the triangle whose W is at most `radius`, with their entries.

    No more than `most` entries are held at a time, if no row has more.
    """
    clusters, found = groups.clusters, [_no_pairs()]
    size = np.add.reduceat(groups.share[groups.row], groups.begin[:-1])[::-1].copy()
    parts = _row_spans(span, most)
    room = np.empty(max((triangle_entries(last) - triangle_entries(first) for first, last in parts), default=0))
    for rows in parts:
        entries = room[: triangle_entries(rows[1]) - triangle_entries(rows[0])]
        fill_span(reducer, clusters, code, rows, entries)
        slot, other, entry = take_near_clusters(code, entries, size, rows, radius)
        found.append((clusters - 1 - slot, clusters - 1 - other, entry))
    return tuple(np.concatenate(column) for column in zip(*found, strict=True))  # type: ignore[return-value]


def _row_spans(span: Span, most: int) -> list[Span]:
    """Cut rows of a triangle so that no part has more than `most` entries, if no row has."""
    spans, first = [], span[0]
    while first < span[1]:
        last = min(span[1], max(first + 1, points_of(triangle_entries(first) + most)))
        spans.append((first, last))
        first = last
    return spans


def _no_pairs() -> Near:
    """Return no pairs, of the right types."""
    return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
