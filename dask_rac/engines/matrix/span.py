"""Single linkage of all pairs: the spanning trees of parts, then their edges from the lightest to the heaviest."""

from __future__ import annotations

from itertools import combinations_with_replacement
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import RoundRecord
from dask_rac.base.spans import even_spans
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.engines.forest.state import ForestEdges, ends_of, tree_order
from dask_rac.engines.matrix.state import members_of
from dask_rac.engines.start import Start
from dask_rac.kernels.arrays import empty_merges, part
from dask_rac.kernels.matrix.spanning import name_ends, span_groups, unite_spans
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.triangle import triangle_entries


def span_pairs(triangle: NDArray[np.float64], start: Start, ceiling: float, team: Team, limits: Limits) -> MergeList:
    """Run single linkage from a start, given the smallest weight of each pair of its clusters."""
    started, clusters = perf_counter(), len(start.ids)
    tree = _spanning_tree(triangle, start, team, limits)
    merges = empty_merges(clusters, np.dtype(np.int64))
    order = tree_order(tree)
    parent, size = np.empty(start.nodes, np.int64), np.zeros(start.nodes, np.int64)
    parent[start.member] = np.repeat(start.ids, np.diff(start.begin))
    size[start.ids] = np.diff(start.begin)
    count = unite_spans(order, tree, (parent, size), ceiling, merges)
    seconds = perf_counter() - started
    record = RoundRecord(clusters, triangle_entries(clusters), count, finish_seconds=seconds, finisher=True, round=1)
    ends, records = ends_of(tree, order[:count]), [record] if count else []
    return MergeList(start.nodes, part(merges, None, count), np.ones(count, np.int32), records, ends=ends)


def _spanning_tree(triangle: NDArray[np.float64], start: Start, team: Team, limits: Limits) -> ForestEdges:
    """Return edges among which are those of the spanning tree, with the nodes that they join."""
    clusters, members = len(start.ids), members_of(start)
    parts = 1 if team.threads == 1 or clusters < limits.alone else 1 + int((2 * team.threads) ** 0.5)
    jobs = [(*low, *high) for low, high in combinations_with_replacement(even_spans(clusters, parts), 2)]

    def span(job: tuple[int, ...]) -> ForestEdges:
        room = job[1] - job[0] + job[3] - job[2]
        tree = ForestEdges(np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room))
        found = part(tree, None, span_groups(triangle, members, job, tree))
        name_ends(members, found)
        return found

    trees = team.run(span, sorted(jobs, key=lambda job: job[0] == job[2]))
    return ForestEdges._make(np.concatenate(columns) for columns in zip(*trees, strict=True))
