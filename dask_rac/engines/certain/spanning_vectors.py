"""The lightest spanning forest of vectors: float32 products leave out what is certainly heavier than a known path.

A first forest joins every vector to the nearest of a sample, whose own tree is computed. Vectors are put in the order
of the leaves of that forest, where the heaviest edge on the path between two is the highest gap between them. Then all
pairs are screened: a pair can only be in the lightest tree if it is no heavier than this path. A score that differs
from the true value by at most its slack (`vectors.compare.search`) decides that for nearly all; the others are weighed
in float64. Gaps between a row of a band and a column beyond the band are the larger one of two: the highest gap from
the row to the end of the band, and that from there to the column. So one comparison per row and one per column do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.spans import Span, batches
from dask_rac.engines.certain.spanning_state import ForestEdges, Outline
from dask_rac.engines.matrix.state import members_of
from dask_rac.engines.start import single_nodes
from dask_rac.kernels.arrays import part
from dask_rac.kernels.light import Screen, take_beyond, take_within
from dask_rac.kernels.matrix.spanning import span_groups
from dask_rac.kernels.vectors.pairs import COSINE, EUCLIDEAN, INNER, MANHATTAN, SQUARED, Points, weigh_pairs
from dask_rac.tasks.team import Team
from dask_rac.vectors.compare.blas import one_core
from dask_rac.vectors.compare.check import PIECE, check_span, combined, view_of
from dask_rac.vectors.compare.limits import CompareLimits
from dask_rac.vectors.compare.metrics import Metric
from dask_rac.vectors.compare.search import UNITS, Side, View, prepare, search, tiles
from dask_rac.vectors.pairs.triangle import triangle_entries
from dask_rac.vectors.pairs.vector_pairs import VectorPairs
from dask_rac.vectors.sources.chosen import choose_rows

SAMPLE = 4096  # vectors of the sample, at most
SAMPLE_SHARE = 32  # one vector in so many is in the sample, if that is fewer
BAND = 4096  # rows of a band
FOUND = 2**18  # pairs that are weighed at a time

Floats = NDArray[np.float64]
Places = tuple[NDArray[np.int32], NDArray[np.int32]]
Takes = Callable[[NDArray[np.floating], Span, int, Places], Span]
"""Writes the pairs of a tile that may be light, from a row on; returns how many, and the row to go on with."""


def vector_bands(rows: int, first: int = 0) -> list[Span]:
    """Return bands of places from one on; the first have the most pairs."""
    return list(batches(first, rows, BAND))


def vectors_view(pairs: VectorPairs, team: Team) -> View:
    """Return how vectors are compared; raise if they cannot be."""
    spans = list(batches(0, pairs.nodes, -(-pairs.nodes // team.threads)))
    found = combined(team.run(lambda span: check_span(pairs.source, PIECE, *span), spans))
    return view_of(found, pairs.nodes, pairs.metric, CompareLimits())


def first_forest(pairs: VectorPairs, view: View, team: Team) -> ForestEdges:
    """Return a spanning tree that is light but not the lightest: vectors with the nearest of a sample."""
    count = max(1, min(SAMPLE, pairs.nodes // SAMPLE_SHARE))
    chosen = np.arange(count) * pairs.nodes // count
    sample = VectorPairs(choose_rows(pairs.source, chosen), pairs.metric)
    tree = _sample_tree(sample)
    others = prepare(sample.source.read(0, count), 0, view)

    def nearest(span: Span) -> ForestEdges:
        with one_core():
            lists = search(prepare(pairs.source.read(*span), 0, view), others, 1)[0]
        return ForestEdges(np.arange(*span), chosen[lists.neighbour[:, 0]], lists.weight[:, 0])

    found = team.run(nearest, list(batches(0, pairs.nodes, BAND)))
    tree = tree._replace(source=chosen[tree.source], target=chosen[tree.target])
    return ForestEdges._make(np.concatenate(columns) for columns in zip(tree, *found, strict=True))


def _sample_tree(sample: VectorPairs) -> ForestEdges:
    """Return the lightest spanning tree of a few vectors."""
    count = sample.nodes
    triangle = np.empty(triangle_entries(count))
    sample.read(0, count, triangle)
    tree = ForestEdges(np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count))
    tree = part(tree, None, span_groups(triangle, members_of(single_nodes(count)), (0, count, 0, count), tree))
    return tree._replace(source=count - 1 - tree.source, target=count - 1 - tree.target)  # slots are in reverse


class Bounds(NamedTuple):
    """How far scores of two sides may be from their true values, as `kernels.light.Screen` takes it."""

    slack: Floats
    """What each row allows."""
    rate: NDArray[np.floating]
    half: NDArray[np.floating]
    norm: NDArray[np.floating]


def _bounds_of(own: Side, others: Side) -> Bounds:
    """Return the bounds of `vectors.compare.search`, pair by pair: one far outlier must not blur all other scores.

    There a bound holds for a row and the largest norm of the others. Here the norms of both are multiplied, and squares
    of sums are at most twice the sums of squares. Each score is rounded a few times more, hence 8 instead of 4.
    """
    view = own.view
    screen, metric = np.dtype(view.screen), view.metric
    half = others.square / 2 if metric.squares else np.zeros(len(others))
    terms, unit, exact = max(own.dimensions, others.dimensions) + 16, UNITS[view.screen], UNITS["float64"]
    if view.whole:
        still = np.zeros(len(own))
        return Bounds(still, still.astype(screen), half.astype(screen), np.zeros(len(others), screen))
    least = 2 * terms * float(np.finfo(screen).smallest_subnormal)
    rate = np.zeros(len(own)) if metric.code == MANHATTAN else 1.01 * unit * terms * own.norm

    def allowed(side: Side) -> Floats:
        if metric.code == MANHATTAN:
            return unit * terms * side.norm + least * (1 + side.norm)
        squares = 0.0 if metric.code == INNER else 8 * unit + 2 * terms * exact
        return squares * side.norm * side.norm + least * (1 + side.norm)

    below = -_above(allowed(others) - half, screen)
    return Bounds(allowed(own), _above(rate, screen), below, _above(others.norm, screen))


class VectorSpans:
    """Vectors in the order of an outline, prepared for products; threads span bands of them."""

    def __init__(self, pairs: VectorPairs, view: View, outline: Outline) -> None:
        self._order, self._gap, self._metric = outline.order, outline.gap, pairs.metric
        self._side = prepare(pairs.source.read(0, pairs.nodes)[outline.order], 0, view)
        self._scores = _scores_of(outline.gap, pairs.metric)
        self._more = 0.25 * view.whole  # scores of whole numbers are halves: a quarter more covers a rounded root

    def span_band(self, band: Span) -> Iterator[ForestEdges]:
        """Yield the pairs of a band with itself and with all places beyond that may be in the lightest forest."""
        own = part_of_side(self._side, *band)
        rest = part_of_side(self._side, band[1], len(self._side))
        with one_core():
            yield from self._within(own, band[0])
            if len(rest):
                yield from self._beyond(own, rest, band)

    def _within(self, own: Side, first: int) -> Iterator[ForestEdges]:
        """Yield the pairs of a band with itself."""
        bounds, gaps = _bounds_of(own, own), self._scores[first : first + len(own)]
        none = np.empty(0, bounds.rate.dtype)
        screen = Screen(none, self._slack(own, bounds), bounds.rate, bounds.half, none, bounds.norm)

        def take(tile: NDArray[np.floating], at: Span, begin: int, found: Places) -> Span:
            taken: Span = take_within(tile, at, gaps, screen, begin, found)
            return taken

        for rows, places, weight in self._light(own, own, True, take):
            yield ForestEdges(self._order[first + rows], self._order[first + places], weight)

    def _beyond(self, own: Side, rest: Side, band: Span) -> Iterator[ForestEdges]:
        """Yield the pairs of a band with all places beyond."""
        first, last = band
        bounds = _bounds_of(own, rest)
        slack = self._slack(own, bounds)
        scores, gaps = (_highest(values, first, last) for values in (self._scores, self._gap))
        high = _above(scores[0] + slack.astype(np.float64), slack.dtype)
        lowered = -_above(scores[1] - bounds.half.astype(np.float64), slack.dtype)
        screen = Screen(high, slack, bounds.rate, bounds.half, lowered, bounds.norm)

        def take(tile: NDArray[np.floating], at: Span, begin: int, found: Places) -> Span:
            taken: Span = take_beyond(tile, at, screen, begin, found)
            return taken

        for rows, places, weight in self._light(own, rest, False, take):
            kept = weight <= np.maximum(gaps[0][rows], gaps[1][places])
            yield ForestEdges(self._order[first + rows[kept]], self._order[last + places[kept]], weight[kept])

    def _slack(self, own: Side, bounds: Bounds) -> NDArray[np.floating]:
        """Return, for each row, the largest score of a pair that may not be heavier than a gap of score 0."""
        half = own.square / 2 if self._metric.squares else np.zeros(len(own))
        return _above(bounds.slack + self._more - half, bounds.rate.dtype)

    def _light(
        self, own: Side, others: Side, same: bool, take: Takes
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], Floats]]:
        """Yield the pairs that may be light, with their weights."""
        room = np.empty((2, max(FOUND, len(others))), np.int32)
        for (row, place, _), tile in tiles(own, others, same):
            begin = 0
            while begin < len(tile):
                count, begin = take(tile, (row, place), begin, (room[0], room[1]))
                if count:
                    rows, places = room[0, :count].copy(), room[1, :count].copy()
                    weight = np.empty(count)
                    weigh_pairs(own.points, others.points, (rows, places), self._metric.code, weight)
                    yield rows, places, weight


def part_of_side(side: Side, first: int, last: int) -> Side:
    """Return some of the vectors that are prepared for products, not copied."""
    points, span = side.points, slice(first, last)
    rows = side.rows
    if len(points.start) > 1:
        begin, end = int(points.start[first]), int(points.start[last])
        start = points.start[first : last + 1] - begin
        points = Points(points.dense, start, points.term[begin:end], points.value[begin:end], points.square[span])
        rows = start, points.term, side.rows[2][begin:end]
    else:
        points = points._replace(dense=points.dense[span])
    matrix = None if side.matrix is None else side.matrix[span]
    return replace(side, points=points, rows=rows, matrix=matrix, square=side.square[span], norm=side.norm[span])


def _scores_of(weight: Floats, metric: Metric) -> Floats:
    """Convert weights to scores, to which half the squared norm of the row is still to be added."""
    if metric.code == EUCLIDEAN:
        return 0.5 * weight * weight
    if metric.code == SQUARED:
        return 0.5 * weight
    return weight - 1.0 if metric.code == COSINE else weight


def _highest(gap: Floats, first: int, last: int) -> tuple[Floats, Floats]:
    """Return the highest gap from each place of a band to its last one, and from there to each place beyond."""
    within = np.full(last - first, -np.inf)
    within[:-1] = np.maximum.accumulate(gap[first : last - 1][::-1])[::-1]
    return within, np.maximum.accumulate(gap[last - 1 : -1])


def _above(values: NDArray[np.floating], dtype: np.dtype[np.floating]) -> NDArray[np.floating]:
    """Round up to another precision."""
    rounded: NDArray[np.floating] = np.nextafter(values.astype(dtype), dtype.type(np.inf))
    return rounded
