"""`graph`: build a graph of vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dask_rac.api.graphs import complete_graph, eps_graph, knn_graph
from dask_rac.base.events import Listener
from dask_rac.base.ids import edge_id_dtype
from dask_rac.base.parameters import GRAPHS
from dask_rac.base.text import size_text
from dask_rac.edges.writing import edges_size
from dask_rac.files.folder import Folder
from dask_rac.recipes.kinds.kind import Facts, Forecast, Keys, Kind, StepInput
from dask_rac.recipes.schema import particulars
from dask_rac.tasks.budget import memory_bytes
from dask_rac.vectors.graph.plan import EDGE_WEIGHT
from dask_rac.vectors.graph.request import checked_request
from dask_rac.vectors.sources.opening import open_vectors

BUILDERS: dict[str, Callable[..., Any]] = {"knn": knn_graph, "eps": eps_graph, "complete": complete_graph}
SHOWN = ("nodes", "edges", "components", "largest", "recall")


def _check(keys: Keys, parent: Keys | None) -> None:
    checked_request(keys["kind"], keys["metric"], **particulars(keys, GRAPHS))
    memory_bytes(keys["memory"], 1)


def _forecast(keys: Keys, before: Forecast | None, scheduler: str) -> Forecast:
    nodes = before.nodes if before is not None else _rows(keys)
    specific = particulars(keys, GRAPHS)
    if nodes is None:
        return Forecast("known when the vectors exist")
    if keys["kind"] == "eps":
        return Forecast("known when the pairs are counted", nodes)
    edges = nodes * specific["k"] if keys["kind"] == "knn" else nodes * (nodes - 1) // 2
    size = edges_size(edges, 1, edge_id_dtype(nodes), EDGE_WEIGHT)
    return Forecast(f"{edges:,} edges at most, {size_text(size)}", nodes, edges, "float64", size)


def _rows(keys: Keys) -> int | None:
    """Return the number of vectors, if they exist."""
    if not Folder(keys["vectors"]).exists():
        return None
    return open_vectors(keys["vectors"], keys["columns"]).rows


def _graph(keys: Keys, client: Any, report: Listener) -> Facts:
    common = {name: keys[name] for name in ("metric", "columns", "memory")}
    specific = particulars(keys, GRAPHS)
    frame = BUILDERS[keys["kind"]](
        keys["vectors"], **specific, **common, store=keys["output"], client=client, progress=report
    )
    facts = frame.attrs["graph"]
    return {name: facts[name] for name in SHOWN if facts[name] is not None}


GRAPH = Kind("graph", _graph, _forecast, StepInput("vectors", ("generate",)), check=_check, resumable=True)
