"""The metrics by which vectors can be compared."""

from __future__ import annotations

from dataclasses import dataclass

from dask_rac.base.errors import InputError
from dask_rac.kernels.vectors import pairs


@dataclass(frozen=True)
class Metric:
    """A way to compare two vectors."""

    name: str
    code: int
    """The number by which kernels know the metric."""
    similarity: bool = False
    """Whether large weights mean near; kernels use the negated weight."""
    sparse: bool = True
    """Whether the metric supports sparse vectors."""
    complement: bool = False
    """Whether 1 - weight is a similarity that has a name."""

    @property
    def weights(self) -> str:
        """The value of `weights=` with which `dask_rac.cluster` reads the edges."""
        return "similarity" if self.similarity else "distance"

    @property
    def centred(self) -> bool:
        """Whether all vectors may be shifted by the same amount: small numbers lose less to rounding."""
        return self.code in (pairs.EUCLIDEAN, pairs.SQUARED, pairs.MANHATTAN)

    @property
    def squares(self) -> bool:
        """Whether the weight is computed from a squared distance."""
        return self.code in (pairs.EUCLIDEAN, pairs.SQUARED)


METRICS = {
    metric.name: metric
    for metric in (
        Metric("euclidean", pairs.EUCLIDEAN),
        Metric("sqeuclidean", pairs.SQUARED),
        Metric("cosine", pairs.COSINE, complement=True),
        Metric("inner_product", pairs.INNER, similarity=True),
        Metric("manhattan", pairs.MANHATTAN, sparse=False),
    )
}


def checked_metric(name: object) -> Metric:
    """Return the metric of the given name."""
    metric = METRICS.get(name) if isinstance(name, str) else None
    if metric is None:
        raise InputError(f"metric={name!r} is unknown: use one of {', '.join(map(repr, METRICS))}")
    return metric


def refuse_sparse(metric: Metric, where: str) -> None:
    """Raise if a metric does not support sparse vectors."""
    if not metric.sparse:
        known = ", ".join(repr(other.name) for other in METRICS.values() if other.sparse)
        raise InputError(f"metric={metric.name!r} is for dense vectors, but {where} are sparse: use one of {known}")
