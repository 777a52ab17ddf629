"""The requests of a round to an object store, and their bytes, before it runs: numbers in, numbers out.

With S shards before the round, T after it and P processes, in the order of `tasks.round_graph`:

- Up to 512 shards, every process reads the metadata of S groups, and `nearest` of S shards; after the first round, to
  know the fate of every cluster, their ids and sizes.
- `cut` reads S lengths.
- `split` reads the length of its shard, after the first round three more columns of clusters, and the columns of its
  entries. It writes a file for each eighth of the new shards, unless no row goes there.
- A new shard overlaps one old shard, and one more wherever a border has moved: S + T - 1 overlaps in all. From each of
  them `fold` reads the lengths, the height, the other columns of clusters and those of entries; then every piece that
  was sent to it. It writes six columns of clusters, those of entries, their metadata and its merges.
- A row goes to the shard of its leader, which has the smaller number. So with borders where they were, S (T - 1) / 2
  pieces are sent, and S + T - 1 more at most where they have moved; fewer where the graph is local.

A range of an array is read in chunks of `CHUNK` items, so a border within a chunk has it read twice. What is larger
than `REQUEST` takes several requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from dask_rac.engines.rows.receipts import PIECE_GROUPS
from dask_rac.files.arrays import CHUNK
from dask_rac.files.buffers import REQUEST

METADATA = 430  # bytes of an array in the metadata of its group
RECORD = 190  # bytes of an array in a manifest
MERGE = 24  # bytes of a merge as Parquet, about
TABLE = 3_000  # bytes of a Parquet file without rows
STEP_LISTS = 7  # to see what may be deleted: the store, two of its folders, three attempts, all of an old one
KEYS = 1_000  # objects that one request deletes, or lists


@dataclass(frozen=True)
class RoundShape:
    """A round as far as its requests depend on it."""

    shards: int
    after: int
    """Shards of the next state."""
    clusters: int
    entries: int
    merges: int
    left: int
    """Entries of the next state."""
    processes: int = 1
    first: bool = False
    """Whether clusters are nodes: then ids and sizes need not be read, and weights are as in the input."""
    ids: int = 4
    """Bytes of an id."""
    counted: bool = True
    """Whether rows count the edges that were folded, as for averages."""
    weights: int = 8
    """Bytes of a weight that is not folded."""
    halves: bool = True
    """Whether folded weights are stored in two columns, 4 and 2 bytes, as sums of small numbers are."""

    @property
    def columns(self) -> int:
        """Columns of entries before the round."""
        return 2 if self.first else self.columns_after

    @property
    def objects(self) -> int:
        """Objects of a shard before the round: arrays of clusters and of entries, and their metadata."""
        return 1 + (3 if self.first else 6) + self.columns

    @property
    def columns_after(self) -> int:
        """Columns of entries after the round: neighbour, weight in one or two, tie, edges."""
        return 3 + self.halves + self.counted

    @property
    def entry(self) -> int:
        """Bytes of an entry before the round."""
        return self.ids + self.weights if self.first else self.entry_after

    @property
    def entry_after(self) -> int:
        """Bytes of an entry after the round."""
        return self.ids + (6 if self.halves else 8) + 2 + self.counted

    @property
    def overlaps(self) -> int:
        """Pairs of an old and a new shard with a cluster in common."""
        return self.shards + self.after - 1

    @property
    def pieces(self) -> int:
        """Pairs of an old and a new shard between which rows are sent, at most."""
        return min(self.shards * self.after, self.shards * (self.after - 1) // 2 + self.overlaps)

    @property
    def files(self) -> int:
        """Files in which they are, at most."""
        return min(self.pieces, self.shards * min(PIECE_GROUPS, self.after))


@dataclass(frozen=True)
class RoundRequests:
    """What a round asks of an object store; pieces and files, and what is in them, are the most there can be."""

    metadata: int
    """Whole objects that are read: metadata of groups, and the last manifest."""
    ranges: int
    """Ranges of objects that are read."""
    puts: int
    lists: int
    heads: int
    deletes: int
    """Each of up to a thousand objects."""
    read: int
    """Bytes."""
    written: int
    """Bytes."""


def round_requests(shape: RoundShape) -> RoundRequests:
    """Return what a round asks of an object store."""
    groups = min(PIECE_GROUPS, shape.after)
    arrays = 6 + shape.columns_after
    objects = key_requests(shape.shards * shape.objects)  # of a state that no step needs any more
    return RoundRequests(
        metadata=shape.processes * shape.shards + 1,
        ranges=_ranges(shape),
        puts=shape.after * (arrays + 2) + shape.files + 2,
        lists=STEP_LISTS + objects - 1,
        heads=int(shape.first),  # whether the routed edges are a file or a folder
        deletes=groups + objects,
        read=_read(shape),
        written=_written(shape, arrays),
    )


def key_requests(files: float) -> int:
    """Return the requests that delete so many files together, or list them."""
    return max(1, ceil(files / KEYS))


def _ranges(shape: RoundShape) -> int:
    """Return how many ranges are read."""
    clusters = shape.clusters / shape.shards
    entries, ids = _parts(8 * shape.entries / shape.shards), _parts(8 * clusters)
    vectors = (1 if shape.first else 3) * shape.processes * shape.shards
    cut = shape.shards
    split = shape.shards * (ids * (1 if shape.first else 4) + entries * shape.columns)
    fold = shape.overlaps * (ids * (2 if shape.first else 5) + entries * shape.columns)
    return ids * (vectors + cut) + split + fold + shape.pieces


def _read(shape: RoundShape) -> int:
    """Return how many bytes are read."""
    own = 8 if shape.first else 2 * shape.ids + 16  # bytes of a cluster that its fold reads, beside the length
    cluster_cut, entry_cut = (
        (shape.after - 1) * min(CHUNK, total / shape.shards) for total in (shape.clusters, shape.entries)
    )
    vectors = shape.processes * shape.clusters * shape.ids * (1 if shape.first else 3)
    lengths = shape.ids * shape.clusters * (2 + shape.overlaps / shape.shards)
    split = shape.clusters * (own - 8) + shape.entries * shape.entry
    fold = (shape.clusters + cluster_cut) * own + (shape.entries + entry_cut) * shape.entry
    metadata = shape.processes * shape.shards * METADATA * ((3 if shape.first else 6) + shape.columns)
    manifest = RECORD * shape.shards * (6 + shape.columns)
    return int(vectors + lengths + split + fold + _moved(shape) + metadata + manifest)


def _written(shape: RoundShape, arrays: int) -> int:
    """Return how many bytes are written."""
    state = (shape.clusters - shape.merges) * (4 * shape.ids + 16) + shape.left * shape.entry_after
    small = shape.after * (arrays * (METADATA + RECORD) + TABLE)
    return int(state + _moved(shape) + MERGE * shape.merges + small)


def _moved(shape: RoundShape) -> float:
    """Return the bytes of rows that are sent to other shards, at most: one of each pair that merges."""
    row = 3 * shape.ids + (0 if shape.first else shape.ids + 8)
    share = shape.merges / shape.clusters * (1 - 1 / shape.after)
    return share * (shape.clusters * row + shape.entries * shape.entry)


def _parts(size: float) -> int:
    """Return the requests that an array of this size takes."""
    return max(1, ceil(size / REQUEST))
