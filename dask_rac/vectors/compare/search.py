"""Find the pairs that matter between two spans of vectors: all products in tiles, then exact weights of the candidates.

How far a score may be from the true value is known beforehand. A product of d float32 terms is off by at most d times
the rounding unit times both norms, and a little more for very many terms; rounding the terms themselves and adding the
squared norm cost a little more. All vectors are centred first, because rounding would erase the small differences
between large numbers. Whole numbers that are small enough, such as SIFT's, have exact products and need no slack.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.base.spans import batches
from dask_rac.kernels.vectors.pairs import COSINE, INNER, MANHATTAN, Points, weigh_pairs
from dask_rac.kernels.vectors.screen import Shelf, count_near, scan, set_limits, settle, take_near
from dask_rac.kernels.vectors.tiles import differ_rows, spread_rows
from dask_rac.vectors.compare.limits import CompareLimits
from dask_rac.vectors.compare.metrics import Metric

UNITS = {"float32": 2.0**-24, "float64": 2.0**-50}
"""Rounding unit of scores, with room for the rounding of weights where both have the same precision."""

Block = NDArray[Any] | sp.csr_array


@dataclass(frozen=True)
class View:
    """What must be known about all vectors before any two are compared."""

    metric: Metric
    screen: str
    """dtype of products."""
    whole: bool
    """Whether products are exact."""
    centre: NDArray[np.float64] | None
    """What is subtracted from every vector first, if anything."""
    limits: CompareLimits = field(default_factory=CompareLimits)


@dataclass(frozen=True)
class Side:
    """A span of vectors, prepared for comparison."""

    first: int
    """The id of the first vector."""
    points: Points
    view: View
    matrix: NDArray[np.floating] | None
    """Dense vectors in the form that products use."""
    rows: tuple[NDArray[Any], ...]
    """Sparse vectors: starts, terms, values."""
    square: NDArray[np.float64]
    """The squared norm of each vector, in the form that products use."""
    norm: NDArray[np.float64]
    """The bound on the products of each vector: its norm, or the sum of its absolute values."""
    dimensions: int
    """The most terms in a product."""

    def __len__(self) -> int:
        return len(self.square)


def as_points(block: Block, metric: Metric) -> Points:
    """Copy vectors into the form that exact kernels use; for cosines they are scaled to length 1."""
    lengths = np.sqrt(squares(block)) if metric.code == COSINE else None
    if isinstance(block, np.ndarray):
        exact = np.float64 if block.dtype == np.float64 or lengths is not None else np.float32
        dense: NDArray[np.floating] = np.array(block, exact, order="C")
        if lengths is not None:
            dense /= lengths[:, None]
        return Points(dense, np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0))
    start, term, value = block.indptr.astype(np.int64), block.indices.astype(np.int32), block.data.astype(np.float64)
    if lengths is not None:
        value /= np.repeat(lengths, np.diff(start))
    return Points(np.empty((0, 0), np.float32), start, term, value, _row_sums(start, value * value))


def squares(block: Block) -> NDArray[np.float64]:
    """Return the squared norm of each vector."""
    if isinstance(block, np.ndarray):
        sums: NDArray[np.float64] = np.einsum("ij,ij->i", block, block, dtype=np.float64)
        return sums
    value = block.data.astype(np.float64)
    return _row_sums(block.indptr, value * value)


def prepare(block: Block, first: int, view: View) -> Side:
    """Prepare a span of vectors for comparison."""
    points = as_points(block, view.metric)
    if isinstance(block, np.ndarray):
        matrix, square, norm = _dense_matrix(points, view)
        return Side(first, points, view, matrix, (), square, norm, block.shape[1])
    rows = points.start, points.term, points.value.astype(view.screen)
    terms = int(np.diff(points.start).max(initial=0))
    return Side(first, points, view, None, rows, points.square, np.sqrt(points.square), terms)


def _row_sums(start: NDArray[Any], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of the entries of each row."""
    rows = np.repeat(np.arange(len(start) - 1), np.diff(start))
    return np.bincount(rows, values, len(start) - 1).astype(np.float64)


