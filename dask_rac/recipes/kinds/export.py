"""`export`: write the tree of a run as one file."""

from __future__ import annotations

from typing import Any

from dask_rac.api.cluster import open_run
from dask_rac.base.events import Listener
from dask_rac.files.exports import tree_kind
from dask_rac.recipes.kinds.kind import Facts, Forecast, Keys, Kind
from dask_rac.recipes.kinds.run import RUN, at_most, known_run

MERGE_BYTES = {".npy": 32, ".parquet": 36}  # per row of Z; per row of merges
NEWICK_BYTES = 48  # per node: its name, two lengths, brackets


def _check(keys: Keys, parent: Keys | None) -> None:
    tree_kind(keys["output"])


def _forecast(keys: Keys, before: Forecast | None, scheduler: str) -> Forecast:
    ending = f".{keys['output'].rpartition('.')[2]}"
    return at_most(known_run(keys["run"], before), MERGE_BYTES.get(ending, NEWICK_BYTES))


def _export(keys: Keys, client: Any, report: Listener) -> Facts:
    run = open_run(keys["run"], progress=report)
    run.export(keys["output"], join=keys["join"], zero=keys["zero"], names=keys["names"])
    return {"merges": run.n_nodes - run.n_trees}


EXPORT = Kind("export", _export, _forecast, RUN, check=_check)
