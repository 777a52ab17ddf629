"""Exact hierarchical agglomerative clustering of large sparse graphs, and of all pairs of vectors."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dask_rac import datasets
    from dask_rac.api.cluster import cluster, resume
    from dask_rac.api.cluster import open_run as open
    from dask_rac.api.cluster import plan_run as plan
    from dask_rac.api.extend import extend
    from dask_rac.api.graphs import complete_graph, eps_graph, knn_graph
    from dask_rac.api.handle import RunHandle, RunStoppedError
    from dask_rac.api.ingest import ingest
    from dask_rac.api.linkage import linkage
    from dask_rac.base.errors import (
        AuditError,
        DamagedStoreError,
        InputError,
        ResourceError,
        StoreError,
        StoreInUseError,
    )
    from dask_rac.base.events import Event
    from dask_rac.estimator.estimator import RAC
    from dask_rac.forecasts.request import forecast
    from dask_rac.results.audit import AuditReport
    from dask_rac.results.clustering import Clustering
    from dask_rac.results.scores import Scores
    from dask_rac.results.stored import StoredClustering

__version__ = "0.1.0"

__all__ = [
    "AuditError",
    "AuditReport",
    "Clustering",
    "DamagedStoreError",
    "Event",
    "InputError",
    "ResourceError",
    "RunHandle",
    "RunStoppedError",
    "Scores",
    "StoreError",
    "StoreInUseError",
    "StoredClustering",
    "cluster",
    "complete_graph",
    "datasets",
    "eps_graph",
    "extend",
    "forecast",
    "ingest",
    "knn_graph",
    "linkage",
    "open",
    "plan",
    "resume",
]
if find_spec("sklearn") is not None:
    __all__ += ["RAC"]  # `import *` must not fail because an extra is not installed

_HOMES = {
    "api.handle": {"RunHandle": "RunHandle", "RunStoppedError": "RunStoppedError"},
    "api.cluster": {"cluster": "cluster", "open": "open_run", "plan": "plan_run", "resume": "resume"},
    "api.extend": {"extend": "extend"},
    "api.graphs": {name: name for name in ("complete_graph", "eps_graph", "knn_graph")},
    "api.ingest": {"ingest": "ingest"},
    "api.linkage": {"linkage": "linkage"},
    "base.errors": {
        name: name
        for name in ("AuditError", "DamagedStoreError", "InputError", "ResourceError", "StoreError", "StoreInUseError")
    },
    "base.events": {"Event": "Event"},
    "estimator.estimator": {"RAC": "RAC"},
    "forecasts.request": {"forecast": "forecast"},
    "results.audit": {"AuditReport": "AuditReport"},
    "results.clustering": {"Clustering": "Clustering"},
    "results.scores": {"Scores": "Scores"},
    "results.stored": {"StoredClustering": "StoredClustering"},
}


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use, so that `dask-rac --help` starts without them."""
    if name == "datasets":
        return import_module("dask_rac.datasets")
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"dask_rac.{module}"), names[name])
            return value
    raise AttributeError(f"module 'dask_rac' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
