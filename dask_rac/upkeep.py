"""The store between steps: what still holds, and what can go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dask_rac.errors import DamagedStoreError, StoreError
from dask_rac.receipts import Moved, piece_ranges
from dask_rac.store import manifest as manifests
from dask_rac.store.files import UNFINISHED, Folder
from dask_rac.store.manifest import Manifest


class Sweeper:
    """Deletes rows that moved as soon as all who read them are done, and keeps count of the disk."""

    def __init__(self, store: Folder) -> None:
        self.store = store
        self.peak = 0
        """The most bytes of pieces and new shards at a time."""
        self._moved: list[Moved] = []
        self._written = 0
        self._shards = 0
        self._open: dict[int, int] = {}

    def __call__(self, layer: str, receipt: Any) -> None:
        """Take note of a task that is done."""
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
                for moved in self._moved:
                    self.store.remove(moved.names[group])

    def _pieces(self) -> int:
        """Bytes of the rows that moved and are still there."""
        return sum(moved.disk[group] for moved in self._moved for group in self._open)


def clean_store(store: Folder, chain: Sequence[Manifest], kept: int, everything: bool = False) -> None:
    """Delete what no step needs: pieces, states but those of the last `kept` steps, what a run that died left.

    A step that is not committed may be another run's, unless `everything` says that there is none.
    """
    tables = {table.name for manifest in chain for table in manifest.merges}
    states = [manifest.state for manifest in chain[len(chain) - kept :] if manifest.state]
    groups = {name for state in states for name in (*(shard.name for shard in state.shards), state.component)}
    groups |= {name for state in states for name in state.tree}
    committed, present = f"{len(chain):05d}", store.names()
    for folder in {"rounds", "tree"}.intersection(present):
        for attempt in store.names(folder):
            if attempt >= committed and not everything:
                continue
            inside = {f"{folder}/{attempt}/{name}" for name in store.names(f"{folder}/{attempt}")}
            for name in inside - groups if inside & groups else [f"{folder}/{attempt}"]:
                store.remove(name)
    for name in store.names("merges") if "merges" in present else ():
        if f"merges/{name}" not in tables and (name < committed or everything):
            store.remove(f"merges/{name}")
    if chain and "input" in present:
        store.remove("input")
    for folder in ("", manifests.STEPS, "statistics") if store.local else ():  # objects appear whole
        for name in store.names(folder):
            if name.endswith(UNFINISHED):
                store.remove(f"{folder}/{name}".lstrip("/"))


def newest_sound(store: Folder) -> list[Manifest]:
    """The chain up to the newest step whose files are what was written; a step that does not hold is taken back."""
    chain = manifests.read_chain(store)
    there = manifests.count_manifests(store)
    fault: StoreError | None = None
    if there > len(chain):
        name = f"{store.at(manifests.STEPS)}/{len(chain):05d}.json"
        fault = DamagedStoreError(
            f"{name} is damaged" if chain else f"{name} or {store.at(manifests.HEADER)} is damaged"
        )
    for length in range(len(chain), max(0, len(chain) - 2), -1):
        try:
            for manifest in chain[:length]:
                manifests.check_files(
                    store, manifest if manifest is chain[length - 1] else replace(manifest, state=None)
                )
        except DamagedStoreError as error:
            fault = fault or error
            continue
        if there > length:
            manifests.withdraw(store, length)
        return chain[:length]
    if fault is not None and there:
        raise DamagedStoreError(
            f"{fault}; no sound round is left before it: start the run anew in another folder"
        ) from fault
    return []