def _dense_matrix(points: Points, view: View) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
    """Return dense vectors for products, their squared norms, and the bounds on their products."""
    exact = points.dense
    square, norm = np.empty(len(exact)), np.empty(len(exact))
    unchanged = exact.dtype == view.screen and view.centre is None
    matrix = exact if unchanged else np.empty(exact.shape, view.screen)
    for span in batches(0, len(exact), view.limits.converted_rows):
        part = slice(*span)
        moved = exact[part].astype(np.float64)
        if view.centre is not None:
            moved -= view.centre
        if not unchanged:
            matrix[part] = moved
        square[part] = np.einsum("ij,ij->i", moved, moved)
        norm[part] = np.abs(moved).sum(axis=1) if view.metric.code == MANHATTAN else np.sqrt(square[part])
    return matrix, square, norm


def new_shelf(side: Side, others: Side, room: int, reach: NDArray[np.float64] | None = None) -> Shelf:
    """Return a shelf with room for `room` candidates per row; those beyond `reach` are left out."""
    count, screen, metric = len(side), side.view.screen, side.view.metric
    slack = _slack(side, others)
    base = side.square if metric.squares else np.zeros(count)
    half = (side.square / 2 if metric.squares else np.zeros(count)).astype(screen)
    held = np.zeros(count, np.int32), np.empty((count, room), screen), np.empty((count, room), np.int32)
    shelf = Shelf(side.points, half, base, slack.astype(screen), np.full(count, np.inf, screen), *held)
    if reach is not None:  # scores of whole numbers are halves: a quarter more covers a rounded root
        set_limits(shelf, reach, 0.25 * side.view.whole, metric.code)
    return shelf


def _slack(side: Side, others: Side) -> NDArray[np.float64]:
    """Return how far the scores of each row may be from the true value and from that of a rounded weight."""
    if side.view.whole:
        return np.zeros(len(side))
    screen, metric = side.view.screen, side.view.metric
    terms, unit = max(side.dimensions, others.dimensions) + 8, UNITS[screen]
    share = math.expm1(terms * unit)  # at least (1 + unit)**terms - 1
    largest = float(others.norm.max(initial=0.0))
    both = side.norm + largest
    least = terms * float(np.finfo(screen).smallest_subnormal) * (2 + both)  # for products in the subnormal range
    if metric.code == MANHATTAN:
        return share * both + least
    if metric.code == INNER:
        return share * side.norm * largest + least
    return share * side.norm * largest + 4 * unit * largest**2 + terms * UNITS["float64"] * both**2 + least


def tiles(own: Side, others: Side, same: bool) -> Iterator[tuple[tuple[int, int, bool], NDArray[np.floating]]]:
    """Yield tiles of products and where they begin, so that each row meets the ids of the other side in order.

    For a span with itself, only tiles above the diagonal are needed. Each tile overwrites the one before.
    """
    if own.matrix is None or others.matrix is None:
        yield from _sparse_tiles(own, others, same)
        return
    high, wide = own.view.limits.tile_rows, own.view.limits.tile_columns
    room = np.empty(high * wide, own.view.screen)
    for place in range(0, len(others), wide):
        columns = others.matrix[place : place + wide].T
        if own.view.metric.code == MANHATTAN:
            columns = np.ascontiguousarray(columns)
        width = columns.shape[1]
        for row in range(0, min(len(own), place + width) if same else len(own), high):
            lines = own.matrix[row : row + high]
            tile = room[: len(lines) * width].reshape(len(lines), width)
            if own.view.metric.code == MANHATTAN:
                differ_rows(lines, columns, tile)
            else:
                np.matmul(lines, columns, out=tile)
            yield (row, place, same), tile


