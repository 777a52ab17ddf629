"""Distances that are given and do not fit in memory: near pairs, and the pass that reduces them to clusters.

Both read the triangle of the distances once, in bands of rows. A band is reduced by threads that each have some rows of
the triangle of clusters, and add to them in the order of the distances, so that no sum depends on their number.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Listener
from dask_rac.base.spans import Span
from dask_rac.engines.certain.groups import Grouped
from dask_rac.engines.near import NearPairs, TooManyPairsError
from dask_rac.kernels.matrix.weights import LARGEST, MEAN
from dask_rac.kernels.near.given import Clustered, count_within, reduce_band, take_within
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.condensed import CondensedPairs
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.square import SquarePairs
from dask_rac.vectors.pairs.stream import checked_rows
from dask_rac.vectors.pairs.triangle import Progress, triangle_entries, triangle_spans

BAND_ENTRIES = 2**22  # of the triangle, read at a time

Band = tuple[Span, NDArray[np.float64]]
"""Rows of a triangle, and their entries."""


def near_given(pairs: AllPairs, radius: float, most: int, report: Listener) -> NearPairs:
    """Return all pairs up to a radius; raise if there are more than `most`, or if a distance is not valid."""
    assert isinstance(pairs, SquarePairs | CondensedPairs)
    parts, count = [], 0
    for (first, last), entries in checked_rows(pairs, report):
        within = count_within(entries, radius)
        count += within
        if count > most:
            raise TooManyPairsError(count)
        found = NearPairs(np.empty(within, np.int32), np.empty(within, np.int32), np.empty(within))
        take_within(entries, (first, last, pairs.nodes), radius, found)
        parts.append(found)
    return NearPairs(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def reduce_given(
    pairs: AllPairs, groups: Grouped, code: int, span: Span, team: Team, report: Listener
) -> NDArray[np.float64]:
    """Return rows `span` of the triangle of clusters."""
    begin = triangle_entries(span[0])
    out = np.full(triangle_entries(span[1]) - begin, -np.inf if code == LARGEST else 0.0)
    clusters = groups.clusters
    slot = np.full(pairs.nodes, -1)
    slot[groups.row] = clusters - 1 - np.repeat(np.arange(clusters), np.diff(groups.begin))
    share = groups.share if code != LARGEST else np.ones(pairs.nodes)
    held = Clustered(slot[::-1].copy(), share[::-1].copy(), begin, out)
    own = [(max(low, span[0]), min(high, span[1])) for low, high in triangle_spans(clusters, 2 * team.threads)]
    own = [rows for rows in own if rows[0] < rows[1]]
    for rows, entries in _bands(pairs, report):
        team.run(reduce_band, own, code, entries, rows, held)
    return out


def near_given_clusters(
    pairs: AllPairs, groups: Grouped, code: int, span: Span, radius: float, team: Team
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the pairs of clusters in rows `span` whose W is at most `radius`, the smaller index first, and entries."""
    entries = reduce_given(pairs, groups, code, span, team, lambda _: None)
    slot = np.repeat(np.arange(*span), np.arange(*span))
    other = np.arange(len(entries)) + triangle_entries(span[0]) - slot * (slot - 1) // 2
    size = np.add.reduceat(groups.share[groups.row], groups.begin[:-1])[::-1]
    near = np.flatnonzero((entries / (size[slot] * size[other]) if code == MEAN else entries) <= radius)
    last = groups.clusters - 1
    return last - slot[near], last - other[near], entries[near]


def _bands(pairs: AllPairs, report: Listener) -> Iterator[Band]:
    """Yield the triangle of given distances in bands of rows; each overwrites the one before."""
    spans = triangle_spans(pairs.nodes, -(-triangle_entries(pairs.nodes) // BAND_ENTRIES))
    progress = Progress(pairs.nodes, len(spans), report)
    room = np.empty(max(triangle_entries(last) - triangle_entries(first) for first, last in spans))
    for first, last in spans:
        entries = room[: triangle_entries(last) - triangle_entries(first)]
        pairs.read(first, last, entries)
        yield (first, last), entries
        progress.add()
