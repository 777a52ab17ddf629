"""The bytes and requests of reading the edges, by the rules by which they get to their shards."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from dask_rac.base.ids import cluster_id_dtype
from dask_rac.engines.contract import Expected, Limits
from dask_rac.engines.rows.groups import Groups
from dask_rac.engines.rows.layout import groups_for
from dask_rac.engines.rows.needs import EntrySizes
from dask_rac.engines.rows.requests import key_requests
from dask_rac.engines.rows.scanning import FEW_BINS, Histogram
from dask_rac.engines.rows.sizes import expected_shards, shard_entries, unit_rows
from dask_rac.files.buffers import REQUEST
from dask_rac.forecasts.decay import Level
from dask_rac.forecasts.layout import DELETING, Shape, Traffic, occupied, requests_of
from dask_rac.tasks.budget import Budget

COUNT = 8  # bytes of the count of a bin, or of where edges begin in a file
STATE_COLUMNS = 5  # of a shard of the first state: nearest, height, length, neighbour, weight


@dataclass(frozen=True)
class Intake:
    """Edges on their way to the shards of the first state."""

    given: Expected
    sizes: EntrySizes
    budget: Budget
    shards: int
    asked: int | None = None
    """Shards that the user wants."""
    limits: Limits = field(default_factory=Limits)

    @property
    def rows(self) -> int:
        """Rows of the input in a piece of it, which is cut before it is known how wide ids are."""
        narrow = replace(self.sizes, ids=cluster_id_dtype(1).itemsize)
        return max(1, min(self.given.rows, unit_rows(narrow, self.budget, self.limits)))

    @property
    def units(self) -> int:
        """Pieces of the input."""
        return max(1, -(-self.given.rows // self.rows))

    @property
    def groups(self) -> Groups | None:
        """By way of which edges go to their shards; None if they go by block."""
        return groups_for(self.shards, self.units, self.limits)

    @property
    def batches(self) -> int:
        """Batches of pieces that are sorted together."""
        return 0 if self.groups is None else len(self.groups.batches(self.units))

    @property
    def bins(self) -> int:
        """Bins in which ids are counted."""
        return Histogram.of(expected_shards(self.sizes, self.given.rows, self.budget, self.asked)).bins

    @property
    def used_bins(self) -> int:
        """Bins with nodes: of the smallest width, a power of two, with which there are enough."""
        nodes, bins = self.given.nodes, self.bins
        shift = max(0, (nodes - 1).bit_length() - bins.bit_length() + 1)
        return -(-nodes // (1 << shift))

    @property
    def sums(self) -> int:
        """Tasks that add up counts; 0 where these are in receipts."""
        return -(-self.units // (math.isqrt(self.units) + 1)) if self.bins > FEW_BINS else 0

    @property
    def row(self) -> int:
        """Bytes of an edge on its way."""
        return 2 * self.sizes.ids + self.sizes.weight

    @property
    def routed_files(self) -> int:
        """Files that pieces of the input are written to, as much at a time as a task has room for."""
        held = unit_rows(self.sizes, self.budget, self.limits)
        room = held if self.groups is None else max(1, 2 * held // 3)
        return self.units * -(-self.rows // room)

    @property
    def sorted_files(self) -> int:
        """Files in which edges are in the order of the shards of a group: what is held at a time is in one."""
        if self.groups is None:
            return 0
        tasks = self.groups.count * self.batches
        room = shard_entries(self.sizes, self.given.nodes, self.given.rows, self.budget, self.asked)
        return tasks * max(1, -(-int(self._ends(self.groups.count)) // (tasks * room)))

    def _ends(self, owners: int) -> float:
        """Edges, once for each owner of an end, if both ends are anywhere."""
        return self.given.rows * (2 - 1 / owners)

    @property
    def routed_bytes(self) -> float:
        """Bytes that are written by block, or by group."""
        return self.row * (self.given.rows if self.groups is None else self._ends(self.groups.count))

    @property
    def sorted_bytes(self) -> float:
        """Bytes that are written by shard, and read by these; if edges go by block, they are only read."""
        return self.row * self._ends(self.shards)

    @property
    def state_bytes(self) -> float:
        """Bytes of the first state."""
        level = Level(self.given.nodes, 2 * self.given.rows, 0)
        return Shape.of_state(level, self.shards, self.sizes).state_bytes

    @property
    def receipt_bytes(self) -> float:
        """Bytes of receipts that say where the edges for each block, group or shard begin, in every file."""
        if self.groups is None:
            return COUNT * self.routed_files * (self.shards * (self.shards + 1) / 2 + 1)
        width, count = self.groups.width, self.groups.count
        return COUNT * (self.routed_files * (count + 1) + self.sorted_files * (width + 1))

    @property
    def counted_bytes(self) -> int:
        """Bytes of receipts that say how often the ids of each bin occur; 0 where that is in files."""
        return 0 if self.sums else COUNT * self.units * self.bins

    @property
    def disk(self) -> float:
        """Bytes that go through the disk, so far as they may still be in memory when they are read."""
        return self.state_bytes + self.routed_bytes + self.given.bytes

    def layers(self) -> dict[str, tuple[int, Traffic]]:
        """The tasks of each layer, and what they read and write."""
        reading = Traffic(self.given.bytes, 0, max(self.units, self.given.bytes / REQUEST))
        found = {"scan": (self.units, reading)}
        if self.sums:
            counts = COUNT * self.bins
            found["scan"] = self.units, reading + Traffic(0, self.units * counts, 0, self.units)
            files = self.units + self.sums  # the process that drives the run reads the sums
            found["add_up"] = self.sums, Traffic(files * counts, self.sums * counts, files, self.sums)
        found["route"] = self.units, reading + Traffic(0, self.routed_bytes, 0, self.routed_files)
        if self.groups is not None:
            reads = _pieces(self.routed_files * self.groups.count, self.routed_bytes, self.row)
            sorting = Traffic(self.routed_bytes, self.sorted_bytes, reads, self.sorted_files)
            found["sort"] = self.groups.count * self.batches, sorting
        state = Traffic(0, self.state_bytes, 0, self.shards * (1 + STATE_COLUMNS))
        found["build"] = self.shards, state + Traffic(self.sorted_bytes, 0, self._arrived())
        return found

    def _arrived(self) -> float:
        """Requests that read the edges of all shards."""
        if self.groups is None:
            blocks = min(self.given.rows, self.routed_files * self.shards * (self.shards + 1) / 2)
            return max(blocks, self.given.rows * self.row / REQUEST)
        files = self.sorted_files / self.groups.count  # of a group, each of whose shards reads from all of them
        return _pieces(files * self.shards, self.sorted_bytes, self.row)

    def deletions(self) -> float:
        """Requests that delete what no step needs: counts, batches and groups together, the rest file by file."""
        counted = key_requests(self.units + self.sums) if self.sums else 0
        if self.groups is None:
            return counted + DELETING * self.routed_files
        batches, groups = self.batches, self.groups.count
        sent = batches * key_requests(self.routed_files / batches)
        return counted + sent + groups * key_requests(self.sorted_files / groups)


def _pieces(places: float, size: float, row: int) -> float:
    """Requests that read all of these places, between which rows are spread at random."""
    full = occupied(places, size / row)
    return full * requests_of(size / max(1.0, full))
