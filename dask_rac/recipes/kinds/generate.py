"""`generate`: make edges or vectors to try things on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dask_rac import datasets
from dask_rac.base.events import Listener
from dask_rac.base.ids import edge_id_dtype
from dask_rac.base.text import size_text
from dask_rac.datasets import lattices
from dask_rac.datasets.bags import check_documents
from dask_rac.datasets.descriptors import check_sift
from dask_rac.edges.writing import edges_size
from dask_rac.recipes.kinds.kind import Facts, Forecast, Keys, Kind
from dask_rac.recipes.schema import GENERATED, particulars

OUTPUTS = {"sift": "sift.bvecs", "documents": "documents.zarr"}
"""Default outputs other than `edges`."""


def _complete(keys: dict[str, Any]) -> None:
    if keys["output"] is None:
        keys["output"] = OUTPUTS.get(keys["kind"], "edges")


def _check(keys: Keys, parent: Keys | None) -> None:
    shape = particulars(keys, GENERATED)
    if keys["kind"] == "lattice":
        lattices.plan(keys["nodes"], shape["degree"], keys["seed"], shape["weights"])
    elif keys["kind"] == "sift":
        check_sift(keys["nodes"], keys["seed"], keys["output"], shape["dimensions"])
    else:
        check_documents(keys["nodes"], keys["seed"], keys["output"], **shape)


def _forecast(keys: Keys, before: Forecast | None, scheduler: str) -> Forecast:
    shape = particulars(keys, GENERATED)
    if keys["kind"] != "lattice":
        sparse = keys["kind"] == "documents"
        values = shape["terms"] if sparse else shape["dimensions"]
        size = keys["nodes"] * (6 * int(shape["length"]) if sparse else values)
        text = f"{keys['nodes']:,} vectors, about {size_text(size)}"
        return Forecast(text, keys["nodes"], bytes=size, dimensions=values, sparse=sparse)
    edges = keys["nodes"] * shape["degree"] // 2
    ids = edge_id_dtype(keys["nodes"])
    size = edges_size(edges, 1, ids)
    return Forecast(f"{edges:,} edges, {size_text(size)}", keys["nodes"], edges, "float32", size)


def _generate(keys: Keys, client: Any, report: Listener) -> Facts:
    shape = {"nodes": keys["nodes"], "seed": keys["seed"], **particulars(keys, GENERATED)}
    common: dict[str, Any] = {"store": keys["output"], "progress": report}
    if keys["kind"] == "lattice":
        datasets.lattice(**shape, **common, client=client)
        return {"nodes": keys["nodes"], "edges": keys["nodes"] * shape["degree"] // 2}
    vectors: dict[str, Callable[..., str]] = {"sift": datasets.sift, "documents": datasets.documents}
    vectors[keys["kind"]](**shape, **common)
    return {"nodes": keys["nodes"]}


GENERATE = Kind("generate", _generate, _forecast, complete=_complete, check=_check)
