"""A pass over dense vectors by their products: largest weights by any metric but manhattan, or sums of distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dask_rac.engines.certain.order import Job, parts_of
from dask_rac.kernels.certain.arrays import Order
from dask_rac.kernels.certain.fold import PIECE
from dask_rac.kernels.certain.products import CANCELS, Room, Screen, fold_products, square_norms
from dask_rac.kernels.matrix.weights import LARGEST
from dask_rac.kernels.vectors.pairs import COSINE, EUCLIDEAN, MANHATTAN
from dask_rac.kernels.vectors.products import TALL, WIDE
from dask_rac.vectors.compare.check import check_span, view_of
from dask_rac.vectors.compare.limits import CompareLimits
from dask_rac.vectors.compare.search import UNITS, View, squares
from dask_rac.vectors.pairs.vector_pairs import VectorPairs

CHECKED = 2**20  # values that are looked at at a time
SAMPLE = 4096  # pairs of vectors
MOST_NEAR = 1 / 8  # of these may be so near that their differences are needed; with more, products do not pay
ROWS = 384  # of a tile, at most
COLUMNS = 256
ROW_VALUES = 2**16  # of the vectors of its rows
COLUMN_VALUES = 2**14
LEAST_ROWS = 16
HELD = 1024  # pairs that wait to be weighed


def suits_products(pairs: VectorPairs, code: int) -> bool:
    """Whether products are a way to reduce dense vectors by a linkage."""
    metric = pairs.metric.code
    return metric != MANHATTAN if code == LARGEST else metric == EUCLIDEAN


class Products:
    """Reduces dense vectors by their products, in float32 where that is enough to decide."""

    def __init__(self, pairs: VectorPairs, order: Order, code: int) -> None:
        vectors = pairs.source.read(0, pairs.nodes)
        lengths = np.sqrt(squares(vectors)) if pairs.metric.code == COSINE else np.empty(0)
        # Not in several threads: the last bits of the centre show in those of sums.
        view = view_of(check_span(pairs.source, CHECKED, 0, pairs.nodes), pairs.nodes, pairs.metric, CompareLimits())
        self.begin = order.begin
        self._given, self._rule, self._order = (vectors, lengths), (code, pairs.metric.code), order
        self._kind = "float64" if code != LARGEST and not view.whole else view.screen
        self._screen = _screen_of(self._given, view, self._kind, order)

    @property
    def pays(self) -> bool:
        """Whether most sums of distances can be had from products, by a sample of pairs that is always the same."""
        (vectors, _), screen = self._given, self._screen
        if self._rule[0] == LARGEST or screen.exact:
            return True
        one, other = np.random.default_rng(0).integers(0, len(vectors), (2, SAMPLE))
        moved = [vectors[self._order.row[places]] - screen.centre for places in (one, other)]
        both = screen.half[one] + screen.half[other]
        near = both - np.einsum("ij,ij->i", *moved) < screen.terms * CANCELS * both
        return float(near[one != other].mean()) <= MOST_NEAR if (one != other).any() else True

    def fill(self, job: Job, base: int, out: NDArray[np.float64]) -> None:
        """Write a part of the triangle of clusters."""
        dimensions = self._given[0].shape[1]
        rows = _rows_of(dimensions)
        room: Room | None = None
        for part in parts_of(self._order, job, base, rows):
            if room is None or len(room.own) < part.last - part.first:
                room = _room_of(part.last - part.first, dimensions, self._kind)
            fold_products((self._given, room), self._screen, self._rule, self._order, part, out)


def _screen_of(given: tuple[NDArray[np.generic], NDArray[np.float64]], view: View, kind: str, order: Order) -> Screen:
    """Return what is known of all vectors before they are multiplied."""
    centre = np.empty(0) if view.centre is None else view.centre
    square = np.empty(len(order.row))
    square_norms(given, centre, square)
    square = square[order.row]
    terms = given[0].shape[1] + 8.0
    unit = UNITS[kind]
    norm = np.sqrt(square)
    return Screen(
        centre,
        (square / 2 if view.metric.squares else np.zeros(len(square))).astype(kind),
        norm,
        np.maximum.reduceat(norm, order.begin[:-1]),
        view.whole,
        unit,
        terms / (1.0 - terms * unit),
        float(np.finfo(kind).smallest_subnormal),
    )


def _rows_of(dimensions: int) -> int:
    """Return how many rows a tile has."""
    return max(LEAST_ROWS, min(ROWS, ROW_VALUES // dimensions))


def tile_bytes(dimensions: int) -> int:
    """Return the memory of a tile, which each thread needs."""
    rows = max(PIECE, _rows_of(dimensions))  # a part has whole pieces
    return sum(array.nbytes for array in _room_of(rows, dimensions, "float64"))


def _room_of(rows: int, dimensions: int, kind: str) -> Room:
    """Return room for tiles of so many rows."""
    lanes = WIDE // np.dtype(kind).itemsize
    columns = lanes * max(1, min(COLUMNS, COLUMN_VALUES // dimensions) // lanes)
    high = -(-rows // TALL) * TALL
    return Room(
        np.empty((rows, dimensions)),
        np.empty((columns, dimensions)),
        np.zeros((high, dimensions), kind),
        np.zeros((columns // lanes, dimensions * lanes), kind),
        np.empty((high, columns), kind),
        np.empty((HELD, 3), np.int64),
    )
