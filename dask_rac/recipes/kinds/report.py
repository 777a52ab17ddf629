"""`report`: write a page about a run."""

from __future__ import annotations

import math
from typing import Any

from dask_rac.api.cluster import open_run
from dask_rac.base.errors import InputError
from dask_rac.base.events import Listener
from dask_rac.base.text import size_text
from dask_rac.recipes.kinds.kind import Facts, Forecast, Keys, Kind
from dask_rac.recipes.kinds.run import RUN, known_run
from dask_rac.show.report.page import check_page, check_title

PAGE_BYTES = 10_000_000  # 6 MB of names, BokehJS, and what a page holds of any tree


def _check(keys: Keys, parent: Keys | None) -> None:
    check_page(keys["output"])
    heights = keys["height"] if isinstance(keys["height"], list) else [keys["height"]]
    if any(height is not None and not math.isfinite(height) for height in heights):
        raise InputError(f"height: {keys['height']} is not possible: use finite numbers")
    check_title(keys["title"])


def _forecast(keys: Keys, before: Forecast | None, scheduler: str) -> Forecast:
    return Forecast(f"a page, {size_text(PAGE_BYTES)} at most", known_run(keys["run"], before).nodes, bytes=PAGE_BYTES)


def _report(keys: Keys, client: Any, report: Listener) -> Facts:
    run = open_run(keys["run"], progress=report)
    run.report(keys["output"], height=keys["height"], title=keys["title"])
    return {"merges": run.n_nodes - run.n_trees}


REPORT = Kind("report", _report, _forecast, RUN, check=_check)
