"""What vectors can be compared by."""

from __future__ import annotations

from dataclasses import dataclass

from dask_rac.errors import InputError
from dask_rac.kernels import pairs


@dataclass(frozen=True)
class Metric:
    """A way to compare two vectors."""

    name: str
    code: int
    """Of the kernels."""
    similarity: bool = False
    """Whether large weights are near; kernels see them negative."""
    sparse: bool = True
    """Whether sparse vectors can be compared by it."""

    @property
    def weights(self) -> str:
        """What `dask_rac.cluster` has to take its weights for."""
        return "similarity" if self.similarity else "distance"

    @property
    def centred(self) -> bool:
        """Whether vectors may be moved together: small numbers lose less when they are rounded."""
        return self.code in (pairs.EUCLIDEAN, pairs.SQUARED, pairs.MANHATTAN)

    @property
    def squares(self) -> bool:
        """Whether it comes from squared distances."""
        return self.code in (pairs.EUCLIDEAN, pairs.SQUARED)


METRICS = {
    metric.name: metric
    for metric in (
        Metric("euclidean", pairs.EUCLIDEAN),
        Metric("sqeuclidean", pairs.SQUARED),
        Metric("cosine", pairs.COSINE),
        Metric("inner_product", pairs.INNER, similarity=True),
        Metric("manhattan", pairs.MANHATTAN, sparse=False),
    )
}


def checked_metric(name: object) -> Metric:
    """A metric by its name."""
    metric = METRICS.get(name) if isinstance(name, str) else None
    if metric is None:
        raise InputError(f"metric={name!r} is unknown: use one of {', '.join(map(repr, METRICS))}")
    return metric


def refuse_sparse(metric: Metric, where: str) -> None:
    """Raise if sparse vectors cannot be compared by a metric."""
    if not metric.sparse:
        known = ", ".join(repr(other.name) for other in METRICS.values() if other.sparse)
        raise InputError(f"metric={metric.name!r} is for dense vectors, and {where} are sparse: use one of {known}")
