"""All pairs of vectors: the same weights to the last bit as in a graph of them."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Event, Listener
from dask_rac.base.spans import even_spans, starts_of
from dask_rac.kernels.vectors.pairs import COSINE, Points
from dask_rac.kernels.vectors.triangle import weigh_dense_rows, weigh_sparse_rows
from dask_rac.tasks.team import Team
from dask_rac.vectors.compare.check import PIECE, check_span, combined, view_of
from dask_rac.vectors.compare.limits import CompareLimits
from dask_rac.vectors.compare.metrics import METRICS, Metric, refuse_sparse
from dask_rac.vectors.compare.search import as_points, squares
from dask_rac.vectors.pairs.triangle import fill_rows
from dask_rac.vectors.sources.opening import VectorSource


class DensePoints(NamedTuple):
    """Dense vectors as they were given, and their norms if they are to be divided by them."""

    vectors: NDArray[Any]
    lengths: NDArray[np.float64]


class SparsePoints(NamedTuple):
    """Sparse vectors by node, and by dimension: where each begins, slots in ascending order, values."""

    points: Points
    postings: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]


class VectorPairs:
    """All pairs of vectors, which are held in memory; threads compute rows of the triangle."""

    def __init__(self, source: VectorSource, metric: Metric, squares: bool = False) -> None:
        if source.sparse:
            refuse_sparse(metric, source.name)
        self.nodes, self.name, self.weights = source.rows, source.name, metric.weights
        self.squares = squares
        self.source, self.metric = source, METRICS["sqeuclidean"] if squares else metric

    def check(self, team: Team, report: Listener) -> None:
        """Raise if vectors cannot be compared, as for graphs."""
        spans = even_spans(self.nodes, team.threads)
        report(Event("vectors", n_nodes=self.nodes, total=len(spans)))
        found = combined(team.run(lambda span: check_span(self.source, PIECE, *span), spans))
        view_of(found, self.nodes, self.metric, CompareLimits())

    def fill(self, triangle: NDArray[np.float64], team: Team, report: Listener) -> None:
        """Compute the whole triangle."""
        _ = self.held  # loaded before threads ask for it
        fill_rows(self.read, triangle, self.nodes, team, report)

    def read(self, first: int, last: int, out: NDArray[np.float64]) -> None:
        """Compute rows `first` to `last` of the triangle."""
        held, metric = self.held, self.metric.code
        if isinstance(held, DensePoints):
            weigh_dense_rows(held.vectors, held.lengths, metric, (first, last), out)
        else:
            weigh_sparse_rows(held.points, held.postings, metric, (first, last), out)

    @cached_property
    def held(self) -> DensePoints | SparsePoints:
        """The vectors in memory."""
        block = self.source.read(0, self.nodes)
        if self.source.sparse:
            return by_dimension(as_points(block, self.metric), self.source.dimensions)
        return DensePoints(block, np.sqrt(squares(block)) if self.metric.code == COSINE else np.empty(0))


def by_dimension(points: Points, dimensions: int) -> SparsePoints:
    """Add to sparse vectors the list of their values in each dimension, vectors in reverse."""
    nodes = len(points.start) - 1
    slots = np.repeat(np.arange(nodes - 1, -1, -1, dtype=np.int32), np.diff(points.start))
    order = np.lexsort((slots, points.term))
    starts = starts_of(np.bincount(points.term, minlength=dimensions))
    return SparsePoints(points, (starts, slots[order], points.value[order]))
