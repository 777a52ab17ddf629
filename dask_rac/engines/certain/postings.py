"""A pass over sparse vectors by the terms that they share."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.engines.certain.order import Job, parts_of
from dask_rac.kernels.certain.arrays import Order
from dask_rac.kernels.certain.sparse import fold_postings
from dask_rac.vectors.compare.search import as_points
from dask_rac.vectors.pairs.vector_pairs import VectorPairs

ROWS = 256  # of a part


class Postings:
    """Reduces sparse vectors by the list of vectors for each term."""

    def __init__(self, pairs: VectorPairs, order: Order, code: int) -> None:
        block = pairs.source.read(0, pairs.nodes)[order.row]
        points = as_points(block, pairs.metric)
        turned = sp.csr_array((points.value, points.term, points.start), shape=block.shape).tocsc()
        postings = turned.indptr.astype(np.int64), turned.indices.astype(np.int64), turned.data
        self.begin = order.begin
        self._given, self._rule, self._order = (points, postings), (code, pairs.metric.code), order

    def fill(self, job: Job, base: int, out: NDArray[np.float64]) -> None:
        """Write a part of the triangle of clusters."""
        for part in parts_of(self._order, job, base, ROWS):
            fold_postings(self._given, self._rule, self._order, part, out)
