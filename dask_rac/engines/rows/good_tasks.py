"""The steps of one round of good merges out of core: each shard merges on its own what is good.

1. `arrange` puts clusters that are near each other into the same shard, and gives every cluster a new position.
2. `send` writes the rows of a shard in the order of the shards that they go to.
3. `unite` makes all good merges between the clusters of a shard. Those of other shards count as they were before.
4. `settle` folds its rows once more, as clusters of other shards have merged, and writes them as shards of the next
   state, more than one, as folding takes more memory than merging.

Whoever is nearest to whom in all the graph merges, so that every round gets on. Positions are no longer in the order of
ids, and the two ends of an edge may differ by rounding: no exact round can follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import DamagedStoreError
from dask_rac.base.names import ARRANGED, became_name, united_name
from dask_rac.base.spans import even_entries, starts_of
from dask_rac.engines.rows.columns import nearest_of, read_column, whole
from dask_rac.engines.rows.leaving import Leaving
from dask_rac.engines.rows.packing import load_column, write_round
from dask_rac.engines.rows.receipts import (
    Arranged,
    Clock,
    Folded,
    Job,
    Moved,
    United,
    arrivals,
    fresh_name,
)
from dask_rac.engines.rows.table import arrival_reads
from dask_rac.engines.rows.tasks import room_for, save_shard
from dask_rac.files.arrays import read_array, write_group
from dask_rac.files.buffers import REQUEST
from dask_rac.files.readers import read_all
from dask_rac.kernels.arrays import Clusters, Ids, Pairs, Rows, empty_merges, part
from dask_rac.kernels.rows import regroup
from dask_rac.kernels.rows.fold import fold as fold_rows
from dask_rac.kernels.rows.good import begin_chains, close_chains, gather_chains, merge_good
from dask_rac.kernels.rows.match import LEAVES, STAYS
from dask_rac.store.manifest import State
from dask_rac.tasks.cache import kept, kept_vector
from dask_rac.tasks.scratch import alone, begin_task, borrow
from dask_rac.tasks.task_graph import TaskGraph

GROUP = 0.5  # of what a shard may hold: larger groups could not be dealt out evenly


def good_graph(job: Job, state: State) -> TaskGraph:
    """All of a round but the settling: as many new shards as there may have to be; the others stay idle."""
    graph = TaskGraph(job.attempt)
    before, shards = graph.constant(state, "state"), range(most_shards(job, state))
    arranged = graph.add(arrange, job, before)
    sent = graph.gather([graph.add(send, job, before, arranged, k) for k in range(len(state.shards))], "sent")
    for number in shards:
        graph.add(unite, job, before, arranged, sent, number)
    return graph


def settling_graph(job: Job, state: State, arranged: Arranged, united: Sequence[United]) -> TaskGraph:
    """The rest of it; a graph of its own, so that no worker that is lost makes a shard unite again."""
    graph = TaskGraph(job.attempt)
    before, after = graph.constant((state, arranged), "arranged"), graph.constant(tuple(united), "united")
    pieces = [(number, piece) for number, shard in enumerate(united) for piece in range(len(shard.cuts) - 1)]
    for number, (shard, piece) in enumerate(pieces):
        graph.add(settle, job, before, after, shard, piece, number)
    return graph


def most_shards(job: Job, state: State) -> int:
    """Return how many shards there are at most: if groups are that large, each may be half full."""
    return max(_asked(job, state), -(-2 * _load(job, state.clusters, state.entries) // job.shard_entries))


def _asked(job: Job, state: State) -> int:
    """Return how many shards the user wants at least."""
    return max(1, -(-state.entries // job.asked_entries)) if job.asked_entries else 1


def _load(job: Job, clusters: int, entries: int) -> int:
    """Entries, and what takes as much memory: the rows that they are in."""
    return entries + (job.room.sizes.good_load if job.room else 0) * clusters


def arrange(job: Job, state: State) -> Arranged:
    """Put every cluster with its nearest into the same shard, as far as shards hold them."""
    clock = Clock()
    with clock.phase("read"):
        nearest, length = nearest_of(job, state, ()), whole(job, state, (), "length")
        height = whole(job, state, (), "height", np.float64)
    with clock.phase("arrange"):
        order = np.argsort(height, kind="stable").astype(job.ids)
        del height
        order = order[nearest[order] >= 0]
        load = length + np.int64(_load(job, 1, 0))
        load[nearest < 0] = 0
        root, shard = np.empty(state.clusters, job.ids), np.empty(state.clusters, np.int32)
        asked = _asked(job, state)
        most = min(int(GROUP * job.shard_entries), int(load.sum()) // asked)
        regroup.join_nearest(nearest, order, load, most, root)
        groups = np.flatnonzero((root == np.arange(state.clusters)) & (nearest >= 0))
        held = _deal(job, groups[np.argsort(-load[groups], kind="stable")], load, asked, shard)
        there = shard[root[order]]
        bases = starts_of(np.bincount(there, minlength=len(held)))
        place = np.empty(state.clusters, job.ids)
        regroup.place_clusters(nearest, root, shard, bases.copy(), place)
    short = 0
    if job.room is not None:
        threads = job.good_threads or job.room.budget.threads
        short = job.room.good_shard_short(state.clusters, int(held.max(initial=0)), len(held), threads)
    name = fresh_name(job, ARRANGED)
    with clock.phase("write"):
        write_group(job.store, name, {"place": place})
        clock.count("write", [place])
    return Arranged(name, len(order), tuple(bases.tolist()), short, seconds=clock.seconds, bytes=clock.bytes)


def _deal(
    job: Job, groups: NDArray[np.int64], load: NDArray[np.int64], asked: int, shard: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Deal groups out to as few shards as will hold them, and as were asked for; return what each holds."""
    total = int(load[groups].sum())
    least, most = (min(len(groups), max(asked, -(-times * total // job.shard_entries))) for times in (1, 2))
    held = np.zeros(least, np.int64)
    for count in range(least, most + 1):
        held = np.zeros(count, np.int64)
        regroup.deal(groups, load, shard, held)
        if held.max(initial=0) <= max(job.shard_entries, load[groups].max(initial=0)):
            break
    return held


def send(job: Job, state: State, arranged: Arranged, number: int) -> Moved | None:
    """Write the rows of a shard in the order of the new shards, with new positions."""
    if arranged.idle:
        return None
    begin_task()
    clock, shard, place = Clock(), state.shards[number], _places(job, arranged)
    cuts = np.array(arranged.bases)
    leaving = Leaving(
        job,
        state,
        shard,
        clock,
        lambda length, goes: regroup.find_places(place, length, cuts, goes, shard.first),
    )
    clusters = leaving.clusters("ids", "top", "height") | {"place": place[leaving.positions]}
    entries = leaving.entries("tie")
    with clock.phase("relabel"):
        regroup.relabel(entries["neighbour"], place)
    return leaving.write(number, clusters, entries)


def unite(job: Job, state: State, arranged: Arranged, sent: Sequence[Moved | None], number: int) -> United | None:
    """Make all good merges between the clusters of a new shard; return None if there is no such shard."""
    if arranged.idle or number >= len(arranged.bases) - 1:
        return None
    with alone() if job.good_threads == 1 else nullcontext():
        return _unite(job, state, arranged, sent, number)


def _unite(job: Job, state: State, arranged: Arranged, sent: Sequence[Moved | None], number: int) -> United:
    """Make all good merges between the clusters of a new shard."""
    begin_task()
    clock, store = Clock(), job.store
    first, clusters = arranged.bases[number], arranged.bases[number + 1] - arranged.bases[number]
    size = _sizes(job, state, arranged)
    arrived = arrivals(sent, number)
    kinds = {"length": job.ids, "ids": job.ids, "top": "float64", "height": "float64", "place": job.ids}
    with clock.phase("read"):
        columns = {name: np.empty(clusters, kind) for name, kind in kinds.items()}
        entries = _room_for_rows(job, sum(arrival.entries for arrival in arrived))
        read_all(store, arrival_reads(store, arrived, columns, entries), REQUEST)
        place = columns["place"] - first
        ids, top, height = (_placed(columns[name], place) for name in ("ids", "top", "height"))
        rows = _made(job, columns["length"], entries, place)
        clock.count("read", [*columns.values(), *rows])
    merges, ratio = empty_merges(clusters, np.dtype(job.ids)), np.empty(clusters)
    rule, settings = job.rule(state.round), job.settings
    with clock.phase("merge"):
        regroup.count_from(rows.neighbour, first, state.clusters)
        size = np.concatenate((size[first:], size[:first]))
        chains = begin_chains(rows, size)
        terms = settings.epsilon, settings.sign < 0, job.nodes
        made = merge_good(rows, (ids, size, height, top), chains, rule, terms, (merges, ratio))
        became = np.empty(clusters, job.ids)
        close_chains(rows, chains, rule.code, became, size)
        length, seats = chains[3:]
    with clock.phase("write"):
        stays = seats[:: len(seats) // len(size)][:clusters] == np.arange(clusters)
        merges_file = write_round(job, number, part(merges, None, made), state.round + 1, ratio=ratio[:made])
        after = {"became": became, "ids": ids[stays], "size": size[: clusters - made], "top": top[stays]}
        name, rows_name = fresh_name(job, became_name(number)), fresh_name(job, united_name(number))
        write_group(store, name, after)
        starts = starts_of(length[stays])
        stored = _gathered(rows, chains, int(starts[-1]))
        regroup.count_from_start(stored["neighbour"], first, state.clusters)
        files = write_group(store, rows_name, {"length": np.diff(starts).astype(job.ids)} | stored)
        clock.count("write", [*after.values(), *stored.values()])
    cuts = even_entries(starts, -(-int(starts[-1]) // job.settled_entries) if job.settled_entries else 1)
    return United(
        number,
        name,
        rows_name,
        tuple(stored),
        clusters - made,
        tuple((row, int(starts[row])) for row in (0, *(stop for start, stop in cuts if start < stop))),
        sum(file.bytes for file in files),
        merges_file,
        seconds=clock.seconds,
        bytes=clock.bytes,
    )


def _gathered(rows: Rows, chains: Any, entries: int) -> dict[str, NDArray[Any]]:
    """Return the columns of folded rows, one row after the other; each takes the memory of one that is done."""
    free = borrow(entries, np.float64)
    columns: dict[str, NDArray[Any]] = {}
    for name in ("weight", "neighbour", "edges"):
        column = getattr(rows, name)
        if not len(column):
            continue
        there = (
            free.view(column.dtype)[:entries] if free.itemsize >= column.itemsize else np.empty(entries, column.dtype)
        )
        gather_chains(rows, chains, column, there)
        columns[name], free = there, column
    return columns


def settle(
    job: Job, before: tuple[State, Arranged], shards: Sequence[United], number: int, piece: int, after: int
) -> Folded:
    """Fold some rows of a shard, now that all good merges are known: they are shard `after` of the next state."""
    begin_task()
    clock, own = Clock(), shards[number]
    (first, begin), (last, end) = own.cuts[piece : piece + 2]
    base = sum(receipt.clusters for receipt in shards[:number]) + first
    with clock.phase("relabel"):
        fate, ids, size = _fates(job, before, shards)
    with clock.phase("read"):
        entries = _room_for_rows(job, end - begin)
        for name, column in entries.items():
            load_column(job.store, own.rows, name, own.columns, (begin, end), column)
        rows = _made(job, read_array(job.store, f"{own.rows}/length", first, last), entries)
        top = read_array(job.store, f"{own.name}/top", first, last)
        clock.count("read", [top, *rows])
    with clock.phase("fold"):
        rows = rows._replace(tie=borrow(end - begin, np.uint16))
        rows.tie[:] = 0
        out, count = room_for(job, last - first, end - begin), last - first
        alone = np.arange(count, dtype=job.ids), np.full(count, -1, job.ids)
        pairs = Pairs(*alone, np.append(rows.start, end - begin), fate)
        clusters = Clusters(ids, size, borrow(count, job.ids), borrow(count, np.float64))
        folded, later = map(int, fold_rows(rows, pairs, clusters, job.rule(before[0].round), out, (0, count, 0, base)))
    shard = save_shard(job, (after, base), clusters, top, (out, folded, rows), clock)
    return Folded(after, shard, later, own.merges, seconds=clock.seconds, bytes=clock.bytes)


def _places(job: Job, arranged: Arranged) -> Ids:
    """Return the new position of every cluster; each process reads it once."""
    return kept_vector((job.url, arranged.name), lambda: read_array(job.store, f"{arranged.name}/place"))


def _sizes(job: Job, state: State, arranged: Arranged) -> Ids:
    """Return the size of every cluster, by new position."""

    def make() -> Ids:
        sizes: Ids = np.empty(state.clusters, job.ids)
        sizes[_places(job, arranged)] = whole(job, state, (), "size")
        return sizes

    return kept("fates", (job.url, arranged.name), make)


def _fates(job: Job, before: tuple[State, Arranged], shards: Sequence[United]) -> tuple[Ids, Ids, Ids]:
    """Return the fate of every cluster, by new position, and ids and sizes after the round."""
    state, arranged = before

    def make() -> tuple[Ids, Ids, Ids]:
        after = sum(shard.clusters for shard in shards)
        ids, size = (read_column(job.store, shards, name, np.empty(after, job.ids)) for name in ("ids", "size"))
        fate = np.full(2 * state.clusters, LEAVES, job.ids)
        base = 0
        for (first, stop), shard in zip(pairwise(arranged.bases), shards, strict=True):
            place = read_array(job.store, f"{shard.name}/became") + np.array(base, job.ids)
            fate[2 * first : 2 * stop : 2] = place << 2 | STAYS
            fate[2 * first + 1 : 2 * stop : 2] = size[place]
            base += shard.clusters
        return fate, ids, size

    return kept("fates", (job.url, shards[0].name), make)


def _placed(column: NDArray[Any], place: Ids) -> NDArray[Any]:
    """Return a column in the order of positions."""
    out = np.empty_like(column)
    out[place] = column
    return out


def _room_for_rows(job: Job, entries: int) -> dict[str, NDArray[Any]]:
    """Return room for entries, without ties."""
    return {name: borrow(entries, kind) for name, kind in job.columns(1).items() if name != "tie"}


def _made(job: Job, length: Ids, columns: dict[str, NDArray[Any]], place: Ids | None = None) -> Rows:
    """Return rows of these lengths, without ties; row `place[i]` is the one that comes `i`-th."""
    ends = np.cumsum(length, dtype=np.int64)
    total, found = int(ends[-1]) if len(ends) else 0, len(columns["weight"])
    if found != total:
        raise DamagedStoreError(f"{job.url}: rows of a shard hold {found} entries and should hold {total}")
    start = ends - length
    edges = columns.get("edges", np.empty(0, job.counts))
    if place is not None:
        start, ends = _placed(start, place), _placed(ends, place)
    return Rows(start, ends, columns["neighbour"], columns["weight"], edges, np.empty(0, np.uint16))
