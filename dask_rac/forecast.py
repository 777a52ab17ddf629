"""What the steps of a recipe will take, before they run: numbers from metadata, nothing is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dask_rac.clusters import local_shape
from dask_rac.config import checked_settings, size_text
from dask_rac.defaults import setting
from dask_rac.planner import Budget, Plan
from dask_rac.schema import GENERATED, GRAPHS, SETTINGS, particulars
from dask_rac.session import Expected, plan_sizes
from dask_rac.store.edgelist import edges_size
from dask_rac.store.edges import EdgeSource, open_edges
from dask_rac.store.files import Folder
from dask_rac.store.manifest import read_chain, read_header
from dask_rac.store.urls import locate
from dask_rac.store.vectors import open_vectors
from dask_rac.vectors.plan import EDGE_WEIGHT, ids_of
from dask_rac.workers import Threads

MERGE_BYTES = {".npy": 32, ".parquet": 36}  # a row of Z; a row of merges
PAGE_BYTES = 5_000_000
NEWICK_BYTES = 48  # a node: its name, two lengths, brackets


@dataclass(frozen=True)
class Forecast:
    """Sizes of what a step makes or works on, where they are known."""

    text: str
    """For people."""
    nodes: int | None = None
    edges: int | None = None
    weights: str = "float64"
    """dtype."""
    bytes: int | None = None
    """Of its output on disk."""


def forecast(do: str, given: Mapping[str, Any], before: Forecast | None, place: str) -> Forecast:
    """What a step will take; `before` is the forecast of the step that makes what it works on."""
    return MAKERS[do](given, before, place)


def _generate(given: Mapping[str, Any], _: Forecast | None, place: str) -> Forecast:
    shape = particulars(given, GENERATED)
    if given["kind"] != "lattice":
        size = given["nodes"] * (shape["dimensions"] if given["kind"] == "sift" else 6 * int(shape["length"]))
        return Forecast(f"{given['nodes']:,} vectors, about {size_text(size)}", given["nodes"], bytes=size)
    edges = given["nodes"] * shape["degree"] // 2
    ids = np.dtype(np.int32 if given["nodes"] < 2**31 else np.int64)
    size = edges_size(edges, 1, ids)
    return Forecast(f"{edges:,} edges, {size_text(size)}", given["nodes"], edges, "float32", size)


def _graph(given: Mapping[str, Any], before: Forecast | None, place: str) -> Forecast:
    nodes = before.nodes if before is not None else _rows(given)
    asked = particulars(given, GRAPHS)
    if nodes is None:
        return Forecast("known when the vectors are there")
    if given["kind"] == "eps":
        return Forecast("pairs are counted first", nodes)
    edges = nodes * asked["k"] if given["kind"] == "knn" else nodes * (nodes - 1) // 2
    size = edges_size(edges, 1, ids_of(nodes), EDGE_WEIGHT)
    return Forecast(f"{edges:,} edges at most, {size_text(size)}", nodes, edges, "float64", size)


def _rows(given: Mapping[str, Any]) -> int | None:
    """How many vectors there are, if they are there."""
    if not Folder(given["vectors"]).exists():
        return None
    return open_vectors(given["vectors"], given["columns"]).rows


def _ingest(given: Mapping[str, Any], _: Forecast | None, place: str) -> Forecast:
    filesystem, path = locate(given["edges"])
    return Forecast(f"{size_text(filesystem.du(path))} to be read")


def _cluster(given: Mapping[str, Any], before: Forecast | None, place: str) -> Forecast:
    known = _edges(given["edges"], before)
    if known is None or known.nodes is None or known.edges is None:
        return Forecast("known when the edges are there")
    plan = _plan(given, known, place)
    if plan is None:
        return replace(known, text="planned for the workers when they are there")
    shards = f"{plan.shards:,} shard{'s' if plan.shards > 1 else ''} of {size_text(plan.shard_bytes)}"
    text = f"{shards}, {size_text(plan.memory)} of memory, {size_text(plan.disk)} of disk"
    return replace(known, text=text, bytes=plan.disk)


def _edges(path: str, before: Forecast | None) -> Forecast | None:
    """What is known of edges that may not be there yet."""
    if before is not None and before.edges is not None:
        return before
    if not Folder(path).exists():
        return None
    source: EdgeSource = open_edges(path)
    nodes = source.nodes if source.nodes is not None or source.top is None else source.top + 1
    return Forecast("", nodes, source.rows, source.weight_dtype, source.bytes)


def _plan(given: Mapping[str, Any], known: Forecast, place: str) -> Plan | None:
    """The plan of a run, where the place where it will run is this machine."""
    budget = Threads().budget(setting("memory", given["memory"]))
    shape = local_shape(place)
    if shape is not None:
        budget = Budget(budget.memory, *shape)
    elif not place.startswith("threads"):
        return None
    settings = checked_settings(*(given[name] for name in SETTINGS))
    assert known.nodes is not None
    assert known.edges is not None
    nodes = known.nodes if given["n_nodes"] is None else given["n_nodes"]
    expected = Expected(nodes, known.edges, known.weights, known.bytes or 0)
    return plan_sizes(expected, settings, setting("shards", given["shards"]), budget)


def _run(path: str, before: Forecast | None) -> Forecast:
    """What is known of a run that may not have begun."""
    if before is not None and before.nodes is not None:
        return before
    folder = Folder(path)
    if not folder.exists():
        return Forecast("")
    read_header(folder)
    chain = read_chain(folder)
    facts = chain[0].facts if chain else None
    return Forecast("", facts.nodes, facts.edges, bytes=facts.input_bytes) if facts else Forecast("")


def _verify(given: Mapping[str, Any], before: Forecast | None, place: str) -> Forecast:
    known = _run(given["run"], before)
    return Forecast("known later" if known.edges is None else f"reads {known.edges:,} edges once", known.nodes)


def _cut(given: Mapping[str, Any], before: Forecast | None, place: str) -> Forecast:
    known = _run(given["run"], before)
    wanted = given["clusters"] if given["height"] is None else given["height"]
    cuts = len(wanted) if isinstance(wanted, list) else 1
    return _at_most(known, 16 * cuts)


def _export(given: Mapping[str, Any], before: Forecast | None, place: str) -> Forecast:
    ending = f".{given['output'].rpartition('.')[2]}"
    return _at_most(_run(given["run"], before), MERGE_BYTES.get(ending, NEWICK_BYTES))


def _report(given: Mapping[str, Any], before: Forecast | None, place: str) -> Forecast:
    return Forecast(f"a page, {size_text(PAGE_BYTES)} at most", _run(given["run"], before).nodes, bytes=PAGE_BYTES)


def _at_most(known: Forecast, node_bytes: int) -> Forecast:
    """An output of so many bytes a node."""
    if known.nodes is None:
        return Forecast("known later")
    size = node_bytes * known.nodes
    return Forecast(f"{size_text(size)} at most", known.nodes, bytes=size)


MAKERS = {
    "generate": _generate,
    "graph": _graph,
    "ingest": _ingest,
    "cluster": _cluster,
    "verify": _verify,
    "cut": _cut,
    "export": _export,
    "report": _report,
}
