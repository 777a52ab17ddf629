"""The sweeper of a round: what goes between its tasks is deleted as soon as no task has to read it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from dask_rac.engines.rows.columns import Copied
from dask_rac.engines.rows.groups import Groups
from dask_rac.engines.rows.layout import Layout
from dask_rac.engines.rows.receipts import Folded, Gathered, Moved, United, piece_ranges
from dask_rac.engines.rows.routing import Routed
from dask_rac.files.folder import Folder


class IntakeSweeper:
    """Deletes edges on their way as soon as all tasks that read them are done, and tracks disk usage.

    Edges that go by block stay until the step counts: every shard reads from every file.
    """

    def __init__(self, store: Folder, layout: Layout) -> None:
        self.store = store
        self.peak = 0
        """The most bytes that edges on their way and shards took at any time."""
        self._disk = 0
        self._groups = layout.groups
        self._sent: dict[int, list[Routed]] = defaultdict(list)
        self._sorted: dict[int, list[Routed]] = defaultdict(list)
        self._ended: Counter[tuple[str, int]] = Counter()

    def __call__(self, layer: str, receipt: Any) -> None:
        """Record that a task is done."""
        if layer == "route":
            self._write(self._sent[receipt.batch], receipt.parts)
        elif layer == "sort":
            self._write(self._sorted[receipt.group], receipt.parts)
            self._end(self._sent, "batch", receipt.batch, self._count())
        elif layer == "build":
            self._disk += receipt.shard.bytes
            self.peak = max(self.peak, self._disk)
            self._fold(receipt.number)

    def _write(self, files: list[Routed], parts: Sequence[Routed]) -> None:
        """Record files that were written."""
        files.extend(parts)
        self._disk += sum(part.disk for part in parts)
        self.peak = max(self.peak, self._disk)

    def _count(self) -> int:
        """Number of groups."""
        return self._groups.count if self._groups is not None else 0

    def _fold(self, number: int) -> None:
        """Record that a shard has been built."""
        if self._groups is not None:
            group = number // self._groups.width
            first, stop = self._groups.span(group)
            self._end(self._sorted, "group", group, stop - first)

    def _end(self, files: dict[int, list[Routed]], kind: str, number: int, readers: int) -> None:
        """Record that a task has read some files; delete them if all have that do."""
        self._ended[kind, number] += 1
        if self._ended[kind, number] == readers:
            read = files.pop(number, [])
            self.store.remove_files([part.name for part in read])
            self._disk -= sum(part.disk for part in read)


class Sweeper:
    """Deletes rows that moved as soon as all tasks that read them are done, and tracks disk usage."""

    def __init__(self, store: Folder, groups: Groups | None = None) -> None:
        self.store = store
        self.groups = groups
        """By way of which rows move; None if they go straight from shard to shard."""
        self.peak = 0
        """The most bytes that pieces and new shards took at any time."""
        self._moved: list[Moved] = []
        self._written = 0
        self._between = 0  # bytes of what goes between tasks, as far as it has not been deleted
        self._shards = 0
        self._open: dict[int, int] = {}
        self._ungathered = 0
        self._copied: list[Copied] = []
        self._steps: dict[str, Callable[[Any], None]] = {
            "copy": self._copy,
            "cut": lambda borders: self._expect(len(borders.entries)),
            "split": self._move,
            "gather": self._gather,
            "fold": lambda folded: self._arrived(folded.number, folded.shard.bytes),
        }
        self._gathered: dict[int, list[Moved]] = {}
        self._unfolded: dict[int, int] = {}

    def __call__(self, layer: str, receipt: Any) -> None:
        """Record that a task is done."""
        if receipt is not None and layer in self._steps:
            self._steps[layer](receipt)
            self._measure()
        elif self.groups is not None and layer == "arrived":
            self._read_sent()

    def _expect(self, shards: int) -> None:
        """Record how many new shards there will be."""
        self._shards = shards
        if self.groups is None:
            self._open = {group: last - first for group, (first, last) in enumerate(piece_ranges(shards))}
            return
        borders = self.groups.borders(shards)
        self._unfolded = {group: stop - first for group, (first, stop) in enumerate(pairwise(borders)) if first < stop}
        self._open = dict.fromkeys(range(len(piece_ranges(self.groups.count))), 1)
        self._ungathered = self.groups.count

    def _copy(self, copied: Copied) -> None:
        """Record columns that were copied."""
        self._copied.append(copied)
        self._between += copied.disk

    def _move(self, moved: Moved) -> None:
        """Record rows that were sent."""
        self._moved.append(moved)
        self._between += sum(moved.disk)

    def _gather(self, gathered: Gathered) -> None:
        """Record rows that have been sorted by the shards of a group."""
        self._between += sum(part.disk[0] for part in gathered.parts)
        self._gathered.setdefault(gathered.group, []).extend(gathered.parts)

    def _read_sent(self) -> None:
        """Record that a group has read all that was sent to it; once all have, what was sent is deleted."""
        self._ungathered -= 1
        if not self._ungathered:
            for number in list(self._open):
                self._delete_sent(number)

    def _arrived(self, number: int, written: int) -> None:
        """Record that a new shard has read its rows and written so much."""
        self._written += written
        self._measure()
        if self.groups is not None:
            self._fold_group(number // self.groups.width)
            return
        group = next(k for k, (first, last) in enumerate(piece_ranges(self._shards)) if first <= number < last)
        self._open[group] -= 1
        if not self._open[group]:
            self._delete_sent(group)

    def _fold_group(self, group: int) -> None:
        """Record that a shard of a group has read its rows; once all have, they are deleted; at the end the copies."""
        self._unfolded[group] -= 1
        if not self._unfolded[group]:
            del self._unfolded[group]
            self._remove([(part.names[0], part.disk[0]) for part in self._gathered.pop(group, [])])
        if not self._unfolded:
            self._between -= sum(copied.disk for copied in self._copied)
            self._remove([(name, 0) for copied in self._copied for name in copied.names.values()])
            self._copied.clear()

    def _delete_sent(self, number: int) -> None:
        """Delete the files with this number of all shards."""
        del self._open[number]
        self._remove([(moved.names[number], moved.disk[number]) for moved in self._moved])

    def _remove(self, files: Sequence[tuple[str, int]]) -> None:
        """Delete files, given with their bytes; where no row has gone to any of their shards there is none."""
        self._between -= sum(size for _, size in files)
        if written := [name for name, _ in files if name]:
            self.store.remove_files(written)

    def _measure(self) -> None:
        """Track the most bytes."""
        self.peak = max(self.peak, self._written + self._between)


class GoodSweeper(Sweeper):
    """The same for a round of good merges, whose shards are written twice."""

    def __init__(self, store: Folder) -> None:
        super().__init__(store)
        self._united: dict[int, United] = {}
        self._owners: list[United] = []
        self._unsettled: dict[int, int] = {}
        self._steps = {
            "arrange": lambda arranged: self._expect(len(arranged.bases) - 1),
            "send": self._move,
            "unite": self._unite,
            "settle": self._settle,
        }

    def _unite(self, united: United) -> None:
        """Record that a shard has been written for the first time."""
        self._united[united.number] = united
        self._unsettled[united.number] = len(united.cuts) - 1
        self._arrived(united.number, united.disk)

    def _settle(self, folded: Folded) -> None:
        """Record that rows have been written for the second time: once all of a shard are, nobody reads the first."""
        if not self._owners:
            shards = (self._united[number] for number in sorted(self._united))
            self._owners = [shard for shard in shards for _ in shard.cuts[1:]]
        self._written += folded.shard.bytes
        self._measure()
        shard = self._owners[folded.number]
        self._unsettled[shard.number] -= 1
        if not self._unsettled[shard.number]:
            self._written -= shard.disk
            self.store.remove(shard.rows)
