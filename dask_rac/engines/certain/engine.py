"""The engine for all pairs beyond memory: certain rounds on near pairs, then the matrix of what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask_rac.base.errors import InputError, ResourceError
from dask_rac.base.events import Listener
from dask_rac.base.settings import Settings
from dask_rac.base.text import size_text
from dask_rac.edges.source import EdgeSource
from dask_rac.engines import prepare
from dask_rac.engines.certain import spanning_stored, stored
from dask_rac.engines.certain.in_memory import merge_certain
from dask_rac.engines.certain.spanning import merge_spanning
from dask_rac.engines.certain.state import PAIR_BYTES, SLOT_BYTES
from dask_rac.engines.certain.survey import survey_pairs
from dask_rac.engines.contract import EdgePiece, Expected, Limits, MergeList, Passes, Sizes, Step, Work
from dask_rac.engines.given import GivenPairs
from dask_rac.store.manifest import State
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.machine import new_team
from dask_rac.tasks.task_graph import TaskGraph
from dask_rac.tasks.team import Team
from dask_rac.vectors.graph.plan import edge_bytes
from dask_rac.vectors.pairs.triangle import triangle_entries

SPAN_BYTES = 100  # per node and thread, while a spanning tree grows
USUAL_DEGREE = 256  # near pairs per vector, where memory allows; what a survey would choose is not known here


class CertainEngine:
    """Pairs merge while no unknown pair can be nearer. Then all pairs are reduced to those of the clusters left."""

    name = "certain"
    linkages = frozenset({"average", "complete", "single", "weighted"})
    all_pairs = True

    def suits(self, given: Expected, settings: Settings) -> bool:
        """Whatever is given."""
        return True

    def sizes(self, given: Expected, settings: Settings, shards: int | None, budget: Budget) -> Sizes:
        """Project passes, memory and disk, from a sample of what is given if it is there."""
        if settings.linkage == "single":
            return _spanning_sizes(given, budget)
        if given.pairs is None or given.nodes < 2:
            return _usual_sizes(given, budget)
        stored.refuse_pass(given.pairs, budget, settings, Limits())
        with new_team() as team:
            survey = survey_pairs(given.pairs, budget.process, settings, team, Limits())
        pairs = triangle_entries(given.nodes)
        tiles = (1 + survey.stages) * -(-pairs // Limits().band_pairs)
        near = f"{survey.k} nearest of each" if survey.k else f"within {abs(survey.eps):.6g}"
        passes = Passes(1 + survey.stages, tiles, f"{near}, about {survey.edges:,} pairs", survey.left)
        memory = max(survey.memory, stored.pass_bytes(given.pairs, budget, settings, Limits()))
        return Sizes(1, memory, memory, survey.disk + 40 * given.nodes, TaskGraph("plan"), passes=passes)

    def begin(self, given: Any, work: Work) -> Step:
        """Check vectors, and merge equal ones."""
        return prepare.begin(given, work)

    def advance(self, state: State, work: Work) -> Step:
        """Do one step of a phase."""
        if work.settings.linkage == "single":
            return spanning_stored.advance(state, work)
        return stored.advance(state, work)

    def in_memory(self, given: Any, settings: Settings, team: Team, report: Listener, limits: Limits) -> MergeList:
        """Do the whole run in memory."""
        assert isinstance(given, GivenPairs)
        merge = merge_spanning if settings.linkage == "single" else merge_certain
        return merge(given.pairs, given.start, given.memory, settings, team, report, limits)

    def pieces(self, source: EdgeSource, unite: bool, work: Work) -> Sequence[EdgePiece]:
        """There are no edges on disk: `results.pairs_audit` reads rows of the triangle."""
        raise InputError("all pairs are not edges: give vectors or distances")


def _usual_sizes(given: Expected, budget: Budget) -> Sizes:
    """Project memory and disk from the number of nodes alone."""
    least = given.nodes * (SLOT_BYTES + 4 * PAIR_BYTES)
    if least > budget.process:
        raise ResourceError(
            f"the near pairs of {given.nodes:,} nodes need {size_text(least)} of memory or more, and "
            f"{size_text(budget.process)} may be used: set memory='{-(-least * budget.processes // 10**6)}MB'"
        )
    room = (budget.process - SLOT_BYTES * given.nodes) // PAIR_BYTES
    pairs = min(room, given.nodes * USUAL_DEGREE // 2)
    memory = pairs * PAIR_BYTES + SLOT_BYTES * given.nodes
    disk = 2 * pairs * edge_bytes(given.nodes) + 40 * given.nodes
    tiles = 2 * -(-triangle_entries(given.nodes) // Limits().band_pairs)
    return Sizes(1, memory, memory, disk, TaskGraph("plan"), passes=Passes(2, tiles))


def _spanning_sizes(given: Expected, budget: Budget) -> Sizes:
    """Project what one pass for a spanning tree takes: the vectors of a band, and a forest in each thread."""
    needed = given.nodes * SPAN_BYTES * budget.threads + 3 * given.bytes
    if needed > budget.process:
        raise ResourceError(
            f"a spanning tree of {given.nodes:,} nodes needs {size_text(needed)} of memory, and "
            f"{size_text(budget.process)} may be used: set memory='{-(-needed * budget.processes // 10**6)}MB'"
        )
    tiles = max(1, triangle_entries(given.nodes) // Limits().span_pairs)
    return Sizes(1, needed, needed, 80 * given.nodes, TaskGraph("plan"), passes=Passes(1, tiles))
