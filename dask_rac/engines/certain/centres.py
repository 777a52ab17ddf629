"""A pass over clusters instead of vectors: sums of squared distances, cosines or products follow from their means.

`kernels.certain.centres` says how. For sparse vectors the spread is the mean squared norm less that of the mean, and
where that cancels, or where the means are as near as their rounding, the pairs of vectors are summed up one by one.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.base.spans import Span
from dask_rac.engines.certain.order import Job, job_run
from dask_rac.kernels.certain.arrays import Order
from dask_rac.kernels.certain.centres import Spreads, add_spreads, add_totals, find_means, sum_near
from dask_rac.kernels.matrix.weights import LARGEST
from dask_rac.kernels.vectors.pairs import COSINE, INNER, SQUARED, Points
from dask_rac.kernels.vectors.triangle import weigh_dense_rows, weigh_sparse_rows
from dask_rac.vectors.compare.metrics import METRICS
from dask_rac.vectors.compare.search import as_points, squares
from dask_rac.vectors.pairs.triangle import triangle_entries
from dask_rac.vectors.pairs.vector_pairs import SparsePoints, VectorPairs, by_dimension

SAMPLE = 1000  # vectors whose median is the origin of all
# Of a mean squared norm: a mean is off by 2^-52 of the norm, so that of distances above 2^-20 of it 31 bits are right.
DENSE_CUT, SPARSE_CUT = 2.0**-40, 2.0**-20


def suits_centres(pairs: VectorPairs, code: int) -> bool:
    """Whether the sums of a linkage follow from the means of clusters."""
    return code != LARGEST and pairs.metric.code in (SQUARED, COSINE, INNER)


class Centres:
    """Reduces vectors to the sums of their squared distances, of cosines or of products, by the means of clusters."""

    def __init__(self, pairs: VectorPairs, order: Order) -> None:
        self._pairs, self._order, self._metric = pairs, order, pairs.metric.code
        self.begin = np.arange(len(order.begin))
        self._spreads = Spreads(*np.empty((3, len(order.begin) - 1)))
        block = pairs.source.read(0, pairs.nodes)
        self._means = self._sparse_means(block) if pairs.source.sparse else self._dense_means(block)

    def fill(self, job: Job, base: int, out: NDArray[np.float64]) -> None:
        """Write a part of the triangle of clusters."""
        first, last = job_run(job, len(self._order.begin) - 1)
        start, end = triangle_entries(job.first), triangle_entries(job.last)
        if (first, last) == (start, end):
            self._fill_rows((job.first, job.last), out[start - base : end - base])
            return
        row = np.empty(end - start)
        self._fill_rows((job.first, job.last), row)
        out[first - base : last - base] = row[first - start : last - start]

    def _fill_rows(self, rows: Span, out: NDArray[np.float64]) -> None:
        """Write whole rows of the triangle."""
        metric = INNER if self._metric == INNER else SQUARED
        if isinstance(self._means, SparsePoints):
            weigh_sparse_rows(*self._means, metric, rows, out)
        else:
            weigh_dense_rows(self._means, np.empty(0), metric, rows, out)
        if metric == SQUARED:
            cut = SPARSE_CUT if self._pairs.source.sparse else DENSE_CUT
            if add_spreads(self._spreads, cut, self._metric, rows, out):
                sum_near(self._points, self._metric, self._order, rows, out)

    def _dense_means(self, block: NDArray[Any]) -> NDArray[np.float64]:
        """Return the mean of each cluster less the origin; for products the sum."""
        means = np.empty((len(self._order.begin) - 1, block.shape[1]))
        lengths = np.sqrt(squares(block)) if self._metric == COSINE else np.empty(0)
        if self._metric == INNER:
            add_totals((block, lengths), self._order, means)
            return means
        find_means((block, lengths), _origin_of(block, lengths), self._order, means, self._spreads)
        return means

    def _sparse_means(self, block: Any) -> SparsePoints:
        """Return the mean of each cluster, for products the sum, by cluster and by dimension."""
        order, points = self._order, as_points(block, self._pairs.metric)
        rows = sp.csr_array((points.value, points.term, points.start), shape=block.shape)
        shares = sp.csr_array((order.share, order.row, order.begin), shape=(len(order.begin) - 1, block.shape[0]))
        total = shares.sum(axis=1)
        means = sp.csr_array(shares @ rows)
        means.sort_indices()
        if self._metric != INNER:
            means.data /= np.repeat(total, np.diff(means.indptr))
            square = (shares @ points.square) / total
            spread = np.where(np.diff(order.begin) == 1, 0.0, np.maximum(square - squares(means), 0.0))
            for kept, found in zip(self._spreads, (total, spread, square), strict=True):
                kept[:] = found[::-1]
        centres = as_points(means, METRICS["inner_product"])
        return by_dimension(centres, block.shape[1])

    @cached_property
    def _points(self) -> Points:
        """The vectors as single pairs are weighed."""
        block = self._pairs.source.read(0, self._pairs.nodes)
        if self._pairs.source.sparse or self._metric == COSINE:
            return as_points(block, self._pairs.metric)
        return Points(block, np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0))


def _origin_of(block: NDArray[Any], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a point amid the vectors, which a few far ones do not move; they are divided by lengths, if there are."""
    sample = np.linspace(0, len(block) - 1, min(SAMPLE, len(block))).astype(np.int64)
    vectors = block[sample].astype(np.float64)
    return np.asarray(np.median(vectors / lengths[sample, None] if len(lengths) else vectors, axis=0))
