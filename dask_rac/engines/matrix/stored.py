"""All pairs in a run with a store: one step, whose merges are written at its end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import RoundRecord
from dask_rac.base.spans import batches
from dask_rac.engines.contract import MergeList, Step, Work
from dask_rac.engines.matrix.given import open_pairs
from dask_rac.engines.matrix.in_memory import merge_triangle, refuse_large
from dask_rac.engines.rows.packing import write_round
from dask_rac.engines.rows.receipts import Job, new_job
from dask_rac.files.tables import TableRecord
from dask_rac.kernels.arrays import Ends, part
from dask_rac.kernels.tree.merges import raise_heights
from dask_rac.store.manifest import Facts
from dask_rac.store.statistics import reporting
from dask_rac.tasks.task_graph import single_task
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.triangle import fill_triangle, triangle_bytes

Merged = tuple[tuple[TableRecord, ...], tuple[RoundRecord, ...], Facts]
"""Files of merges, records of rounds, and what the pairs have shown."""


def begin(given: Any, work: Work) -> Step:
    """Cluster all pairs on one worker, or in the threads of this process."""
    job = new_job(work, 0, 0, 0)
    with work.listening():
        graph = single_task(merge_stored, job.attempt, job, given, work.budget.process, work.budget.threads)
        tables, records, facts = work.compute(graph)["merge_stored"][0]
    return Step(None, tables, records, facts=facts)


def merge_stored(job: Job, given: Any, memory: int, threads: int) -> Merged:
    """Cluster all pairs in the memory of this process, and write the merges."""
    with Team(threads) as team, reporting(job.store, job.attempt) as report:
        pairs = open_pairs(given, job.settings)
        refuse_large(pairs.nodes, memory)
        triangle = fill_triangle(pairs, team, report)
        facts = _facts(triangle, pairs, job.settings.sign)
        found = merge_triangle(triangle, pairs, job.settings, team, report, job.limits)
    merges = found.merges
    raise_heights(merges.left, merges.right, merges.height, np.full(found.nodes, -np.inf))
    tables = tuple(
        write_round(job, number, part(merges, first, last), found.round[first:last], _ends(found, first, last))
        for number, (first, last) in enumerate(batches(0, len(found.round), job.limits.part_merges))
    )
    return tables, tuple(found.records), facts


def _ends(found: MergeList, first: int, last: int) -> Ends | None:
    """Return the edges that made some merges, by single linkage."""
    return None if found.ends is None else part(found.ends, first, last)


def _facts(triangle: NDArray[np.float64], pairs: AllPairs, sign: float) -> Facts:
    """Return what is known of all pairs before they are merged."""
    ends = np.array([triangle.min(initial=np.inf), triangle.max(initial=-np.inf)]) if len(triangle) else np.zeros(2)
    least, largest = sorted((sign * (np.sqrt(ends) if pairs.squares else ends) + 0.0).tolist())
    return Facts(pairs.nodes, len(triangle), triangle_bytes(pairs.nodes), least, largest, 0, 0)
