"""`cluster`: cluster edges through a store, or all pairs of vectors in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dask_rac.api.cluster import cluster, resume
from dask_rac.api.pairs import check_engine, check_pairs_options, pairs_metric
from dask_rac.base.checks import check_kind, check_whole
from dask_rac.base.defaults import setting
from dask_rac.base.errors import InputError
from dask_rac.base.events import Listener
from dask_rac.base.names import HEADER
from dask_rac.base.parameters import METRIC, SETTINGS
from dask_rac.base.settings import Settings, checked_settings
from dask_rac.base.text import size_text
from dask_rac.deploy import local_shape
from dask_rac.edges.source import EdgeSource, open_edges
from dask_rac.engines.choice import expected_pairs
from dask_rac.engines.contract import Expected
from dask_rac.engines.given import open_pairs
from dask_rac.files.folder import Folder
from dask_rac.recipes.kinds.kind import Facts, Forecast, Keys, Kind, StepInput
from dask_rac.recipes.kinds.run import names_input
from dask_rac.runs.plan import Plan, plan_pairs, plan_sizes
from dask_rac.tasks.budget import Budget, memory_bytes
from dask_rac.tasks.threads import Threads
from dask_rac.vectors.compare.metrics import checked_metric
from dask_rac.vectors.pairs.triangle import triangle_entries


def _complete(keys: dict[str, Any]) -> None:
    if keys["vectors"] is not None and keys["metric"] is None:
        keys["metric"] = METRIC.default
    if keys["metric"] is not None and keys["edges"] is not None:
        raise ValueError("vectors: in place of edges:, as it has metric:")
    if keys["missing"] is None and keys["metric"] is None:
        keys["missing"] = _default_missing(keys["linkage"], keys["weights"])


def _default_missing(linkage: str, weights: str) -> str | None:
    """Return the default where it was another in earlier versions, so that what these have made is not taken for it."""
    return None if linkage == "single" or weights == "similarity" else "far"


def _check(keys: Keys, parent: Keys | None) -> None:
    metric = _metric(keys)
    check_engine(keys["engine"], metric or None)
    if parent is not None and "degree" in parent:
        _check_generated(parent["kind"], metric)
    if metric:
        check_pairs_options(metric, keys["weights"], keys["n_nodes"], keys["shards"])
    _settings(keys)
    memory_bytes(keys["memory"], 1)
    if keys["shards"] is not None:
        check_whole("shards", keys["shards"], 1)
    if parent is not None and "metric" in parent:
        check_kind(parent["weights"] or checked_metric(parent["metric"]).weights, keys["weights"])


def _check_generated(kind: str, metric: str) -> None:
    """Raise unless what a `generate` step makes is what the step clusters."""
    if kind == "lattice" and metric:
        raise InputError(f"metric={metric!r} is for vectors, and kind='lattice' makes edges: leave it out")
    if kind != "lattice" and not metric:
        raise InputError(
            f"kind={kind!r} makes vectors, not edges: add a graph step, or metric='euclidean' to cluster all pairs"
        )


def _metric(keys: Keys) -> str:
    """Return the metric of all pairs, empty for edges; raise if it is unknown."""
    return "" if keys["metric"] is None else pairs_metric(keys["vectors"], None, keys["metric"]) or ""


def _settings(keys: Keys) -> Settings:
    """Return what the step computes; raise if that is not possible."""
    return checked_settings(**{name: keys[name] for name in SETTINGS}, metric=_metric(keys))


def _forecast(keys: Keys, before: Forecast | None, scheduler: str) -> Forecast:
    if keys["metric"] is not None:
        return _forecast_pairs(keys, before, scheduler)
    known = _edges(keys["edges"], before)
    if known is None or known.nodes is None or known.edges is None:
        return Forecast("known when the edges exist")
    plan = _plan(keys, known, scheduler)
    if plan is None:
        return replace(known, text="planned when the workers are connected")
    shards = f"{plan.shards:,} shard{'s' if plan.shards > 1 else ''} of {size_text(plan.shard_bytes)}"
    text = f"{shards}, {size_text(plan.memory)} of memory, {size_text(plan.disk)} of disk"
    return replace(known, text=text, bytes=plan.disk)


def _forecast_pairs(keys: Keys, before: Forecast | None, scheduler: str) -> Forecast:
    """Forecast a run on all pairs, from the vectors or from their number alone."""
    settings = _settings(keys)
    given = None
    if before is not None and before.nodes is not None:
        given = Expected(before.nodes, triangle_entries(before.nodes), "float64", 0)
        given = replace(given, dimensions=before.dimensions, sparse=before.sparse)
    elif before is None and Folder(keys["vectors"]).exists():
        given = expected_pairs(open_pairs(keys["vectors"], settings), sampled=True)
    if given is None:
        return Forecast("known when the vectors exist")
    budget = _budget(keys, scheduler)
    if budget is None:
        return Forecast("planned when the workers are connected", given.nodes, given.rows)
    plan = plan_pairs(given, settings, budget, keys["engine"] or "")
    text = f"{given.rows:,} pairs by {plan.engine}, {size_text(plan.memory)} of memory"
    text += f", {size_text(plan.disk)} of disk" if plan.passes else ""
    return Forecast(text, given.nodes, given.rows, bytes=plan.disk)


def _edges(path: str, before: Forecast | None) -> Forecast | None:
    """Return what is known of edges that may not exist yet."""
    if before is not None and before.edges is not None:
        return before
    if not Folder(path).exists():
        return None
    source: EdgeSource = open_edges(path)
    nodes = source.nodes if source.nodes is not None or source.largest_id is None else source.largest_id + 1
    return Forecast("", nodes, source.rows, source.weight_dtype, source.bytes)


def _budget(keys: Keys, scheduler: str) -> Budget | None:
    """Return what a run may use, if it will compute on this machine."""
    budget = Threads().budget(setting("memory", keys["memory"]))
    shape = local_shape(scheduler)
    if shape is not None:
        return Budget(budget.memory, *shape)
    return budget if scheduler.startswith("threads") else None


def _plan(keys: Keys, known: Forecast, scheduler: str) -> Plan | None:
    """Plan a run, if it will compute on this machine."""
    budget = _budget(keys, scheduler)
    if budget is None:
        return None
    assert known.nodes is not None
    assert known.edges is not None
    nodes = known.nodes if keys["n_nodes"] is None else keys["n_nodes"]
    expected = Expected(nodes, known.edges, known.weights, known.bytes or 0)
    return plan_sizes(expected, _settings(keys), setting("shards", keys["shards"]), budget)


def _cluster(keys: Keys, client: Any, report: Listener) -> Facts:
    place = {"memory": keys["memory"], "client": client, "progress": report}
    given = keys["edges"] if keys["metric"] is None else keys["vectors"]
    if Folder(keys["output"]).exists(HEADER):
        result = resume(keys["output"], **place, trust_source=names_input(keys["output"], given))
    else:
        settings = {name: keys[name] for name in (*SETTINGS, "metric", "engine", "n_nodes", "names", "shards")}
        result = cluster(given, **settings, store=keys["output"], **place)
    return {
        "nodes": result.n_nodes,
        "merges": result.n_nodes - result.n_trees,
        "trees": result.n_trees,
        "rounds": len(result.rounds),
        "peak_disk": result.peak_disk,
        **({"epsilon": result.epsilon} if keys["epsilon"] else {}),
    }


CLUSTER = Kind(
    "cluster",
    _cluster,
    _forecast,
    StepInput("edges", ("graph", "generate", "ingest")),
    StepInput("vectors", ("generate",)),
    _complete,
    _check,
    resumable=True,
)
