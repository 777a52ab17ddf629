"""`cut`: cut the tree of a run into flat clusters."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from typing import Any

from dask_rac.api.cluster import open_run
from dask_rac.base.errors import InputError
from dask_rac.base.events import Listener
from dask_rac.files.labels import check_labels
from dask_rac.recipes.kinds.kind import Facts, Forecast, Keys, Kind
from dask_rac.recipes.kinds.run import RUN, at_most, known_run
from dask_rac.results.cut_request import CutRequest

LABEL_BYTES = 16  # per node and cut


KINDS = ("height", "n_clusters", "min_cluster_size")
"""The keys of which one may have several values, one per cut."""


def _complete(keys: dict[str, Any]) -> None:
    if keys["method"] is None and (keys["height"] is None) == (keys["n_clusters"] is None):
        raise ValueError("either height: or n_clusters:, or method:")


def _check(keys: Keys, parent: Keys | None) -> None:
    check_labels(keys["output"])
    for name in KINDS:
        values = keys[name] if isinstance(keys[name], list) else [keys[name]]
        if not values:
            raise InputError(f"{name}: [] is an empty list: name at least one cut")
        if any(value is not None and (math.isnan(value) or (name != "height" and value < 1)) for value in values):
            remedy = "use numbers" if name == "height" else "use whole numbers from 1"
            raise InputError(f"{name}: {keys[name]} is not possible: {remedy}")
    _wanted(keys).checked()


def _wanted(keys: Keys) -> CutRequest:
    return CutRequest(**{field.name: keys[field.name] for field in fields(CutRequest)})


def _forecast(keys: Keys, before: Forecast | None, scheduler: str) -> Forecast:
    cuts = max(len(keys[name]) if isinstance(keys[name], list) else 1 for name in KINDS)
    return at_most(known_run(keys["run"], before), LABEL_BYTES * cuts)


def _cut(keys: Keys, client: Any, report: Listener) -> Facts:
    run = open_run(keys["run"], progress=report)
    run.cut(**asdict(_wanted(keys)), store=keys["output"])
    given = {name: keys[name] for name in ("method", *KINDS) if keys[name] is not None}
    return {"nodes": run.n_nodes, **given}


CUT = Kind("cut", _cut, _forecast, RUN, complete=_complete, check=_check)
