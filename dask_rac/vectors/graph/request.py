"""Which graph of vectors is wanted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dask_rac.base.checks import check_kind, check_whole, check_word, checked_number
from dask_rac.base.errors import InputError
from dask_rac.base.parameters import GRAPHS, METRIC
from dask_rac.vectors.compare.metrics import Metric, checked_metric

KNN = GRAPHS["knn"]


def checked_request(
    kind: str,
    metric: Any,
    k: Any = 1,  # where it has no effect: it is part of the identity of every graph
    mode: Any = KNN["mode"].default,
    method: Any = KNN["method"].default,
    eps: Any = 0.0,
    seed: Any = KNN["seed"].default,
    weights: Any = None,
) -> Request:
    """Check each parameter of a graph, and return the request."""
    wanted = checked_metric(metric)
    kind_of_weights = _checked_weights(wanted, weights)
    check_whole("k", k, 1)
    check_whole("seed", seed, 0)
    check_word("mode", mode, KNN["mode"].words)
    check_word("method", method, KNN["method"].words)
    radius = checked_number("eps", eps)
    if math.isinf(radius) or radius < 0:
        raise InputError(f"eps={eps!r} is not a finite number, 0 or more")
    return Request(kind, wanted, int(k), mode, method, radius, int(seed), kind_of_weights)


def _checked_weights(metric: Metric, weights: Any) -> str:
    """Return what the weights of a graph are; raise if the metric does not give them."""
    if weights is None:
        return metric.weights
    check_word("weights", weights, KNN["weights"].words)
    if weights == metric.weights or (weights == "similarity" and metric.complement):
        return str(weights)
    if weights == "distance":
        raise InputError(
            f"weights='distance', but metric={metric.name!r} is a similarity, and no distance follows from it: leave "
            "weights out, or use metric='cosine'"
        )
    raise InputError(
        f"weights='similarity', but metric={metric.name!r} is a distance, and many similarities could follow from it: "
        "use metric='cosine', or convert the weights of the graph yourself"
    )


def request_of(graph: Any, weights: str) -> GraphRequest:
    """Return what the argument `graph=` of `dask_rac.cluster` stands for."""
    if not isinstance(graph, Mapping):
        raise InputError(f"graph={graph!r} is not a dict: give dict(k=15), dict(eps=0.5) or dict(kind='complete')")
    options = dict(graph)
    columns = options.pop("columns", None)
    kind = options.pop("kind", "knn" if "k" in options else "eps" if "eps" in options else None)
    if kind is None:
        raise InputError(f"graph={graph!r} has neither k nor eps nor kind: give one of them")
    check_word("kind", kind, tuple(GRAPHS))
    for name in options:
        if name in ("memory", "client", "progress", "store"):
            raise InputError(f"graph={graph!r} has {name!r}: pass that to cluster itself")
        if name not in ("metric", *GRAPHS[kind]):
            raise InputError(
                f"graph={graph!r} has {name!r}, which is not an option of {kind}: it takes {_listed(kind)}"
            )
    if kind == "eps" and "eps" not in options:
        raise InputError(f"graph={graph!r} has no eps: give the largest distance of an edge")
    defaults = {name: parameter.default for name, parameter in GRAPHS[kind].items()}
    request = checked_request(kind, **{"metric": METRIC.default, **defaults, **options})
    other = f", or weights={weights!r} in graph=dict(...) as well" if request.metric.complement else ""
    check_kind(request.weights, weights, "set weights={known!r}" + other)
    return GraphRequest(request, columns)


def _listed(kind: str) -> str:
    """List the options of a kind of graph."""
    return ", ".join(("metric", "columns", *GRAPHS[kind]))


@dataclass(frozen=True)
class Request:
    """The requested graph: everything that affects its edges."""

    kind: str
    """knn, eps or complete."""
    metric: Metric
    k: int
    mode: str
    method: str
    eps: float
    seed: int
    """Seed of the approximate search."""
    weights: str
    """Whether the edges have distances or similarities."""

    @property
    def complements(self) -> bool:
        """Whether weights are turned from distances into similarities: 1 - distance."""
        return self.weights != self.metric.weights


@dataclass(frozen=True)
class GraphRequest:
    """A graph, and the part of the user's vectors to build it from."""

    graph: Request
    columns: Sequence[str] | None = None
    """The columns of a table that hold the vectors, if there are others."""


def check_request(request: Request, rows: int, name: str) -> None:
    """Raise if these vectors cannot have the requested graph."""
    if request.kind == "knn" and rows == 1:
        raise InputError(f"there is only one vector in {name}, and it has no neighbours: give two or more")
    if request.kind == "knn" and request.k >= rows:
        raise InputError(
            f"k={request.k} is too large: there are {rows} vectors in {name}, and each has {rows - 1} others; set "
            f"k={rows - 1} or less"
        )
