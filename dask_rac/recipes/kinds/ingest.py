"""`ingest`: convert an edge list to Parquet."""

from __future__ import annotations

from typing import Any

from dask_rac.api.ingest import ingest
from dask_rac.base.events import Listener
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.base.text import size_text
from dask_rac.edges.source import open_edges
from dask_rac.files.urls import locate
from dask_rac.recipes.kinds.kind import Facts, Forecast, Keys, Kind, StepInput


def _forecast(keys: Keys, before: Forecast | None, scheduler: str) -> Forecast:
    filesystem, path = locate(keys["edges"])
    return Forecast(f"{size_text(filesystem.du(path))} to read")


def _ingest(keys: Keys, client: Any, report: Listener) -> Facts:
    reading = {name: keys[name] for name in ("delimiter", "header", "text_ids")}
    columns = tuple(keys["columns"] or EDGE_COLUMNS)
    written = ingest(keys["edges"], keys["output"], columns=columns, **reading, progress=report)
    return {"edges": open_edges(written).rows}


INGEST = Kind("ingest", _ingest, _forecast, works_on=StepInput("edges"))
