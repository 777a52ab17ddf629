"""`verify`: audit a run against its edges, or against all pairs of its vectors."""

from __future__ import annotations

from typing import Any

from dask_rac.api.cluster import open_run
from dask_rac.base.events import Listener
from dask_rac.recipes.kinds.kind import Facts, Forecast, Keys, Kind
from dask_rac.recipes.kinds.run import RUN, known_run, names_input


def _forecast(keys: Keys, before: Forecast | None, scheduler: str) -> Forecast:
    known = known_run(keys["run"], before)
    reads = "edges" if keys["vectors"] is None else "pairs"
    return Forecast("known later" if known.edges is None else f"reads {known.edges:,} {reads} once", known.nodes)


def _verify(keys: Keys, client: Any, report: Listener) -> Facts:
    named = keys["vectors"] or keys["edges"]
    trusted = names_input(keys["run"], named)
    given = None if trusted else named
    audit = open_run(keys["run"], progress=report).verify(given, client=client, trust_source=trusted)
    things = "pairs" if audit.all_pairs else "edges"
    ratios = {"ratios": audit.ratios} if audit.ratios or audit.ratio_bytes else {}
    return {"merges": audit.merges, things: audit.edges, "worst_error": audit.worst_error, **ratios}


VERIFY = Kind("verify", _verify, _forecast, RUN, inherits=("edges", "vectors"))
