"""`cluster`: cluster edges through a store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dask_rac.api.cluster import cluster, resume
from dask_rac.base.checks import check_kind, check_whole
from dask_rac.base.defaults import setting
from dask_rac.base.events import Listener
from dask_rac.base.names import HEADER
from dask_rac.base.parameters import SETTINGS
from dask_rac.base.settings import checked_settings
from dask_rac.base.text import size_text
from dask_rac.deploy import local_shape
from dask_rac.edges.source import EdgeSource, open_edges
from dask_rac.engines.contract import Expected
from dask_rac.files.folder import Folder
from dask_rac.recipes.kinds.kind import Facts, Forecast, Keys, Kind, StepInput
from dask_rac.recipes.kinds.run import names_edges
from dask_rac.runs.plan import Plan, plan_sizes
from dask_rac.tasks.budget import Budget, memory_bytes
from dask_rac.tasks.threads import Threads
from dask_rac.vectors.compare.metrics import checked_metric


def _check(keys: Keys, parent: Keys | None) -> None:
    checked_settings(*(keys[name] for name in SETTINGS))
    memory_bytes(keys["memory"], 1)
    if keys["shards"] is not None:
        check_whole("shards", keys["shards"], 1)
    if parent is not None and "metric" in parent:
        check_kind(checked_metric(parent["metric"]).weights, keys["weights"])


def _forecast(keys: Keys, before: Forecast | None, scheduler: str) -> Forecast:
    known = _edges(keys["edges"], before)
    if known is None or known.nodes is None or known.edges is None:
        return Forecast("known when the edges exist")
    plan = _plan(keys, known, scheduler)
    if plan is None:
        return replace(known, text="planned when the workers are connected")
    shards = f"{plan.shards:,} shard{'s' if plan.shards > 1 else ''} of {size_text(plan.shard_bytes)}"
    text = f"{shards}, {size_text(plan.memory)} of memory, {size_text(plan.disk)} of disk"
    return replace(known, text=text, bytes=plan.disk)


def _edges(path: str, before: Forecast | None) -> Forecast | None:
    """Return what is known of edges that may not exist yet."""
    if before is not None and before.edges is not None:
        return before
    if not Folder(path).exists():
        return None
    source: EdgeSource = open_edges(path)
    nodes = source.nodes if source.nodes is not None or source.largest_id is None else source.largest_id + 1
    return Forecast("", nodes, source.rows, source.weight_dtype, source.bytes)


def _plan(keys: Keys, known: Forecast, scheduler: str) -> Plan | None:
    """Plan a run, if it will compute on this machine."""
    budget = Threads().budget(setting("memory", keys["memory"]))
    shape = local_shape(scheduler)
    if shape is not None:
        budget = Budget(budget.memory, *shape)
    elif not scheduler.startswith("threads"):
        return None
    settings = checked_settings(*(keys[name] for name in SETTINGS))
    assert known.nodes is not None
    assert known.edges is not None
    nodes = known.nodes if keys["n_nodes"] is None else keys["n_nodes"]
    expected = Expected(nodes, known.edges, known.weights, known.bytes or 0)
    return plan_sizes(expected, settings, setting("shards", keys["shards"]), budget)


def _cluster(keys: Keys, client: Any, report: Listener) -> Facts:
    place = {"memory": keys["memory"], "client": client, "progress": report}
    if Folder(keys["output"]).exists(HEADER):
        result = resume(keys["output"], **place, trust_source=names_edges(keys["output"], keys["edges"]))
    else:
        settings = {name: keys[name] for name in (*SETTINGS, "n_nodes", "shards")}
        result = cluster(keys["edges"], **settings, store=keys["output"], **place)
    return {
        "nodes": result.n_nodes,
        "merges": result.n_nodes - result.n_trees,
        "trees": result.n_trees,
        "rounds": len(result.rounds),
        "peak_disk": result.peak_disk,
    }


CLUSTER = Kind(
    "cluster", _cluster, _forecast, StepInput("edges", ("graph", "generate", "ingest")), check=_check, resumable=True
)
