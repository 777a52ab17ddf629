"""Runs within limits that users cannot set."""

from os import PathLike
from typing import Any

from dask_rac.api.cluster import run_cluster
from dask_rac.base.settings import checked_settings
from dask_rac.engines.contract import Limits
from dask_rac.results.clustering import Clustering
from dask_rac.results.stored import StoredClustering
from dask_rac.runs.options import PlanOptions, RunOptions
from dask_rac.runs.resume import resume_run
from dask_rac.tasks.client import choose_scheduler


def cluster_within(  # noqa: PLR0913 - the parameters of `dask_rac.cluster`
    limits: Limits,
    edges: Any,
    linkage: str = "average",
    missing: str | float | None = None,
    weights: str = "distance",
    *,
    max_height: float | None = None,
    duplicates: str = "error",
    finisher: bool = True,
    epsilon: float = 0.0,
    n_nodes: int | None = None,
    memory: str | float | None = None,
    shards: int | None = None,
    client: Any = None,
    store: str | PathLike[str] | None = None,
) -> Any:
    """What `dask_rac.cluster` would give; a `StoredClustering` with `store=`."""
    settings = checked_settings(linkage, missing, weights, max_height, duplicates, finisher, epsilon=epsilon)
    options = PlanOptions(n_nodes, memory, shards, choose_scheduler(client), limits=limits)
    if store is not None:
        options = RunOptions(**vars(options), store=store)
    result: Clustering = run_cluster(edges, None, settings, options, lambda _: None)[0]
    return result


def resume_within(limits: Limits, store: str | PathLike[str], client: Any = None) -> StoredClustering:
    """What `dask_rac.resume` would give."""
    options = PlanOptions(None, None, None, choose_scheduler(client), limits=limits)
    return StoredClustering(resume_run(store, options, lambda _: None), lambda _: None)
