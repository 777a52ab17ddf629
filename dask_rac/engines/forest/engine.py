"""The engine for single linkage: Boruvka's rounds find a spanning forest, whose edges in order are the merges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask_rac.base.events import Listener
from dask_rac.base.settings import Settings
from dask_rac.edges.source import EdgeSource
from dask_rac.engines.contract import EdgePiece, Expected, Limits, MergeList, Sizes, Step, Work
from dask_rac.engines.forest import stored
from dask_rac.engines.forest.in_memory import span_forest
from dask_rac.engines.forest.tasks import forest_graph
from dask_rac.engines.rows.pieces import edge_pieces
from dask_rac.engines.rows.sizes import project
from dask_rac.engines.rows.stored import begin
from dask_rac.store.manifest import State
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.team import Team


class ForestEngine:
    """Rows stay those of the nodes and only lose edges. A round gives every component its lightest edge."""

    name = "forest"
    linkages = frozenset({"single"})
    all_pairs = False

    def suits(self, given: Expected, settings: Settings) -> bool:
        """Whatever is given."""
        return True

    def sizes(self, given: Expected, settings: Settings, shards: int | None, budget: Budget) -> Sizes:
        """Project shards, memory and disk."""
        return project(given, settings, shards, budget, forest_graph)

    def begin(self, given: Any, work: Work) -> Step:
        """Read the edges into the rows of single nodes; of an extension, those that are new."""
        return stored.extend(given, work) if isinstance(given, stored.Extension) else begin(given, work)

    def advance(self, state: State, work: Work) -> Step:
        """Do one round, all that are left, or the merges of the finished forest."""
        return stored.advance(state, work)

    def in_memory(self, given: Any, settings: Settings, team: Team, report: Listener, limits: Limits) -> MergeList:
        """Do all rounds in memory."""
        return span_forest(given, settings, team, report)

    def pieces(self, source: EdgeSource, unite: bool, work: Work) -> Sequence[EdgePiece]:
        """Cut the edges into pieces."""
        return edge_pieces(source, unite, work)
