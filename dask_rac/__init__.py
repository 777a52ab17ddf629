"""Exact hierarchical agglomerative clustering of large sparse graphs."""

from dask_rac import datasets
from dask_rac.api import cluster, resume
from dask_rac.api import open_run as open
from dask_rac.api import plan_run as plan
from dask_rac.audit import AuditError, AuditReport
from dask_rac.clustering import Clustering, StoredClustering
from dask_rac.config import Event
from dask_rac.errors import DamagedStoreError, InputError, ResourceError, StoreError, StoreInUseError

__version__ = "0.1.0"

__all__ = [
    "AuditError",
    "AuditReport",
    "Clustering",
    "DamagedStoreError",
    "Event",
    "InputError",
    "ResourceError",
    "StoreError",
    "StoreInUseError",
    "StoredClustering",
    "cluster",
    "datasets",
    "open",
    "plan",
    "resume",
]
