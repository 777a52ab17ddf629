"""One of Boruvka's rounds: every component takes its lightest edge."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from dask_rac.base.events import RoundRecord
from dask_rac.engines.forest.state import ForestEdges, list_candidates, no_edges
from dask_rac.engines.rows.state import offsets
from dask_rac.kernels.arrays import Ids, Rows, Rule
from dask_rac.kernels.forest import challenge, hook, lightest
from dask_rac.tasks.team import Team


@dataclass(frozen=True)
class Components:
    """The state between Boruvka's rounds: the outer edges of every node, and its component."""

    rows: Rows
    label: Ids
    count: int


def boruvka_round(
    state: Components, kept: Rows, rule: Rule, team: Team, tree: ForestEdges
) -> tuple[Components, RoundRecord]:
    """Let every component take its lightest edge; `kept` receives the edges that are still outer edges."""
    started = perf_counter()
    best = np.empty(len(state.label), np.int64)
    spans = [(lo, hi, 0) for lo, hi in team.spans(offsets(state.rows))]
    entries = sum(team.run(lightest, spans, state.rows, state.label, rule, kept, best))
    found_nearest = perf_counter()
    live, candidates = list_candidates(kept, state.label, state.count, best, 0)
    held = no_edges(state.count, state.label.dtype)
    challenge(candidates, held)
    merged, count = hook(held, state.label, tree)
    record = RoundRecord(
        clusters=live,
        edges=entries // 2,
        merges=merged,
        nearest_updates=live,
        match_seconds=perf_counter() - found_nearest,
        fold_seconds=found_nearest - started,
    )
    return Components(kept, state.label, count), record
