"""Exact hierarchical agglomerative clustering of large sparse graphs."""

from dask_rac.api import cluster
from dask_rac.clustering import Clustering
from dask_rac.config import Event
from dask_rac.errors import InputError

__version__ = "0.1.0"

__all__ = ["Clustering", "Event", "InputError", "cluster"]
