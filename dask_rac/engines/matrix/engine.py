"""The engine for all pairs, of vectors or in a matrix of distances: rounds on one triangle in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask_rac.base.errors import InputError
from dask_rac.base.events import Listener
from dask_rac.base.settings import Settings
from dask_rac.edges.source import EdgeSource
from dask_rac.engines.contract import EdgePiece, Expected, Limits, MergeList, Sizes, Step, Work
from dask_rac.engines.matrix import stored
from dask_rac.engines.matrix.in_memory import merge_pairs, pairs_bytes, refuse_large
from dask_rac.store.manifest import State
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.task_graph import TaskGraph
from dask_rac.tasks.team import Team


class MatrixEngine:
    """Every pair of clusters has an entry in one triangle. A round merges all reciprocal pairs and folds their rows."""

    name = "matrix"
    linkages = frozenset({"average", "complete", "single", "ward", "weighted"})
    all_pairs = True

    def suits(self, given: Expected, settings: Settings) -> bool:
        """Whatever is given."""
        return True

    def sizes(self, given: Expected, settings: Settings, shards: int | None, budget: Budget) -> Sizes:
        """Project memory; nothing but merges goes to the disk."""
        refuse_large(given.nodes, budget.process)
        needed = pairs_bytes(given.nodes)
        return Sizes(1, needed, needed, 40 * given.nodes, TaskGraph("plan"))

    def begin(self, given: Any, work: Work) -> Step:
        """Do the whole run, which is one step."""
        return stored.begin(given, work)

    def advance(self, state: State, work: Work) -> Step:
        """There is no second step: a run that was stopped begins again."""
        raise InputError(f"{work.store.url} has a state that the matrix engine never writes: start again elsewhere")

    def in_memory(self, given: Any, settings: Settings, team: Team, report: Listener, limits: Limits) -> MergeList:
        """Do all rounds in memory."""
        return merge_pairs(given, settings, team, report, limits)

    def pieces(self, source: EdgeSource, unite: bool, work: Work) -> Sequence[EdgePiece]:
        """There are no edges on disk: `results.pairs_audit` reads rows of the triangle."""
        raise InputError("all pairs are not edges: give vectors or distances")
