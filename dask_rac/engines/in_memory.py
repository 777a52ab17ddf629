"""A run in memory, by the engine for its linkage, or for all pairs by the one that fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dask_rac.base.events import Event, Listener
from dask_rac.base.settings import Settings
from dask_rac.engines import engine_for
from dask_rac.engines.choice import choose_engine, expected_pairs
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.engines.given import GivenPairs
from dask_rac.engines.prepare import joined, start_pairs
from dask_rac.kernels.tree.merges import raise_heights
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.contract import AllPairs


def run(graph: Any, settings: Settings, team: Team, report: Listener, limits: Limits) -> MergeList:
    """Cluster the nodes of `graph`; its spare arrays are overwritten."""
    return _finished(engine_for(settings).in_memory(graph, settings, team, report, limits), settings)


def run_pairs(  # noqa: PLR0913 - as `run`, with what an engine is chosen by
    pairs: AllPairs, settings: Settings, team: Team, report: Listener, limits: Limits, *, memory: int, name: str = ""
) -> MergeList:
    """Cluster all pairs in so many bytes of memory, by the engine of this name or the one that fits."""
    pairs.check(team, report)
    start, distinct, before = start_pairs(pairs, settings, team, report)
    if len(start.ids) == 1:
        return _finished(before, settings)
    given = expected_pairs(distinct)
    engine, _ = choose_engine(given, settings, Budget(memory, 1, team.threads), name)
    merged = len(before.round)

    def counted(event: Event) -> None:
        report(replace(event, n_nodes=pairs.nodes, merges=event.merges + merged))

    after = engine.in_memory(GivenPairs(distinct, start, memory), settings, team, counted, limits)
    return _finished(joined(before, after), settings)


def _finished(found: MergeList, settings: Settings) -> MergeList:
    """Return merges as users see them: heights that do not fall, and similarities as they are."""
    merges = found.merges
    # Rounding may put a merge of sums a last bit below one of its parts: heights must not fall.
    raise_heights(merges.left, merges.right, merges.height, np.full(found.nodes, -np.inf))
    merges.height[:] = settings.sign * merges.height + 0.0  # no minus zero
    return found
