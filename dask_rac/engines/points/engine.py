"""The engine for all pairs of dense vectors whose W follows from centroids: no matrix, memory as for the vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask_rac.base.errors import InputError
from dask_rac.base.events import Listener
from dask_rac.base.settings import Settings
from dask_rac.edges.source import EdgeSource
from dask_rac.engines import prepare
from dask_rac.engines.contract import EdgePiece, Expected, Limits, MergeList, Passes, Sizes, Step, Work
from dask_rac.engines.given import GivenPairs
from dask_rac.engines.points import stored
from dask_rac.engines.points.in_memory import merge_points
from dask_rac.engines.points.needs import points_bytes, refuse_bytes, stored_bytes
from dask_rac.engines.points.state import CODES
from dask_rac.store.manifest import State
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.task_graph import TaskGraph
from dask_rac.tasks.team import Team
from dask_rac.vectors.graph.plan import GraphLimits, knn_spans
from dask_rac.vectors.pairs.vector_pairs import VectorPairs

PASSES = 1.3  # over all pairs, as a rule: one for near pairs, the rest for clusters whose lists have run out


class PointsEngine:
    """Clusters are centroids with lists of near ones. A round merges all reciprocal pairs and looks into the lists."""

    name = "points"
    linkages = frozenset({"average", "ward"})
    all_pairs = True

    def suits(self, given: Expected, settings: Settings) -> bool:
        """Whether vectors are dense, and W follows from centroids."""
        known = (settings.linkage, settings.metric) in CODES
        return known and given.dimensions > 0 and not given.sparse

    def sizes(self, given: Expected, settings: Settings, shards: int | None, budget: Budget) -> Sizes:
        """Project memory and disk."""
        limits, nodes = Limits(), given.nodes
        needed = points_bytes(nodes, given.dimensions, budget.threads, limits)
        refuse_bytes(needed, nodes, given.dimensions, budget.process)
        disk = given.bytes + stored_bytes(nodes, given.dimensions, limits)
        passes = Passes(PASSES, _tiles(given, limits.near, budget), f"{min(limits.near, nodes - 1)} nearest of each")
        return Sizes(1, needed, needed, disk, TaskGraph("plan"), passes=passes)

    def begin(self, given: Any, work: Work) -> Step:
        """Check vectors, and merge equal ones."""
        return prepare.begin(given, work)

    def advance(self, state: State, work: Work) -> Step:
        """Find near pairs, or run rounds for about a minute."""
        return stored.advance(state, work)

    def in_memory(self, given: Any, settings: Settings, team: Team, report: Listener, limits: Limits) -> MergeList:
        """Do the whole run in memory."""
        assert isinstance(given, GivenPairs)
        assert isinstance(given.pairs, VectorPairs)
        return merge_points(given.pairs, given.start, given.memory, settings, team, report, limits)

    def pieces(self, source: EdgeSource, unite: bool, work: Work) -> Sequence[EdgePiece]:
        """There are no edges on disk: `results.pairs_audit` reads rows of the triangle."""
        raise InputError("all pairs are not edges: give vectors or distances")


def _tiles(given: Expected, near: int, budget: Budget) -> int:
    """Return into how many parts the search for near pairs is cut."""
    if not isinstance(given.pairs, VectorPairs):
        return 1
    spans = len(knn_spans(given.pairs.source, near, budget, GraphLimits()))
    return spans * (spans + 1) // 2
