"""One shard's steps out of core: load, kernel, save, receipt.

A state is all live clusters in the order of their ids, cut into shards by position. A round makes the next one:

1. `match` weighs what the clusters of a shard come to, from the nearest of all.
2. `cut` gathers that and cuts the leaders into the shards of the next state, as even as can be.
3. `split` writes the rows that must move: those of clusters that join a leader in another shard.
4. `fold` reads the rows of its leaders' range and those that arrived, folds them, writes the shard of the next state
   and its merges.

Data goes through the store. What comes back is a receipt. A task that runs twice writes to two places, and the receipt
says which one counts.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dask_rac.arena import begin_task, borrow
from dask_rac.errors import DamagedStoreError
from dask_rac.kernels import ingest, move, pack
from dask_rac.kernels.arrays import Clusters, Ids, Merges, Pairs, Rows
from dask_rac.kernels.fold import fold as fold_rows
from dask_rac.kernels.match import tell_fates, weigh_leaders
from dask_rac.receipts import Clock, Cut, Folded, Job, Matched, Moved, Piece, fresh_name, piece_ranges
from dask_rac.shard import starts_of
from dask_rac.store.arrays import array_dtype, read_array, write_group
from dask_rac.store.files import Folder
from dask_rac.store.manifest import ShardRecord, State
from dask_rac.store.tables import TableRecord, write_merges

BINS = 4096  # into which the positions are cut, to find even shards
PIECE_CHUNK = 8_192  # items: pieces are read in small ranges
UNPACKED = 2**20  # weights put together at a time
ENTRY_COLUMNS = "neighbour", "weight", "weight_high", "weight_middle", "tie", "edges"

T = TypeVar("T")


def match(job: Job, state: State, number: int) -> Matched:
    """Weigh what the clusters of a shard come to."""
    clock, shard, store = Clock(), state.shards[number], job.store
    with clock.phase("read"):
        nearest = nearest_of(job, state)
        length = read_array(store, f"{shard.name}/length")
        clock.count("read", [length])
    width = bin_width(state)
    entries, clusters = np.zeros(BINS, np.int64), np.zeros(BINS, np.int64)
    with clock.phase("relabel"):
        span = shard.first, shard.first + shard.clusters, width
        live, merges, updates = map(int, weigh_leaders(nearest, length, entries, clusters, span))
    return Matched(live, merges, updates, entries, clusters, seconds=clock.seconds, bytes=clock.bytes)


def cut(job: Job, state: State, matched: Sequence[Matched]) -> Cut:
    """Cut the next state into no more shards than it needs, about as large each."""
    entries = np.sum([receipt.entries for receipt in matched], axis=0)
    clusters = np.sum([receipt.clusters for receipt in matched], axis=0)
    total, width = int(entries.sum()), bin_width(state)
    shards = min(len(state.shards), max(1, -(-total // job.shard_entries)))
    ends = np.searchsorted(np.cumsum(entries), [total * k / shards for k in range(1, shards)], side="left") + 1
    borders = np.unique(np.concatenate(([0], np.minimum(ends, BINS), [BINS])))
    before = np.concatenate(([0], np.cumsum(clusters)))
    sums = np.concatenate(([0], np.cumsum(entries)))
    return Cut(
        sum(receipt.live for receipt in matched),
        sum(receipt.merges for receipt in matched),
        sum(receipt.updates for receipt in matched),
        tuple(np.minimum(borders * width, state.clusters).tolist()),
        tuple(before[borders].tolist()),
        tuple(np.diff(sums[borders]).tolist()),
    )


def split(job: Job, state: State, places: Cut, number: int) -> Moved | None:
    """Write the rows of a shard that join a leader in another new shard."""
    if not places.merges:
        return None
    begin_task()
    clock, shard, store = Clock(), state.shards[number], job.store
    nearest = nearest_of(job, state)
    with clock.phase("read"):
        length = read_array(store, f"{shard.name}/length")
    with clock.phase("route"):
        goes = borrow(shard.clusters, np.int32)
        span = shard.first, shard.first + shard.clusters
        rows, entries = move.find_moves(nearest, length, np.array(places.places), goes, span)
        row_starts, entry_starts = starts_of(rows), starts_of(entries)
        moved = np.empty(int(rows.sum()), np.int64), np.empty(int(rows.sum()), length.dtype)
        move.take_rows(goes, row_starts[:-1].copy(), length, moved)
        start = starts_of(length)
    clusters = {"length": moved[1], "leader": nearest[shard.first + moved[0]]}
    if not state.round:
        clusters["ids"] = (shard.first + moved[0]).astype(job.ids)
    for name in ("ids", "size", "top") if state.round else ():
        with clock.phase("read"):
            column = read_array(store, f"{shard.name}/{name}")
            clock.count("read", [column])
        clusters[name] = column[moved[0]]
    total, disk = int(entries.sum()), entry_columns(shard)
    taken: dict[str, NDArray[Any]] = {}
    room = borrow(shard.entries if total else 0, np.float64)
    for name in disk:
        with clock.phase("read"):
            kind = array_dtype(store, f"{shard.name}/{name}")
            column = room.view(kind)[: shard.entries if total else 0]
            if total:
                read_array(store, f"{shard.name}/{name}", out=column)
            clock.count("read", [column])
        with clock.phase("route"):
            taken[name] = borrow(total, kind)
            move.copy_rows(moved[0], start, length, column, taken[name])
    ranges = piece_ranges(len(places.entries))
    names: list[str] = []
    sizes: list[int] = []
    for group, (first, stop) in enumerate(ranges):
        pieces = {name: column[row_starts[first] : row_starts[stop]] for name, column in clusters.items()}
        pieces |= {name: column[entry_starts[first] : entry_starts[stop]] for name, column in taken.items()}
        with clock.phase("write"):
            names.append(fresh_name(job, f"moved-{group}-{number:05d}"))
            sizes.append(sum(file.bytes for file in write_group(store, names[-1], pieces, PIECE_CHUNK)))
            clock.count("write", list(pieces.values()))
    return Moved(
        tuple(names),
        tuple(disk),
        tuple(row_starts.tolist()),
        tuple(entry_starts.tolist()),
        tuple(sizes),
        seconds=clock.seconds,
        bytes=clock.bytes,
    )


def fold(job: Job, state: State, places: Cut, moved: Sequence[Moved | None], number: int) -> Folded | None:
    """Fold one shard of the next state; None where there is no such shard."""
    if number >= len(places.entries) or not places.merges:
        return None
    begin_task()
    clock, store = Clock(), job.store
    lo, hi = places.places[number : number + 2]
    with clock.phase("read"):
        nearest = nearest_of(job, state)
        table = _ClusterTable(job, state, (lo, hi), [m.piece(number) for m in moved if m is not None])
        rows = table.load_rows()
        clock.count("read", table.arrays)
    with clock.phase("relabel"):
        fate, merged_ids, merged_size = fates_of(job, state, places)
    after, base = places.bases[number + 1] - places.bases[number], places.bases[number]
    with clock.phase("route"):
        ids = np.dtype(job.ids)
        pairs = (
            borrow(after, ids),
            borrow(after, ids),
            borrow(after + 1, np.int64),
        )
        _, found = move.pair_rows(nearest, rows.start, table.length, table.leader, pairs, (lo, hi))
        merges = Merges(np.empty(found, ids), np.empty(found, ids), np.empty(found), np.empty(found, ids))
        top = np.empty(after)
        move.list_merges(pairs[1], table.height, table.top, (pairs[0], table.ids, table.size, top), merges)
    with clock.phase("fold"):
        room = int(pairs[2][-1])
        out = _room(job, after, room)
        clusters = Clusters(merged_ids, merged_size, borrow(after, ids), borrow(after, np.float64))
        rule = job.rule(state.round)
        end, later = map(int, fold_rows(rows, Pairs(*pairs, fate), clusters, rule, out, (0, after, 0, base)))
    with clock.phase("write"):
        columns = {
            "ids": merged_ids[base : base + after],
            "size": merged_size[base : base + after],
            "top": top,
            "nearest": clusters.nearest,
            "height": clusters.height,
            "length": (out.stop - out.start).astype(ids),
        } | store_rows(job, out, end, rows)
        name = fresh_name(job, f"shard-{number:05d}")
        files = write_group(store, name, columns)
        clock.count("write", list(columns.values()))
        merges_file = write_round(job, number, merges, state.round + 1)
    shard = ShardRecord(name, base, after, end, tuple(files))
    return Folded(number, shard, later, merges_file, seconds=clock.seconds, bytes=clock.bytes)


def store_rows(job: Job, rows: Rows, entries: int, spare: Rows) -> dict[str, NDArray[Any]]:
    """The first entries of folded rows as they go to disk: weights without bits that all lack, counts in few bytes.

    `spare` is what they were folded from, and is written over.
    """
    columns = {name: getattr(rows, name)[:entries] for name in job.columns(1)}
    if "edges" in columns:
        columns["edges"] = columns["edges"].astype(np.min_scalar_type(columns["edges"].max(initial=0)))
    return columns | pack_weights(columns.pop("weight"), spare.neighbour.view(np.uint32), spare.tie)


def pack_weights(
    weight: NDArray[np.float64], high: NDArray[np.uint32], middle: NDArray[np.uint16]
) -> dict[str, NDArray[Any]]:
    """Weights as they go to disk: cut in two, in the room given, where all lack the lowest bits."""
    bits = weight.view(np.uint64)
    if pack.low_bits(bits):
        return {"weight": weight}
    high, middle = high[: len(weight)], middle[: len(weight)]
    pack.split_weights(bits, high, middle)
    return {"weight_high": high, "weight_middle": middle}


def load_column(
    store: Folder, group: str, column: str, disk: Sequence[str], span: tuple[int, int], out: NDArray[Any]
) -> None:
    """Entries of a column of rows, put together again; `disk` names the columns that are there."""
    if column == "edges":
        out[:] = read_array(store, f"{group}/edges", *span)
    elif column in disk:
        read_array(store, f"{group}/{column}", *span, out)
    else:
        for start in range(*span, UNPACKED):
            stop = min(start + UNPACKED, span[1])
            high = read_array(store, f"{group}/weight_high", start, stop)
            middle = read_array(store, f"{group}/weight_middle", start, stop)
            pack.join_weights(high, middle, out[start - span[0] : stop - span[0]].view(np.uint64))


def write_round(job: Job, number: int, merges: Merges, round_: int | NDArray[np.int32]) -> TableRecord:
    """Write merges, lifted already, with the sign that users gave."""
    height = job.settings.sign * merges.height + 0.0  # no minus zero
    rounds = np.broadcast_to(np.int32(round_) if isinstance(round_, int) else round_, height.shape)
    name = f"merges/{job.attempt}-{number:05d}-{uuid.uuid4().hex[:8]}.parquet"
    return write_merges(job.store, name, (merges.left, merges.right, height, merges.size, rounds))


class _ClusterTable:
    """The clusters of a range of positions, then those that arrived for its leaders."""

    def __init__(self, job: Job, state: State, span: tuple[int, int], moved: list[Piece]) -> None:
        self._job, self._state, self._store = job, state, job.store
        self._own = [piece for shard in state.shards if (piece := self._overlap(shard, *span))]
        self._guests = [piece for piece in moved if piece.rows[0] < piece.rows[1]]
        self.arrays: list[NDArray[Any]] = []
        ids, reals = np.dtype(job.ids), np.dtype(np.float64)
        self.length = self._column("length", ids, self._own + self._guests)
        self.leader = self._column("leader", ids, self._guests)
        self.height = self._column("height", reals, self._own)
        if state.round:
            everyone = self._own + self._guests
            self.ids, self.size = self._column("ids", ids, everyone), self._column("size", ids, everyone)
            self.top = self._column("top", reals, everyone)
        else:
            self.ids = np.concatenate((np.arange(*span, dtype=ids), self._column("ids", ids, self._guests)))
            self.size = np.ones(len(self.ids), ids)
            self.top = np.full(len(self.ids), -np.inf)

    def load_rows(self) -> Rows:
        """All entries, with ties and counts as the fold wants them."""
        ends = np.cumsum(self.length, dtype=np.int64)
        total = int(ends[-1]) if len(ends) else 0
        columns = {name: borrow(total, kind) for name, kind in self._job.columns(self._state.round).items()}
        at = 0
        for piece in self._own + self._guests:
            last = at + piece.entries[1] - piece.entries[0]
            for name, column in columns.items():
                load_column(self._store, piece.name, name, piece.columns, piece.entries, column[at:last])
            at = last
        if at != total:
            raise DamagedStoreError(f"{self._store.url}: rows of a shard hold {at} entries, and should {total}")
        self.arrays += columns.values()
        tie = columns.get("tie")
        edges = columns.get("edges", np.empty(0, self._job.counts))
        start = ends - self.length
        rows = Rows(start, ends, columns["neighbour"], columns["weight"], edges, np.empty(0, np.uint16))
        if tie is None:
            rows = rows._replace(tie=borrow(total, np.uint16))
            ingest.fill_ties(rows, self.ids)
            return rows
        return rows._replace(tie=tie)

    def _overlap(self, shard: ShardRecord, lo: int, hi: int) -> Piece | None:
        """The rows of a shard that lie in a range of positions."""
        start, stop = max(lo, shard.first) - shard.first, min(hi, shard.first + shard.clusters) - shard.first
        if start >= stop:
            return None
        before = starts_of(read_array(self._store, f"{shard.name}/length"))
        return Piece(shard.name, entry_columns(shard), (start, stop), (int(before[start]), int(before[stop])))

    def _column(self, name: str, kind: np.dtype[Any], pieces: Sequence[Piece]) -> NDArray[Any]:
        """A column of clusters."""
        out = np.empty(sum(piece.rows[1] - piece.rows[0] for piece in pieces), kind)
        at = 0
        for piece in pieces:
            last = at + piece.rows[1] - piece.rows[0]
            read_array(self._store, f"{piece.name}/{name}", *piece.rows, out[at:last])
            at = last
        self.arrays.append(out)
        return out


def nearest_of(job: Job, state: State) -> Ids:
    """The nearest of every cluster of a state, read once a process."""
    return kept_vector((job.url, state.shards[0].name), lambda: _whole(job, state, "nearest"))


def fates_of(job: Job, state: State, places: Cut) -> tuple[Ids, Ids, Ids]:
    """What becomes of every cluster of a state, and the ids and sizes of those after it, found once a process."""

    def tell() -> tuple[Ids, Ids, Ids]:
        nearest, ids = nearest_of(job, state), np.dtype(job.ids)
        if state.round:
            old_ids, old_size = _whole(job, state, "ids"), _whole(job, state, "size")
        else:
            old_ids, old_size = np.arange(state.clusters, dtype=ids), np.ones(state.clusters, ids)
        fate = np.empty(2 * state.clusters, ids)
        merged = np.empty(places.bases[-1], ids), np.empty(places.bases[-1], ids)
        tell_fates(nearest, old_ids, old_size, merged, fate, (0, state.clusters, 0))
        return fate, *merged

    return _cached("fates", (job.url, state.shards[0].name), tell)


def node_vectors(job: Job) -> tuple[Ids, Ids]:
    """The ids and sizes of all nodes, made once a process."""

    def make() -> tuple[Ids, Ids]:
        return np.arange(job.nodes, dtype=job.ids), np.ones(job.nodes, job.ids)

    return _cached("fates", ("nodes", job.nodes, job.ids), make)


def kept_vector(key: Any, make: Callable[[], Ids]) -> Ids:
    """A vector over all nodes or clusters, made once a process and kept until another is."""
    return _cached("nearest", key, make)


def forget() -> None:
    """Give up what this process keeps of a state."""
    with _lock:
        _kept.clear()


_lock = threading.RLock()
_kept: dict[str, tuple[Any, Any]] = {}


def _cached(kind: str, key: Any, make: Callable[[], T]) -> T:
    """The value for a key, made by the first thread that asks; one of each kind is kept."""
    with _lock:
        if _kept.get(kind, (None,))[0] != key:
            _kept.pop(kind, None)
            _kept[kind] = key, make()
        value: T = _kept[kind][1]
        return value


def _whole(job: Job, state: State, name: str) -> Ids:
    """A column of all clusters of a state."""
    out: Ids = np.empty(state.clusters, job.ids)
    for shard in state.shards:
        place = slice(shard.first, shard.first + shard.clusters)
        read_array(job.store, f"{shard.name}/{name}", out=out[place])
    return out


def bin_width(state: State) -> int:
    """Positions in a bin."""
    return max(1, -(-state.clusters // BINS))


def entry_columns(shard: ShardRecord) -> tuple[str, ...]:
    """The columns of entries that a shard has on disk."""
    there = {file.name.rpartition("/")[2] for file in shard.files}
    return tuple(name for name in ENTRY_COLUMNS if name in there)


def _room(job: Job, rows: int, entries: int) -> Rows:
    """Room for rows that are folded from so many entries."""
    counted = job.counted(1)
    return Rows(
        borrow(rows, np.int64),
        borrow(rows, np.int64),
        borrow(entries, job.ids),
        borrow(entries, np.float64),
        borrow(entries if counted else 0, job.counts),
        borrow(entries, np.uint16),
    )
