"""All pairs in a run with a store: one step, whose merges are written at its end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import RoundRecord
from dask_rac.engines.contract import Step, Work
from dask_rac.engines.given import open_pairs
from dask_rac.engines.matrix.in_memory import merge_triangle, refuse_large, square_for
from dask_rac.engines.prepare import joined, start_pairs, write_merges
from dask_rac.engines.rows.receipts import Job, new_job
from dask_rac.files.tables import TableRecord
from dask_rac.kernels.tree.merges import raise_heights
from dask_rac.store.manifest import Facts
from dask_rac.store.statistics import reporting
from dask_rac.tasks.task_graph import single_task
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.triangle import fill_triangle, triangle_bytes, triangle_entries

Merged = tuple[tuple[TableRecord, ...], tuple[RoundRecord, ...], Facts]
"""Files of merges, records of rounds, and what the pairs have shown."""


def begin(given: Any, work: Work) -> Step:
    """Cluster all pairs on one worker, or in the threads of this process."""
    job = new_job(work, 0, 0, 0)
    with work.listening():
        graph = single_task(merge_stored, job.attempt, job, given, work.budget.process, work.budget.most_threads)
        tables, records, facts = work.compute(graph)["merge_stored"][0]
    return Step(None, tables, records, facts=facts)


def merge_stored(job: Job, given: Any, memory: int, threads: int) -> Merged:
    """Cluster all pairs in the memory of this process, and write the merges."""
    with Team(threads) as team, reporting(job.store, job.attempt) as report:
        pairs = open_pairs(given, job.settings)
        refuse_large(pairs.nodes, memory)
        pairs.check(team, report)
        start, distinct, before = start_pairs(pairs, job.settings, team, report)
        triangle = fill_triangle(distinct, team, report)
        facts = _facts(triangle, pairs, len(start.ids) < pairs.nodes, job.settings.sign)
        square_for(triangle, distinct, job.settings, team)
        found = joined(before, merge_triangle(triangle, start, job.settings, team, report, job.limits))
    merges = found.merges
    raise_heights(merges.left, merges.right, merges.height, np.full(found.nodes, -np.inf))
    return write_merges(job, found), tuple(found.records), facts


def _facts(triangle: NDArray[np.float64], pairs: AllPairs, equal: bool, sign: float) -> Facts:
    """Return what is known of all pairs before they are merged; some vectors may be equal, at distance 0."""
    ends = np.array([triangle.min(initial=np.inf), triangle.max(initial=-np.inf)]) if len(triangle) else np.zeros(2)
    ends[0] = 0.0 if equal else ends[0]
    least, largest = sorted((sign * (np.sqrt(ends) if pairs.squares else ends) + 0.0).tolist())
    return Facts(pairs.nodes, triangle_entries(pairs.nodes), triangle_bytes(pairs.nodes), least, largest, 0, 0)
