"""All pairs in memory: rounds of reciprocal pairs on one triangle, or a spanning tree for single linkage."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import ResourceError
from dask_rac.base.events import Event, Listener, RoundRecord
from dask_rac.base.settings import Settings
from dask_rac.base.spans import Span, even_spans
from dask_rac.base.text import size_text
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.engines.given import GivenPairs
from dask_rac.engines.matrix.round import first_nearest, matrix_round
from dask_rac.engines.matrix.span import span_pairs
from dask_rac.engines.matrix.state import CODES, SUMS, Matrix, first_matrix
from dask_rac.engines.start import Start
from dask_rac.kernels.arrays import Merges, empty_merges, part
from dask_rac.kernels.matrix.rounds import merge_alone
from dask_rac.kernels.matrix.weights import multiply_sizes
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.triangle import fill_triangle, rows_of, triangle_bytes, triangle_entries, triangle_spans

NODE_BYTES = 400  # per node, beside the triangle: clusters, pairs, and the bests of each part of a pass


def merge_pairs(given: GivenPairs, settings: Settings, team: Team, report: Listener, limits: Limits) -> MergeList:
    """Cluster all pairs of some nodes."""
    triangle = fill_triangle(given.pairs, team, report)
    square_for(triangle, given.pairs, settings, team)
    return merge_triangle(triangle, given.start, settings, team, report, limits)


def square_for(triangle: NDArray[np.float64], pairs: AllPairs, settings: Settings, team: Team) -> None:
    """Square the weights of a triangle, unless they are what the linkage needs already."""
    if settings.linkage == "ward" and not pairs.squares:
        team.run(lambda span: np.square(triangle[slice(*span)], out=triangle[slice(*span)]), _spans(triangle, team))


def merge_triangle(
    triangle: NDArray[np.float64], start: Start, settings: Settings, team: Team, report: Listener, limits: Limits
) -> MergeList:
    """Cluster the nodes of a start whose clusters have equal nodes each, such as single ones.

    The triangle has the weights of these nodes, one for each pair of clusters; for ward linkage these are squared
    distances (`square_for`). It is used up.
    """
    if CODES.get(settings.linkage) in SUMS and start.nodes > len(start.ids):
        size = start.size[::-1].copy()
        spans = triangle_spans(len(size), 4 * team.threads)
        team.run(lambda span: multiply_sizes(size, span, rows_of(triangle, *span)), spans)
    return merge_reduced(triangle, start, settings, team, report, limits)


def merge_reduced(
    triangle: NDArray[np.float64], start: Start, settings: Settings, team: Team, report: Listener, limits: Limits
) -> MergeList:
    """Cluster the nodes of a start, given the triangle of its clusters, which is used up.

    Entries are those of `kernels.matrix.weights`, the smallest weight for single linkage. By ward and single linkage,
    the nodes of each cluster of the start must be equal.
    """
    report(Event("rounds", start.nodes))
    if settings.linkage == "single":
        return span_pairs(triangle, start, _ceiling(settings), team, limits)
    found = _merge(first_matrix(triangle, start, settings), start.nodes, settings, team, report, limits)
    if settings.linkage == "ward":
        np.sqrt(np.maximum(found.merges.height, 0.0), out=found.merges.height)
    return found


def refuse_large(nodes: int, memory: int) -> None:
    """Raise if the triangle of so many nodes does not fit in `memory` bytes."""
    needed = pairs_bytes(nodes)
    if needed > memory:
        raise ResourceError(
            f"all pairs of {nodes:,} nodes need {size_text(needed)} of memory, and {size_text(memory)} may be used, "
            f"enough for {_most_nodes(memory):,} nodes: allow more, leave out engine=, or build a graph of near pairs "
            "instead, the nearest neighbours with graph=dict(k=15) or knn_graph, or all pairs within a radius with "
            "graph=dict(eps=...) or eps_graph"
        )


def pairs_bytes(nodes: int) -> int:
    """Return the memory that all pairs of so many nodes need."""
    return triangle_bytes(nodes) + NODE_BYTES * nodes


def _most_nodes(memory: int) -> int:
    """Return the largest number of nodes, in round figures, whose pairs fit in memory."""
    nodes = int((memory / 4) ** 0.5)
    while pairs_bytes(nodes) > memory:
        nodes = int(0.99 * nodes)
    return nodes if nodes < 100 else nodes // 100 * 100


def _spans(triangle: NDArray[np.float64], team: Team) -> list[Span]:
    """Cut a triangle for the threads of a team, regardless of rows."""
    return even_spans(len(triangle), 4 * team.threads)


def _ceiling(settings: Settings) -> float:
    """Return the largest W of a merge, in the units of the triangle."""
    height = settings.sign * settings.max_height
    return height * abs(height) if settings.linkage == "ward" else height


def _merge(matrix: Matrix, nodes: int, settings: Settings, team: Team, report: Listener, limits: Limits) -> MergeList:
    """Run rounds until no pair is left; there are `nodes` in all clusters."""
    ceiling = _ceiling(settings)
    merges, when = empty_merges(matrix.slots, np.dtype(np.int64)), np.empty(matrix.slots, np.int32)
    started, merged = perf_counter(), 0
    first_nearest(matrix, team)
    nearest_seconds = perf_counter() - started
    records: list[RoundRecord] = []
    while matrix.slots > limits.alone:
        record = matrix_round(matrix, ceiling, team, limits, part(merges, merged, None))
        if record is None:
            break
        record = replace(record, round=len(records) + 1, nearest_seconds=nearest_seconds if not records else 0.0)
        records.append(record)
        when[merged : merged + record.merges] = record.round
        merged += record.merges
        report(Event("round", nodes, merged, record))
    else:
        rest = _merge_alone(matrix, ceiling, limits, part(merges, merged, None), len(records))
        for record in rest:
            when[merged : merged + record.merges] = record.round
            merged += record.merges
            report(Event("round", nodes, merged, record))
        records += rest
    return MergeList(nodes, part(merges, None, merged), when[:merged], records)


def _merge_alone(matrix: Matrix, ceiling: float, limits: Limits, merges: Merges, before: int) -> list[RoundRecord]:
    """Run all rounds that are left in one thread; their time is shared out by the pairs that each went through."""
    started = perf_counter()
    lines = np.empty((matrix.slots, 3), np.int64)
    _, rounds = merge_alone(matrix.state, ceiling, (limits.dense_share, limits.shrink_share), merges, lines)
    seconds = perf_counter() - started
    counts = lines[:rounds].tolist()
    entries = [triangle_entries(clusters) for clusters, _, _ in counts]
    each = seconds / max(1, sum(entries))
    return [
        RoundRecord(clusters, edges, pairs, updates, fold_seconds=edges * each, round=before + number)
        for number, ((clusters, pairs, updates), edges) in enumerate(zip(counts, entries, strict=True), 1)
    ]
