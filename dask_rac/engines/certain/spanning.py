"""Single linkage of all pairs without their triangle: one pass over the pairs keeps a spanning forest, and no more.

Edges are in the order of `kernels.forest`, so the lightest spanning tree is unique: it is found whatever is left out,
as long as only edges are left out that a path of lighter ones replaces. Parts of the pairs are spanned on their own,
for vectors by `spanning_vectors`, for given distances by `spanning_rows`, and their forests are joined as they come.
Nodes of a forest are rows: the places of clusters in the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Event, Listener, RoundRecord
from dask_rac.base.settings import Settings
from dask_rac.base.spans import Span
from dask_rac.engines.certain.spanning_rows import row_bands, span_rows
from dask_rac.engines.certain.spanning_state import (
    ForestEdges,
    join_forests,
    join_parts,
    no_forest,
    outline_of,
    span_order,
)
from dask_rac.engines.certain.spanning_vectors import VectorSpans, first_forest, vector_bands, vectors_view
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.engines.start import Start
from dask_rac.kernels.arrays import Ends, empty_merges, part
from dask_rac.kernels.forest import unite
from dask_rac.kernels.light import lightest_ends
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.stream import check_distances
from dask_rac.vectors.pairs.triangle import Progress, triangle_entries
from dask_rac.vectors.pairs.vector_pairs import VectorPairs


def merge_spanning(  # noqa: PLR0913, PLR0917 - the parameters of every engine
    pairs: AllPairs, start: Start, memory: int, settings: Settings, team: Team, report: Listener, limits: Limits
) -> MergeList:
    """Cluster all pairs by single linkage, in memory of the order of the nodes."""
    started = perf_counter()
    if isinstance(pairs, VectorPairs):
        forest = _span_vectors(pairs, start, team, report)
    else:
        forest = _span_distances(pairs, start, memory, team, report)
    report(Event("rounds", start.nodes))
    return merge_forest(forest, start, settings, perf_counter() - started)


def merge_forest(
    forest: ForestEdges, start: Start, settings: Settings, seconds: float = 0.0, before: int = 0
) -> MergeList:
    """Return the merges of a spanning forest of the clusters of a start, with the edges that made them.

    They are one round, which follows those `before`.
    """
    order = span_order(forest, start)
    order = order[forest.weight[order] <= settings.sign * settings.max_height]
    rows = len(start.ids)
    merges = empty_merges(len(order), np.dtype(np.int64))
    count = unite(order, forest, (np.arange(rows), start.size.astype(np.int64)), merges)
    merges = part(merges, None, count)
    merges = merges._replace(left=start.ids[merges.left], right=start.ids[merges.right])
    record = RoundRecord(rows, triangle_entries(rows), count, finish_seconds=seconds, finisher=True, round=before + 1)
    ends = edge_ends(forest, order[:count], start)
    return MergeList(start.nodes, merges, np.full(count, before + 1, np.int32), [record] if count else [], ends=ends)


def edge_ends(forest: ForestEdges, taken: NDArray[np.intp], start: Start) -> Ends:
    """Return the nodes of the edges that are taken, in their order."""
    source, target = forest.source[taken], forest.target[taken]
    ends = Ends(np.empty(len(taken), np.int64), np.empty(len(taken), np.int64))
    lightest_ends((start.member, start.begin), (source, target), ends, np.empty(len(taken), np.uint64))
    return ends


def _span_vectors(pairs: VectorPairs, start: Start, team: Team, report: Listener) -> ForestEdges:
    """Span all pairs of vectors, band by band."""
    if pairs.nodes < 2:
        return no_forest()
    view = vectors_view(pairs, team)
    first = first_forest(pairs, view, team)
    spans = VectorSpans(pairs, view, outline_of(first, pairs.nodes))
    return _joined(spans.span_band, vector_bands(pairs.nodes), first, start, team, report)


def _span_distances(pairs: AllPairs, start: Start, memory: int, team: Team, report: Listener) -> ForestEdges:
    """Span all pairs of given distances; bands that threads have at a time know the forest of those before."""
    check_distances(pairs, report)
    forest = no_forest()
    bands = row_bands(pairs.nodes, memory // (8 * team.threads))
    progress = Progress(pairs.nodes, len(bands), report)
    for first in range(0, len(bands), team.threads):
        some = bands[first : first + team.threads]
        known = forest
        found = team.run(lambda band, known=known: span_rows(pairs, start, known, band), some)
        forest = join_forests([forest, *found], start)
        for _ in some:
            progress.add()
    return forest


def _joined(
    span: Callable[[Span], Iterable[ForestEdges]],
    bands: Sequence[Span],
    first: ForestEdges,
    start: Start,
    team: Team,
    report: Listener,
) -> ForestEdges:
    """Join the forests of all bands as they come; more than a few times the edges of one are never held."""
    rows, lock = len(start.ids), Lock()
    held = [first]
    progress = Progress(rows, len(bands), report)

    def add(band: Span) -> None:
        found = join_parts(span(band), start)
        with lock:
            held.append(found)
            if sum(len(forest.weight) for forest in held) > 4 * rows:
                held[:] = [join_forests(held, start)]
        progress.add()

    team.run(add, bands)
    return join_forests(held, start)
