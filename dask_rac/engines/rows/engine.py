"""The engine for average, complete and weighted linkage: rounds of reciprocal pairs on sparse rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask_rac.base.events import Listener
from dask_rac.base.settings import Settings
from dask_rac.edges.source import EdgeSource
from dask_rac.engines.contract import EdgePiece, Expected, Limits, MergeList, Sizes, Step, Work
from dask_rac.engines.rows import stored
from dask_rac.engines.rows.in_memory import merge_nodes
from dask_rac.engines.rows.pieces import edge_pieces
from dask_rac.engines.rows.sizes import project
from dask_rac.engines.rows.tasks import round_graph
from dask_rac.engines.rows.within import ending_of
from dask_rac.store.manifest import State
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.team import Team


class RowsEngine:
    """Every cluster has a row of neighbours. A round merges all reciprocal pairs and folds their rows."""

    name = "rows"
    linkages = frozenset({"average", "complete", "weighted"})
    all_pairs = False

    def suits(self, given: Expected, settings: Settings) -> bool:
        """Whatever is given."""
        return True

    def sizes(self, given: Expected, settings: Settings, shards: int | None, budget: Budget) -> Sizes:
        """Project shards, memory and disk."""
        return project(given, settings, shards, budget, round_graph)

    def begin(self, given: Any, work: Work) -> Step:
        """Read the edges into the rows of single nodes."""
        return stored.begin(given, work)

    def advance(self, state: State, work: Work) -> Step:
        """Do one round, or all that are left."""
        return stored.advance(state, work)

    def in_memory(self, given: Any, settings: Settings, team: Team, report: Listener, limits: Limits) -> MergeList:
        """Do all rounds in memory."""
        return merge_nodes(given, settings, team, report, limits, ending_of(settings))

    def pieces(self, source: EdgeSource, unite: bool, work: Work) -> Sequence[EdgePiece]:
        """Cut the edges into pieces."""
        return edge_pieces(source, unite, work)
