"""An audit of all pairs where heights follow from the centres of clusters: no pair is computed.

With c the centre of a cluster, a and b the numbers of nodes, V the mean squared distance of its nodes to the centre:

- ward: the square of a height is `2 a b / (a + b) |c_A - c_B|^2`;
- average of squared distances: `|c_A - c_B|^2 + V_A + V_B`; by cosine half of that, of vectors of length 1;
- average of inner products: the product of the centres.

Distances do not depend on the origin, so vectors are measured from their mean, where rounding errors are the least. The
bound of these errors is in `kernels.pairs_audit.expect_heights`: with h the merges on the longest way down from a merge
and d dimensions, `4 (h + d + 4) eps` of the terms that are added, and of `|c_A - c_B|` times the mean length. Means of
sparse vectors are measured from 0 by a run, so averages of their distances may also be off by `INEXACT`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Event, Listener
from dask_rac.base.settings import Settings
from dask_rac.base.spans import Span, batches
from dask_rac.kernels.pairs_audit import MEANS, PRODUCTS, WARD, add_differences, expect_heights
from dask_rac.kernels.vectors.pairs import COSINE, INNER, SQUARED
from dask_rac.results.audit import INEXACT, Audit
from dask_rac.tasks.team import Team
from dask_rac.vectors.compare.search import squares
from dask_rac.vectors.pairs.vector_pairs import VectorPairs

BLOCK = 2**25  # values of some dimensions of all vectors that a thread holds

Floats = NDArray[np.float64]


def follows_from_centres(pairs: VectorPairs, settings: Settings) -> bool:
    """Whether heights follow from centres."""
    return settings.linkage == "ward" or (
        settings.linkage == "average" and pairs.metric.code in (SQUARED, COSINE, INNER)
    )


def take_centres(audit: Audit, pairs: VectorPairs, settings: Settings, team: Team, report: Listener) -> None:
    """Give an audit the height that follows for each merge."""
    audit.climb()
    merges, faults, nodes = audit.merges, audit.faults, pairs.nodes
    products = pairs.metric.code == INNER
    block = _Blocks(pairs)
    step = max(1, min(-(-pairs.source.dimensions // team.threads), BLOCK // nodes))
    spans = list(batches(0, pairs.source.dimensions, step))
    done = 0

    def add(span: Span) -> tuple[Floats, Floats]:
        nonlocal done
        values = block.read(span)
        if not products:
            values -= values.mean(axis=0)
        norm = np.einsum("ij,ij->i", values, values)
        apart = np.zeros(len(merges.left))
        add_differences(values, merges, faults, products, apart)
        done += 1
        report(Event("verify", nodes, done=done, total=len(spans)))
        return apart, norm

    apart, norm = np.zeros(len(merges.left)), np.zeros(nodes)
    for first in range(0, len(spans), team.threads):
        for some in team.run(add, spans[first : first + team.threads]):
            apart += some[0]
            norm += some[1]
    kind = WARD if settings.linkage == "ward" else PRODUCTS if products else MEANS
    factor = {COSINE: 0.5, INNER: -1.0}.get(pairs.metric.code, 1.0)
    expected = np.zeros(len(apart)), np.zeros(len(apart))
    expect_heights(merges, faults, apart, np.sqrt(norm), (kind, factor, pairs.source.dimensions), expected)
    if pairs.source.sparse and kind == MEANS:  # whose means a run cannot measure from a point amid the vectors
        np.maximum(expected[1], INEXACT * np.abs(expected[0]), out=expected[1])
    audit.take_expected(*expected)


class _Blocks:
    """Vectors as they are compared, some dimensions at a time."""

    def __init__(self, pairs: VectorPairs) -> None:
        block = pairs.source.read(0, pairs.nodes)
        self._lengths = np.sqrt(squares(block)) if pairs.metric.code == COSINE else None
        self._block = block if isinstance(block, np.ndarray) else block.tocsc()

    def read(self, span: Span) -> Floats:
        """Return the values of some dimensions, to be written over."""
        part = self._block[:, slice(*span)]
        values: Floats = np.array(part if isinstance(part, np.ndarray) else part.toarray(), np.float64, order="C")
        if self._lengths is not None:
            values /= self._lengths[:, None]
        return values
