"""The sweeper of a round: rows that moved between shards are deleted as soon as no fold has to read them."""

from __future__ import annotations

from typing import Any

from dask_rac.engines.rows.receipts import Moved, piece_ranges
from dask_rac.files.folder import Folder


class Sweeper:
    """Deletes moved rows as soon as all tasks that read them are done, and tracks disk usage."""

    def __init__(self, store: Folder) -> None:
        self.store = store
        self.peak = 0
        """The most bytes that pieces and new shards took at any time."""
        self._moved: list[Moved] = []
        self._written = 0
        self._shards = 0
        self._open: dict[int, int] = {}

    def __call__(self, layer: str, receipt: Any) -> None:
        """Record that a task is done."""
        if layer == "cut":
            self._shards = len(receipt.entries)
            self._open = {group: last - first for group, (first, last) in enumerate(piece_ranges(self._shards))}
        elif layer == "split" and receipt is not None:
            self._moved.append(receipt)
        elif layer == "fold" and receipt is not None:
            self._written += receipt.shard.bytes
        self.peak = max(self.peak, self._written + self._pieces())
        if layer == "fold" and receipt is not None:
            group = next(
                k for k, (first, last) in enumerate(piece_ranges(self._shards)) if first <= receipt.number < last
            )
            self._open[group] -= 1
            if not self._open[group]:
                del self._open[group]
                for name in (moved.names[group] for moved in self._moved):
                    if name is not None:
                        self.store.remove(name)

    def _pieces(self) -> int:
        """Return the bytes of moved rows that are still on disk."""
        return sum(moved.disk[group] for moved in self._moved for group in self._open)
