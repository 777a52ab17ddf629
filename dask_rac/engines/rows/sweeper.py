"""The sweeper of a round: what goes between its tasks is deleted as soon as no task has to read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dask_rac.engines.rows.receipts import Folded, Moved, United, piece_ranges
from dask_rac.files.folder import Folder


class Sweeper:
    """Deletes rows that moved as soon as all tasks that read them are done, and tracks disk usage."""

    def __init__(self, store: Folder) -> None:
        self.store = store
        self.peak = 0
        """The most bytes that pieces and new shards took at any time."""
        self._moved: list[Moved] = []
        self._written = 0
        self._shards = 0
        self._open: dict[int, int] = {}
        self._steps: dict[str, Callable[[Any], None]] = {
            "cut": lambda borders: self._expect(len(borders.entries)),
            "split": self._moved.append,
            "fold": lambda folded: self._arrived(folded.number, folded.shard.bytes),
        }

    def __call__(self, layer: str, receipt: Any) -> None:
        """Record that a task is done."""
        if receipt is not None and layer in self._steps:
            self._steps[layer](receipt)
            self._measure()

    def _expect(self, shards: int) -> None:
        """Record how many new shards there will be."""
        self._shards = shards
        self._open = {group: last - first for group, (first, last) in enumerate(piece_ranges(shards))}

    def _arrived(self, number: int, written: int) -> None:
        """Record that a new shard has read its rows and written so much."""
        self._written += written
        self._measure()
        group = next(k for k, (first, last) in enumerate(piece_ranges(self._shards)) if first <= number < last)
        self._open[group] -= 1
        if not self._open[group]:
            del self._open[group]
            for name in (moved.names[group] for moved in self._moved):
                if name:
                    self.store.remove(name)

    def _measure(self) -> None:
        """Track the most bytes."""
        pieces = sum(moved.disk[group] for moved in self._moved for group in self._open)
        self.peak = max(self.peak, self._written + pieces)


class GoodSweeper(Sweeper):
    """The same for a round of good merges, whose shards are written twice."""

    def __init__(self, store: Folder) -> None:
        super().__init__(store)
        self._united: dict[int, United] = {}
        self._owners: list[United] = []
        self._unsettled: dict[int, int] = {}
        self._steps = {
            "arrange": lambda arranged: self._expect(len(arranged.bases) - 1),
            "send": self._moved.append,
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
