"""One round: match, then fold; or, for single linkage, every component's lightest edge."""

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from dask_rac.config import RoundRecord, id_dtype
from dask_rac.kernels.arrays import Ids, Merges, Rows, Rule
from dask_rac.kernels.finish import finish, list_edges
from dask_rac.kernels.forest import challenge, hook, lightest
from dask_rac.shard import (
    Shard,
    Space,
    Team,
    Tree,
    fold_shard,
    list_candidates,
    match_shard,
    no_edges,
    offsets,
)


@dataclass(frozen=True)
class Components:
    """The state between Boruvka's rounds: outer edges of every node, and the component of each."""

    rows: Rows
    label: Ids
    count: int


def reciprocal_round(
    shard: Shard, rule: Rule, space: Space, team: Team, merges: Merges
) -> tuple[Shard | None, RoundRecord]:
    """Merge all reciprocal pairs; no shard comes back where there was none."""
    started = perf_counter()
    space.turn()
    found = match_shard(shard, space, merges, team)
    matched = perf_counter()
    after = fold_shard(shard, found, rule, space, team) if found.merges else None
    folded = perf_counter()
    record = RoundRecord(
        clusters=int(np.count_nonzero(shard.clusters.nearest >= 0)),
        edges=shard.entries // 2,
        merges=found.merges,
        nearest_updates=found.updates,
        match_seconds=matched - started,
        fold_seconds=folded - matched,
    )
    return after, record


def finisher_round(shard: Shard, rule: Rule, merges: Merges) -> RoundRecord:
    """Merge all that is left, one after the other."""
    started = perf_counter()
    room = shard.entries // 2
    edges = (
        np.empty((room, 4), id_dtype(max(2 * room, len(shard.clusters.ids)))),
        np.empty((room, 3)),
        np.empty(room, np.uint16),
    )
    list_edges(shard.rows, *edges)
    size = shard.clusters.size.astype(np.int64)
    merged = finish(shard.clusters.ids.copy(), size, edges, rule, merges)
    return RoundRecord(
        clusters=int(np.count_nonzero(shard.clusters.nearest >= 0)),
        edges=room,
        merges=merged,
        finish_seconds=perf_counter() - started,
        finisher=True,
    )


def boruvka_round(state: Components, kept: Rows, rule: Rule, team: Team, tree: Tree) -> tuple[Components, RoundRecord]:
    """Every component takes its lightest edge; `kept` receives the edges that are still outer ones."""
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
