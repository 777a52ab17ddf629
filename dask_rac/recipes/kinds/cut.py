"""`cut`: cut the tree of a run into flat clusters."""

from __future__ import annotations

import math
from typing import Any

from dask_rac.api.cluster import open_run
from dask_rac.base.errors import InputError
from dask_rac.base.events import Listener
from dask_rac.files.labels import check_labels
from dask_rac.recipes.kinds.kind import Facts, Forecast, Keys, Kind
from dask_rac.recipes.kinds.run import RUN, at_most, known_run

LABEL_BYTES = 16  # per node and cut


def _complete(keys: dict[str, Any]) -> None:
    if (keys["height"] is None) == (keys["n_clusters"] is None):
        raise ValueError("either height: or n_clusters:")


def _check(keys: Keys, parent: Keys | None) -> None:
    check_labels(keys["output"])
    for name in ("height", "n_clusters"):
        values = keys[name] if isinstance(keys[name], list) else [keys[name]]
        if not values:
            raise InputError(f"{name}: [] is an empty list: name at least one cut")
        if any(value is not None and (math.isnan(value) or (name == "n_clusters" and value < 1)) for value in values):
            remedy = "use whole numbers from 1" if name == "n_clusters" else "use numbers"
            raise InputError(f"{name}: {keys[name]} is not possible: {remedy}")


def _forecast(keys: Keys, before: Forecast | None, scheduler: str) -> Forecast:
    wanted = keys["n_clusters"] if keys["height"] is None else keys["height"]
    cuts = len(wanted) if isinstance(wanted, list) else 1
    return at_most(known_run(keys["run"], before), LABEL_BYTES * cuts)


def _cut(keys: Keys, client: Any, report: Listener) -> Facts:
    run = open_run(keys["run"], progress=report)
    by = "height" if keys["n_clusters"] is None else "n_clusters"
    run.cut(height=keys["height"], n_clusters=keys["n_clusters"], store=keys["output"])
    return {"nodes": run.n_nodes, by: keys[by]}


CUT = Kind("cut", _cut, _forecast, RUN, complete=_complete, check=_check)
