"""Two spans of vectors to the pairs that matter: all products in tiles, the candidates among them weighed exactly.

How far a score may be from the truth is known beforehand. A product of d float32 terms is off by at most d times the
rounding unit times both norms, rounding the terms themselves and adding the squared norm a little more. Vectors are
moved together first, as large numbers that differ little would leave nothing to tell them apart by. Whole numbers that
are small enough, such as SIFT's, have exact products, and no slack at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.kernels.pairs import COSINE, INNER, MANHATTAN, Points, weigh_pairs
from dask_rac.kernels.screen import Shelf, count_near, scan, set_limits, settle, take_near
from dask_rac.kernels.tiles import differ_rows, spread_rows
from dask_rac.vectors.metrics import Metric

TILE_ROWS, TILE_COLUMNS = 512, 1024
SPARSE_TILE = 2**19  # products of sparse rows at a time
CONVERTED = 4096  # rows prepared at a time
MOST_WHOLE = 2.0**22  # the squared norm up to which scores of whole numbers are exact in float32
UNITS = {"float32": 2.0**-24, "float64": 2.0**-50}
"""Rounding, with room for that of weights where they are as fine as scores."""

Block = NDArray[Any] | sp.csr_array


@dataclass(frozen=True)
class View:
    """What is to be known of all vectors before two are compared."""

    metric: Metric
    screen: str
    """dtype of products."""
    whole: bool
    """Whether products are exact."""
    centre: NDArray[np.float64] | None
    """What is taken from every vector first, if anything."""


@dataclass(frozen=True)
class Side:
    """A span of vectors, ready to be compared."""

    first: int
    """The id of the first vector."""
    points: Points
    view: View
    matrix: NDArray[np.floating] | None
    """Dense vectors as products take them."""
    rows: tuple[NDArray[Any], ...]
    """Sparse ones: starts, terms, values."""
    square: NDArray[np.float64]
    """The squared norm of each, as products take it."""
    norm: NDArray[np.float64]
    """What bounds its products: its norm, or the sum of its sizes."""
    dimensions: int
    """Terms of a product, at most."""

    def __len__(self) -> int:
        return len(self.square)


def as_points(block: Block, metric: Metric) -> Points:
    """Vectors as exact kernels take them, in memory of our own; for cosines those of length 1."""
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
    """The squared norm of each vector."""
    if isinstance(block, np.ndarray):
        found: NDArray[np.float64] = np.einsum("ij,ij->i", block, block, dtype=np.float64)
        return found
    value = block.data.astype(np.float64)
    return _row_sums(block.indptr, value * value)


def prepare(block: Block, first: int, view: View) -> Side:
    """A span of vectors, ready to be compared."""
    points = as_points(block, view.metric)
    if isinstance(block, np.ndarray):
        matrix, square, norm = _dense_matrix(points, view)
        return Side(first, points, view, matrix, (), square, norm, block.shape[1])
    rows = points.start, points.term, points.value.astype(view.screen)
    terms = int(np.diff(points.start).max(initial=0))
    return Side(first, points, view, None, rows, points.square, np.sqrt(points.square), terms)


def _row_sums(start: NDArray[Any], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of the entries of each row."""
    rows = np.repeat(np.arange(len(start) - 1), np.diff(start))
    return np.bincount(rows, values, len(start) - 1).astype(np.float64)


def _dense_matrix(points: Points, view: View) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
    """Dense vectors for products, their squared norms, and what bounds their products."""
    exact = points.dense
    square, norm = np.empty(len(exact)), np.empty(len(exact))
    as_they_are = exact.dtype == view.screen and view.centre is None
    matrix = exact if as_they_are else np.empty(exact.shape, view.screen)
    for start in range(0, len(exact), CONVERTED):
        part = slice(start, start + CONVERTED)
        moved = exact[part].astype(np.float64)
        if view.centre is not None:
            moved -= view.centre
        if not as_they_are:
            matrix[part] = moved
        square[part] = np.einsum("ij,ij->i", moved, moved)
        norm[part] = np.abs(moved).sum(axis=1) if view.metric.code == MANHATTAN else np.sqrt(square[part])
    return matrix, square, norm


def new_shelf(side: Side, others: Side, room: int, reach: NDArray[np.float64] | None = None) -> Shelf:
    """A shelf with room for so many candidates a row, all beyond `reach` left out."""
    count, screen, metric = len(side), side.view.screen, side.view.metric
    slack = _slack(side, others)
    base = side.square if metric.squares else np.zeros(count)
    half = (side.square / 2 if metric.squares else np.zeros(count)).astype(screen)
    held = np.zeros(count, np.int32), np.empty((count, room), screen), np.empty((count, room), np.int32)
    shelf = Shelf(side.points, half, base, slack.astype(screen), np.full(count, np.inf, screen), *held)
    if reach is not None:  # scores of whole numbers are halves: a quarter more makes up for a root that was rounded
        set_limits(shelf, reach, 0.25 * side.view.whole, metric.code)
    return shelf