def _sparse_tiles(own: Side, others: Side, same: bool) -> Iterator[tuple[tuple[int, int, bool], NDArray[np.floating]]]:
    """Yield tiles of products of sparse vectors, each of some rows with all vectors of the other span."""
    start, term, value = others.rows
    terms = 1 + max(int(side.rows[1].max(initial=-1)) for side in (own, others))
    turned = sp.csr_array((value, term, start), shape=(len(others), terms)).tocsc()
    postings = turned.indptr.astype(np.int64), turned.indices.astype(np.int32), turned.data
    cursor = postings[0][:-1].copy()
    step = max(1, own.view.limits.sparse_tile // max(1, len(others)))
    room = np.empty(step * len(others), own.view.screen)
    for row, last in batches(0, len(own), step):
        tile = room[: (last - row) * len(others)].reshape(last - row, len(others))
        spread_rows(own.rows, (row, last, same), postings, cursor, tile)
        yield (row, 0, same), tile


@dataclass(frozen=True)
class NeighbourLists:
    """The k nearest of each row of a span in another, or fewer."""

    count: NDArray[np.int32]
    neighbour: NDArray[np.int64]
    weight: NDArray[np.float64]

    @classmethod
    def empty(cls, rows: int, k: int) -> NeighbourLists:
        """Return lists with room for k neighbours each."""
        return cls(np.zeros(rows, np.int32), np.full((rows, k), -1, np.int64), np.full((rows, k), np.inf))


@dataclass(frozen=True)
class Bounds:
    """Weight and id of the last of the k neighbours that each row has elsewhere; infinite if it has fewer."""

    reach: NDArray[np.float64]
    last: NDArray[np.int64]


def search(
    own: Side, others: Side | None, k: int, bounds: tuple[Bounds, Bounds] | None = None
) -> tuple[NeighbourLists, NeighbourLists | None, int]:
    """Find the k nearest of each row on the other side, for both sides; with one side, within it.

    Also return how many pairs had to be weighed because their scores were too close to decide.
    """
    room = own.view.limits.room(k)
    reaches = (None, None) if bounds is None else (bounds[0].reach, bounds[1].reach)
    second = own if others is None else others
    mine = new_shelf(own, second, room, reaches[0])
    theirs = mine if others is None else new_shelf(second, own, room, reaches[1])
    weighed = 0
    for at, tile in tiles(own, second, others is None):
        weighed += scan(tile, at, mine, theirs, k, own.view.metric.code)
    found = _settled(mine, second, k, None if bounds is None else bounds[0])
    if others is None:
        return found, None, weighed
    return found, _settled(theirs, own, k, None if bounds is None else bounds[1]), weighed


def _settled(shelf: Shelf, others: Side, k: int, bounds: Bounds | None) -> NeighbourLists:
    """Return the k nearest of every row of a shelf."""
    rows = len(shelf.held)
    found = NeighbourLists.empty(rows, k)
    if bounds is None:
        bounds = Bounds(np.full(rows, np.inf), np.full(rows, np.iinfo(np.int64).max))
    out = found.count, found.neighbour, found.weight, bounds.reach, bounds.last
    settle(shelf, others.points, others.first, k, others.view.metric.code, out)
    return found


Near = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64]]
"""Positions of rows, ids of the others, weights."""


def near(own: Side, others: Side, eps: float, same: bool) -> Iterator[Near]:
    """Yield the pairs of two spans at most `eps` apart, tile by tile; for a span with itself, each pair once."""
    rows = len(own)
    mine = new_shelf(own, others, 0, np.full(rows, eps))
    theirs = mine if same else new_shelf(others, own, 0)
    for at, tile in tiles(own, others, same):
        count = count_near(tile, at, mine, theirs)
        if not count:
            continue
        places = np.empty(count, np.int32), np.empty(count, np.int32)
        take_near(tile, at, mine, theirs, places)
        weight = np.empty(count)
        weigh_pairs(own.points, others.points, places, own.view.metric.code, weight)
        kept = weight <= eps
        yield places[0][kept], places[1][kept].astype(np.int64) + others.first, weight[kept]
