"""What the steps of a recipe do, and what is checked of them before any starts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from dask_rac import datasets
from dask_rac.api import cluster, open_run, resume
from dask_rac.config import EDGE_COLUMNS, Progress, checked_settings
from dask_rac.conversion import ingest
from dask_rac.errors import InputError
from dask_rac.report.page import check_page
from dask_rac.schema import GENERATED, GRAPHS, SETTINGS, particulars
from dask_rac.standins import check_documents, check_sift
from dask_rac.store.edges import open_edges
from dask_rac.store.files import Folder
from dask_rac.store.labels import check_labels
from dask_rac.store.manifest import HEADER
from dask_rac.store.trees import tree_kind
from dask_rac.vectors.graph import checked_request, complete_graph, eps_graph, knn_graph
from dask_rac.workers import memory_bytes

Given = Mapping[str, Any]
"""What a step was told."""


def _generate(given: Given, client: Any, report: Progress) -> dict[str, Any]:
    shape = {"nodes": given["nodes"], "seed": given["seed"], **particulars(given, GENERATED)}
    told: dict[str, Any] = {"store": given["output"], "progress": report}
    if given["kind"] == "lattice":
        datasets.lattice(**shape, **told, client=client)
        return {"nodes": given["nodes"], "edges": given["nodes"] * shape["degree"] // 2}
    vectors: dict[str, Callable[..., str]] = {"sift": datasets.sift, "documents": datasets.documents}
    vectors[given["kind"]](**shape, **told)
    return {"nodes": given["nodes"]}


def _graph(given: Given, client: Any, report: Progress) -> dict[str, Any]:
    graphs: dict[str, Callable[..., Any]] = {"knn": knn_graph, "eps": eps_graph, "complete": complete_graph}
    told = {name: given[name] for name in ("metric", "columns", "memory")}
    asked = particulars(given, GRAPHS)
    frame = graphs[given["kind"]](
        given["vectors"], **asked, **told, store=given["output"], client=client, progress=report
    )
    facts = frame.attrs["graph"]
    shown = "nodes", "edges", "components", "largest", "recall"
    return {name: facts[name] for name in shown if facts[name] is not None}


def _ingest(given: Given, client: Any, report: Progress) -> dict[str, Any]:
    told = {name: given[name] for name in ("delimiter", "header")}
    columns = tuple(given["columns"] or EDGE_COLUMNS)
    written = ingest(given["edges"], given["output"], columns=columns, **told, progress=report)
    return {"edges": open_edges(written).rows}


def _cluster(given: Given, client: Any, report: Progress) -> dict[str, Any]:
    place = {"memory": given["memory"], "client": client, "progress": report}
    if Folder(given["output"]).exists(HEADER):
        result = resume(given["output"], **place)
    else:
        told = {name: given[name] for name in (*SETTINGS, "n_nodes", "shards")}
        result = cluster(given["edges"], **told, store=given["output"], **place)
    rounds = result.rounds
    return {
        "nodes": result.n_nodes,
        "merges": result.n_nodes - result.n_trees,
        "trees": result.n_trees,
        "rounds": len(rounds),
        "peak_disk": result.peak_disk,
    }


def _verify(given: Given, client: Any, report: Progress) -> dict[str, Any]:
    found = open_run(given["run"], progress=report).verify(client=client)
    return {"merges": found.merges, "edges": found.edges, "worst_error": found.worst_error}


def _cut(given: Given, client: Any, report: Progress) -> dict[str, Any]:
    run = open_run(given["run"], progress=report)
    kind = "height" if given["clusters"] is None else "clusters"
    run.cut(height=given["height"], n_clusters=given["clusters"], store=given["output"])
    return {"nodes": run.n_nodes, kind: given[kind]}


def _export(given: Given, client: Any, report: Progress) -> dict[str, Any]:
    run = open_run(given["run"], progress=report)
    run.export(given["output"], join=given["join"], zero=given["zero"])
    return {"merges": run.n_nodes - run.n_trees}


def _report(given: Given, client: Any, report: Progress) -> dict[str, Any]:
    run = open_run(given["run"], progress=report)
    run.report(given["output"], height=given["height"])
    return {"merges": run.n_nodes - run.n_trees}


DOES: dict[str, Callable[[Given, Any, Progress], dict[str, Any]]] = {
    "generate": _generate,
    "graph": _graph,
    "ingest": _ingest,
    "cluster": _cluster,
    "verify": _verify,
    "cut": _cut,
    "export": _export,
    "report": _report,
}


def _check_generate(given: Given) -> None:
    shape = particulars(given, GENERATED)
    if given["kind"] == "lattice":
        datasets.plan(given["nodes"], shape["degree"], given["seed"], shape["weights"])
    elif given["kind"] == "sift":
        check_sift(given["nodes"], given["seed"], given["output"], shape["dimensions"])
    else:
        check_documents(given["nodes"], given["seed"], given["output"], **shape)


def _check_graph(given: Given) -> None:
    checked_request(given["kind"], given["metric"], **particulars(given, GRAPHS))
    memory_bytes(given["memory"], 1)


def _check_cluster(given: Given) -> None:
    checked_settings(*(given[name] for name in SETTINGS))
    memory_bytes(given["memory"], 1)
    if given["shards"] is not None and given["shards"] < 1:
        raise InputError(f"shards={given['shards']} is not a whole number, 1 or more")


def _check_cut(given: Given) -> None:
    check_labels(given["output"])
    for name in ("height", "clusters"):
        values = given[name] if isinstance(given[name], list) else [given[name]]
        if not values:
            raise InputError(f"{name}: [] asks for no cut, so there is nothing to write")
        if any(value is not None and (math.isnan(value) or (name == "clusters" and value < 1)) for value in values):
            raise InputError(f"{name}: {given[name]} is not to be had")


def _check_report(given: Given) -> None:
    check_page(given["output"])
    heights = given["height"] if isinstance(given["height"], list) else [given["height"]]
    if any(height is not None and not math.isfinite(height) for height in heights):
        raise InputError(f"height: {given['height']} is not to be had")


CHECKS: dict[str, Callable[[Given], Any]] = {
    "generate": _check_generate,
    "graph": _check_graph,
    "cluster": _check_cluster,
    "cut": _check_cut,
    "export": lambda given: tree_kind(given["output"]),
    "report": _check_report,
}
