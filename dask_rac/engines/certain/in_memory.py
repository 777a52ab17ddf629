"""All pairs beyond memory, by one process: near pairs, certain rounds, stages, then the matrix of what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Event, Listener, RoundRecord
from dask_rac.base.settings import Settings
from dask_rac.base.spans import Span
from dask_rac.engines.certain.given_pairs import near_given_clusters, reduce_given
from dask_rac.engines.certain.groups import Grouped
from dask_rac.engines.certain.left import Left, after_rounds, all_left, clusters_left, groups_left
from dask_rac.engines.certain.near_pairs import find_near, reach_of
from dask_rac.engines.certain.reduce import entries_of, near_of, reduce_bytes, reduced_triangle, reducer_of
from dask_rac.engines.certain.round import certain_rounds
from dask_rac.engines.certain.stages import (
    Near,
    refuse_stage,
    sampled_clusters,
    sampled_heights,
    stage_pairs,
    stage_radii,
)
from dask_rac.engines.certain.state import CertainState, first_state, up_to
from dask_rac.engines.certain.survey import Survey, fewer_pairs, most_pairs, survey_pairs
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.engines.matrix.in_memory import merge_reduced, pairs_bytes
from dask_rac.engines.matrix.state import CODES
from dask_rac.engines.near import TooManyPairsError
from dask_rac.engines.start import Start
from dask_rac.kernels.arrays import Merges, empty_merges
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.triangle import triangle_entries, triangle_spans
from dask_rac.vectors.pairs.vector_pairs import VectorPairs

STAGE_PARTS = 8, 16  # of what a thread searches for near pairs at a time, and of these per thread


def merge_certain(  # noqa: PLR0913, PLR0917 - what every engine in memory is given
    pairs: AllPairs, start: Start, memory: int, settings: Settings, team: Team, report: Listener, limits: Limits
) -> MergeList:
    """Cluster all pairs of the clusters of a start, within so many bytes beside the vectors."""
    run = CertainRun(pairs, start, memory, settings, team, report, limits)
    most, ended = None, len(start.ids) < 2
    while not ended:
        survey = survey_pairs(pairs, memory, settings, team, limits, most)
        try:
            run.go(survey)
            ended = True
        except TooManyPairsError as error:
            most = fewer_pairs(survey, error.pairs, pairs.nodes, memory)
    return joined(run.found, start.nodes)


@dataclass
class CertainRun:
    """A run in memory: what it is given, the clusters that are left, and the merges that were found."""

    pairs: AllPairs
    start: Start
    memory: int
    settings: Settings
    team: Team
    report: Listener
    limits: Limits
    found: list[MergeList] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.code = CODES[self.settings.linkage]
        self.take(all_left(self.start))

    def take(self, left: Left) -> None:
        """Go on with these clusters."""
        self.left, self.clusters = left, clusters_left(self.start, left)
        self.groups = groups_left(self.start, left, self.code)

    def go(self, survey: Survey) -> None:
        """Run to the end, with near pairs as a survey has chosen them."""
        if not self.merge_near(survey):
            self.merge_rest()

    def merge_near(self, survey: Survey) -> bool:
        """Merge what near pairs decide; return whether nothing is left to merge."""
        near = find_near(survey, self.pairs, self.memory, self.team, self.report)
        state = first_state(near, self.start, reach_of(survey, self.pairs), self.settings, self.team)
        del near
        return self.rounds(state)

    def merge_rest(self) -> None:
        """Merge what is left, by stages until its matrix fits in memory."""
        ended = False
        while not ended and self._needed() > self.memory:
            ended = self._stage()
        if not ended:
            self.found.append(self._matrix())

    def _needed(self) -> int:
        """Return the bytes that the matrix of the clusters that are left needs, and the pass that gives it."""
        clusters = len(self.clusters.ids)
        if not isinstance(self.pairs, VectorPairs):
            return pairs_bytes(clusters)
        passing = reduce_bytes(self.pairs, clusters, self.code, self.team.threads, self._entries())
        return pairs_bytes(clusters) + min(passing, self.memory // 4)  # a stage would need the same for its pass

    def _entries(self) -> int:
        """Return how many entries of the triangle of clusters a thread holds."""
        return entries_of(self.memory, self.team.threads, self.limits)

    def rounds(self, state: CertainState) -> bool:
        """Run certain rounds; return whether nothing is left to merge."""
        self.report(Event("rounds", self.start.nodes))
        found = certain_rounds(state, self.start.nodes, self.settings, self.team, self.report, self.limits)
        self.found.append(found)
        self.take(after_rounds(self.left, state))
        return state.ended(self.settings.sign * self.settings.max_height)

    def _stage(self) -> bool:
        """Go on with the near pairs of the clusters that are left; return whether nothing is left to merge."""
        before, radii = len(self.clusters.ids), self.radii()
        parts, shares = STAGE_PARTS
        many = -(-triangle_entries(before) // (parts * self._entries()))
        spans = triangle_spans(before, max(many, shares * self.team.threads))
        found = stage_pairs(radii, spans, most_pairs(before, self.memory), self._finder())
        if found is not None:
            reach = up_to(found[0])
            state = first_state(found[1], self.clusters, reach, self.settings, self.team, folded=True)
            if self.rounds(state):
                return True
        if before - len(self.clusters.ids) < self.limits.stage_share * before:
            refuse_stage(len(self.clusters.ids), self.memory)
        return False

    def radii(self) -> list[float]:
        """Return the radii that a stage may have, the largest first."""
        pairs, few = sampled_clusters(self.pairs, self.groups, self.limits.stage_sample)
        heights = sampled_heights(few, self.code, self._triangle(pairs, few))
        return stage_radii(heights, len(self.clusters.ids), self.memory, self.limits)

    def _finder(self) -> Callable[[float, Sequence[Span]], Sequence[Near]]:
        """Return what finds the near pairs of clusters in spans of rows of their triangle."""
        pairs, groups, code, team = self.pairs, self.groups, self.code, self.team
        if isinstance(pairs, VectorPairs):
            reducer, most = reducer_of(pairs, groups, code), self._entries()
            return lambda radius, spans: team.run(
                lambda span: near_of(reducer, groups, code, span, radius, most), spans
            )
        return lambda radius, spans: [near_given_clusters(pairs, groups, code, span, radius, team) for span in spans]

    def _triangle(self, pairs: AllPairs, groups: Grouped) -> NDArray[np.float64]:
        """Return the triangle of some clusters."""
        if isinstance(pairs, VectorPairs):
            return reduced_triangle(pairs, groups, self.code, self.team, self.report)
        return reduce_given(pairs, groups, self.code, (0, groups.clusters), self.team, self.report)

    def _matrix(self) -> MergeList:
        """Merge what is left by the matrix of the clusters."""
        triangle = self._triangle(self.pairs, self.groups)
        return merge_reduced(triangle, self.clusters, self.settings, self.team, self.report, self.limits)


def joined(parts: Sequence[MergeList], nodes: int) -> MergeList:
    """Return the merges of several parts of a run, one after the other, with their rounds numbered on."""
    merges, when = [empty_merges(0, np.dtype(np.int64))], [np.empty(0, np.int32)]
    records: list[RoundRecord] = []
    for part in parts:
        before = len(records)
        merges.append(part.merges)
        when.append(part.round + np.int32(before))
        records += [replace(record, round=record.round + before) for record in part.records]
    columns = (np.concatenate(column) for column in zip(*merges, strict=True))
    return MergeList(nodes, Merges(*columns), np.concatenate(when), records)
