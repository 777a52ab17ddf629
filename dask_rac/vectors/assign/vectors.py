"""New vectors compared with every member of the flat clusters, or with their centres where that gives the same mean.

The mean of squared distances is that of the centre plus the spread around it, and the mean of products is the product
with the centre; so is the ward distance. Cosine distances are half the squared distances of vectors of length 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.spans import Span, batches, even_spans
from dask_rac.kernels.vectors.members import LEAST, add_members, add_spreads, fold_dense, fold_sparse
from dask_rac.kernels.vectors.pairs import COSINE, INNER, SQUARED, Points
from dask_rac.tasks.team import Team
from dask_rac.vectors.assign.clusters import FlatClusters
from dask_rac.vectors.assign.contract import AssignLimits, NewPoints, row_spans
from dask_rac.vectors.compare.check import PIECE, check_span, combined, view_of
from dask_rac.vectors.compare.limits import CompareLimits
from dask_rac.vectors.compare.metrics import METRICS, Metric, refuse_sparse
from dask_rac.vectors.compare.search import as_points
from dask_rac.vectors.sources.opening import VectorSource

MEANS = ("average", "weighted")


def compare_vectors(
    new: VectorSource, old: VectorSource, metric: Metric, clusters: FlatClusters, limits: AssignLimits
) -> NewPoints:
    """Return new vectors, to be compared with those that were clustered."""
    if new.dimensions != old.dimensions:
        raise InputError(
            f"{new.name} have {new.dimensions:,} dimensions, and the vectors that were clustered have "
            f"{old.dimensions:,}: give vectors of the same kind"
        )
    if new.sparse != old.sparse:
        kinds = ("sparse", "dense") if new.sparse else ("dense", "sparse")
        remedy = "use toarray()" if new.sparse else "use scipy.sparse.csr_array(vectors)"
        raise InputError(f"{new.name} are {kinds[0]}, and the vectors that were clustered are {kinds[1]}: {remedy}")
    if new.sparse:
        refuse_sparse(metric, new.name)
        return MemberWeights(new, old, metric, clusters, limits)
    linear = clusters.linkage in MEANS and metric.code in (SQUARED, INNER, COSINE)
    if linear or clusters.linkage == "ward":
        return CentreWeights(new, old, metric, clusters, limits)
    return MemberWeights(new, old, metric, clusters, limits)


class MemberWeights:
    """New vectors compared with every vector that was clustered, block by block."""

    def __init__(
        self, new: VectorSource, old: VectorSource, metric: Metric, clusters: FlatClusters, limits: AssignLimits
    ) -> None:
        self.rows, self.limits = new.rows, limits
        self._new, self._old, self._clusters = new, old, clusters
        self._given, self._metric = metric, METRICS["sqeuclidean"] if clusters.linkage == "ward" else metric

    def check(self, team: Team) -> None:
        """Raise if vectors cannot be compared, as for graphs."""
        self._check(self._new, team)
        try:
            self._check(self._old, team)
        except InputError as error:
            raise InputError(f"the vectors that were clustered: {error}") from error

    def _check(self, source: VectorSource, team: Team) -> None:
        """Raise if some vectors cannot be compared."""
        spans = even_spans(source.rows, team.threads)
        found = combined(team.run(lambda span: check_span(source, PIECE, *span), spans))
        view_of(found, source.rows, self._given, CompareLimits())

    def _spans(self) -> Iterator[Span]:
        """Yield spans of the vectors that were clustered, each held at a time."""
        rows = self._old.rows
        return batches(0, rows, max(1, self.limits.block_values * rows // max(1, self._old.entries)))

    def weigh(self, first: int, last: int, team: Team) -> NDArray[np.float64]:
        """Return W of the vectors `first` to `last` and each cluster."""
        own = as_block(self._new, (first, last), self._metric)
        table = self._clusters.empty_table(last - first)
        fold = fold_dense if isinstance(own, np.ndarray) else fold_sparse
        for span in self._spans():
            others = as_block(self._old, span, self._metric)
            members = self._clusters.members(span)
            team.run(fold, row_spans(last - first, team), own, others, self._metric.code, members, table)
        self._clusters.close(table)
        return table


class CentreWeights(MemberWeights):
    """New dense vectors compared with the centre of each cluster."""

    def weigh(self, first: int, last: int, team: Team) -> NDArray[np.float64]:
        """Return W of the vectors `first` to `last` and each cluster."""
        clusters, code = self._clusters, self._metric.code
        own = as_block(self._new, (first, last), self._metric)
        centre, spread = self._centres
        table = np.full((last - first, len(clusters)), np.inf)
        alone = LEAST, np.arange(len(clusters)), np.ones(len(clusters))
        measure = INNER if code == INNER else SQUARED
        team.run(fold_dense, row_spans(last - first, team), own, centre, measure, alone, table)
        if clusters.linkage == "ward":
            table *= 2.0 * clusters.size / (clusters.size + 1)
            np.sqrt(table, out=table)
            return table
        if code != INNER:
            table += spread
        if code == COSINE:
            table *= 0.5
        return table

    @cached_property
    def _centres(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The mean of each cluster by the shares of its members, and the mean squared distance from it."""
        clusters = self._clusters
        count = np.ones(len(clusters)) if clusters.linkage == "weighted" else clusters.size.astype(np.float64)
        centre, spread = np.zeros((len(clusters), self._old.dimensions)), np.zeros(len(clusters))
        for span, block in self._blocks():
            add_members(block, *clusters.members(span)[1:], centre)
        centre /= count[:, None]
        if clusters.linkage in MEANS and self._metric.code != INNER:
            for span, block in self._blocks():
                add_spreads(block, *clusters.members(span)[1:], centre, spread)
        return centre, spread / count

    def _blocks(self) -> Iterator[tuple[Span, NDArray[np.float64]]]:
        """Yield the vectors that were clustered, block by block."""
        for span in self._spans():
            yield span, as_block(self._old, span, self._metric)


def as_block(source: VectorSource, span: Span, metric: Metric) -> Any:
    """Read vectors in the form of kernels: an array of float64, or sparse points; for cosines they have length 1."""
    points: Points = as_points(source.read(*span), metric)
    return points if source.sparse else np.asarray(points.dense, np.float64)
