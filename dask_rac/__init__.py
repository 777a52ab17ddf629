"""Exact hierarchical agglomerative clustering of large sparse graphs."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dask_rac import datasets
    from dask_rac.api import cluster, resume
    from dask_rac.api import open_run as open
    from dask_rac.api import plan_run as plan
    from dask_rac.audit import AuditReport
    from dask_rac.clustering import Clustering
    from dask_rac.config import Event
    from dask_rac.conversion import ingest
    from dask_rac.errors import (
        AuditError,
        DamagedStoreError,
        InputError,
        ResourceError,
        StoreError,
        StoreInUseError,
    )
    from dask_rac.estimator import RAC
    from dask_rac.handle import RunHandle, RunStoppedError
    from dask_rac.stored_clustering import StoredClustering
    from dask_rac.vectors.graph import complete_graph, eps_graph, knn_graph

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
    "StoreError",
    "StoreInUseError",
    "StoredClustering",
    "cluster",
    "complete_graph",
    "datasets",
    "eps_graph",
    "ingest",
    "knn_graph",
    "open",
    "plan",
    "resume",
]
if find_spec("sklearn") is not None:
    __all__ += ["RAC"]  # `import *` must not fail for want of an extra

_HOMES = {
    "api": {"cluster": "cluster", "open": "open_run", "plan": "plan_run", "resume": "resume"},
    "audit": {"AuditReport": "AuditReport"},
    "clustering": {"Clustering": "Clustering"},
    "config": {"Event": "Event"},
    "conversion": {"ingest": "ingest"},
    "errors": {
        name: name
        for name in ("AuditError", "DamagedStoreError", "InputError", "ResourceError", "StoreError", "StoreInUseError")
    },
    "estimator": {"RAC": "RAC"},
    "handle": {"RunHandle": "RunHandle", "RunStoppedError": "RunStoppedError"},
    "stored_clustering": {"StoredClustering": "StoredClustering"},
    "vectors.graph": {name: name for name in ("complete_graph", "eps_graph", "knn_graph")},
}


def __getattr__(name: str) -> Any:
    """A public name, from its module, which is imported now: `dask-rac --help` needs none of them."""
    if name == "datasets":
        return import_module("dask_rac.datasets")
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"dask_rac.{module}"), names[name])
            return value
    raise AttributeError(f"module 'dask_rac' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
