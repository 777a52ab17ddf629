"""A run in memory, by the engine for its linkage."""

from __future__ import annotations

from typing import Any

import numpy as np

from dask_rac.base.events import Listener
from dask_rac.base.settings import Settings
from dask_rac.engines import engine_for
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.kernels.tree.merges import raise_heights
from dask_rac.tasks.team import Team


def run(graph: Any, settings: Settings, team: Team, report: Listener, limits: Limits) -> MergeList:
    """Cluster the nodes of `graph`; its spare arrays are overwritten."""
    found = engine_for(settings).in_memory(graph, settings, team, report, limits)
    merges = found.merges
    # Rounding may put a merge of sums a last bit below one of its parts: heights must not fall.
    raise_heights(merges.left, merges.right, merges.height, np.full(found.nodes, -np.inf))
    merges.height[:] = settings.sign * merges.height + 0.0  # no minus zero
    return found
