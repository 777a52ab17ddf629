"""`verify`: audit a run against its edges."""

from __future__ import annotations

from typing import Any

from dask_rac.api.cluster import open_run
from dask_rac.base.events import Listener
from dask_rac.recipes.kinds.kind import Facts, Forecast, Keys, Kind
from dask_rac.recipes.kinds.run import RUN, known_run, names_edges


def _forecast(keys: Keys, before: Forecast | None, scheduler: str) -> Forecast:
    known = known_run(keys["run"], before)
    return Forecast("known later" if known.edges is None else f"reads {known.edges:,} edges once", known.nodes)


def _verify(keys: Keys, client: Any, report: Listener) -> Facts:
    trusted = names_edges(keys["run"], keys["edges"])
    edges = None if trusted else keys["edges"]
    audit = open_run(keys["run"], progress=report).verify(edges, client=client, trust_source=trusted)
    return {"merges": audit.merges, "edges": audit.edges, "worst_error": audit.worst_error}


VERIFY = Kind("verify", _verify, _forecast, RUN, inherits=("edges",))
