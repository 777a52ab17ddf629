"""One round in memory: match, then fold; or the finisher, which is the last round."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import RoundRecord
from dask_rac.base.ids import cluster_id_dtype
from dask_rac.engines.rows.state import Shard, Space, fold_shard, match_shard
from dask_rac.kernels.arrays import Clusters, Ids, Merges, Rule
from dask_rac.kernels.rows.finish import count_degrees, finish
from dask_rac.kernels.rows.links import Links, empty_links, fill_slots, list_edges
from dask_rac.kernels.rows.lists import lay_rows
from dask_rac.kernels.rule import HALF_FILLED
from dask_rac.tasks.team import Span, Team

ROWS, SLOTS = 0, 1  # what the finisher begins with


def reciprocal_round(
    shard: Shard, rule: Rule, space: Space, team: Team, merges: Merges
) -> tuple[Shard | None, RoundRecord]:
    """Merge all reciprocal pairs; return None instead of a shard if there were none."""
    start = perf_counter()
    space.turn()
    matched = match_shard(shard, space, merges, team)
    match_end = perf_counter()
    after = fold_shard(shard, matched, rule, space, team) if matched.merges else None
    fold_end = perf_counter()
    record = RoundRecord(
        clusters=int(np.count_nonzero(shard.clusters.nearest >= 0)),
        edges=shard.entries // 2,
        merges=matched.merges,
        nearest_updates=matched.updates,
        match_seconds=match_end - start,
        fold_seconds=fold_end - match_end,
    )
    return after, record


def list_links(shard: Shard, rule: Rule) -> Links:
    """Return the edges of a shard as the finisher holds them."""
    edges = shard.entries // 2
    links = empty_links(edges, cluster_id_dtype(max(2 * edges, len(shard.clusters.ids))))
    list_edges(shard.rows, links, rule.scale, rule.code != HALF_FILLED)
    return links


def _prepare(ids: Ids, groups: NDArray[np.int64], links: Links, what: Span) -> Any:
    """Lay out the rows of the finisher, or fill its table: neither needs the other."""
    _, fields, slots = links
    if what == (SLOTS,):
        return fill_slots(slots, fields)
    return lay_rows(ids, groups, fields, 0, np.empty(0, fields.dtype), np.empty((0, 3)))


def finisher_round(clusters: Clusters, links: Links, rule: Rule, merges: Merges, team: Team) -> RoundRecord:
    """Merge all that is left, one pair after the other."""
    started = perf_counter()
    ids, groups = clusters.ids.copy(), count_degrees(clusters.size, links.fields)
    laid, filled = team.run(_prepare, [(ROWS,), (SLOTS,)], ids, groups, links)
    merged = finish(laid, filled, links, rule, merges)
    return RoundRecord(
        clusters=int(np.count_nonzero(clusters.nearest >= 0)),
        edges=len(links.fields),
        merges=merged,
        finish_seconds=perf_counter() - started,
        finisher=True,
    )