def _slack(side: Side, others: Side) -> NDArray[np.float64]:
    """How far the scores of each row may be from the truth, and from what a weight that was rounded makes of it."""
    if side.view.whole:
        return np.zeros(len(side))
    screen, metric = side.view.screen, side.view.metric
    terms, unit = max(side.dimensions, others.dimensions) + 8, UNITS[screen]
    largest = float(others.norm.max(initial=0.0))
    both = side.norm + largest
    least = terms * float(np.finfo(screen).smallest_subnormal) * (2 + both)  # of products too small to be rounded
    if metric.code == MANHATTAN:
        return unit * terms * both + least
    if metric.code == INNER:
        return unit * terms * side.norm * largest + least
    return unit * (terms * side.norm * largest + 4 * largest**2) + terms * UNITS["float64"] * both**2 + least


def tiles(own: Side, others: Side, same: bool) -> Iterator[tuple[tuple[int, int, bool], NDArray[np.floating]]]:
    """Products of two spans with where they begin, so that the ids of either side ascend for each row of the other.

    Of a span with itself those above the diagonal. A tile is written over by the next.
    """
    if own.matrix is None or others.matrix is None:
        yield from _sparse_tiles(own, others, same)
        return
    room = np.empty(TILE_ROWS * TILE_COLUMNS, own.view.screen)
    for place in range(0, len(others), TILE_COLUMNS):
        columns = others.matrix[place : place + TILE_COLUMNS].T
        if own.view.metric.code == MANHATTAN:
            columns = np.ascontiguousarray(columns)
        width = columns.shape[1]
        for row in range(0, min(len(own), place + width) if same else len(own), TILE_ROWS):
            lines = own.matrix[row : row + TILE_ROWS]
            tile = room[: len(lines) * width].reshape(len(lines), width)
            if own.view.metric.code == MANHATTAN:
                differ_rows(lines, columns, tile)
            else:
                np.matmul(lines, columns, out=tile)
            yield (row, place, same), tile


def _sparse_tiles(own: Side, others: Side, same: bool) -> Iterator[tuple[tuple[int, int, bool], NDArray[np.floating]]]:
    """Products of sparse vectors, some rows with all of the others at a time."""
    start, term, value = others.rows
    terms = 1 + max(int(side.rows[1].max(initial=-1)) for side in (own, others))
    turned = sp.csr_array((value, term, start), shape=(len(others), terms)).tocsc()
    postings = turned.indptr.astype(np.int64), turned.indices.astype(np.int32), turned.data
    cursor = postings[0][:-1].copy()
    step = max(1, SPARSE_TILE // max(1, len(others)))
    room = np.empty(step * len(others), own.view.screen)
    for row in range(0, len(own), step):
        last = min(row + step, len(own))
        tile = room[: (last - row) * len(others)].reshape(last - row, len(others))
        spread_rows(own.rows, (row, last, same), postings, cursor, tile)
        yield (row, 0, same), tile


def shelf_room(k: int) -> int:
    """Candidates that a row holds at a time."""
    return max(2 * k + 32, 64)


@dataclass(frozen=True)
class Found:
    """The nearest of each row of a span in another one, or fewer."""

    count: NDArray[np.int32]
    neighbour: NDArray[np.int64]
    weight: NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """The weight and the id of the last of k neighbours that each row has elsewhere; infinite where there are fewer."""

    reach: NDArray[np.float64]
    last: NDArray[np.int64]


def search(
    own: Side, others: Side | None, k: int, bounds: tuple[Bounds, Bounds] | None = None
) -> tuple[Found, Found | None, int]:
    """The k nearest of each row on the other side, for both sides; of one side, among themselves.

    Also how many pairs had to be weighed because their scores were too close to tell.
    """
    room = shelf_room(k)
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


def _settled(shelf: Shelf, others: Side, k: int, bounds: Bounds | None) -> Found:
    """The k nearest of every row on a shelf."""
    rows = len(shelf.held)
    found = Found(np.zeros(rows, np.int32), np.full((rows, k), -1, np.int64), np.full((rows, k), np.inf))
    if bounds is None:
        bounds = Bounds(np.full(rows, np.inf), np.full(rows, np.iinfo(np.int64).max))
    out = found.count, found.neighbour, found.weight, bounds.reach, bounds.last
    settle(shelf, others.points, others.first, k, others.view.metric.code, out)
    return found


Near = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64]]
"""Places of rows, ids of the others, weights."""


def near(own: Side, others: Side, eps: float, same: bool) -> Iterator[Near]:
    """The pairs of two spans at most `eps` apart, tile by tile; of a span with itself each once."""
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
