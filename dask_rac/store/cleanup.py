"""The store between steps: which steps are still valid, and which files can be deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dask_rac.base.errors import DamagedStoreError, StoreError
from dask_rac.base.names import (
    HEADER,
    INPUT,
    MANIFESTS,
    MERGES,
    ROUNDS,
    STATISTICS,
    TREE,
    UNFINISHED,
    manifest_name,
    step_name,
)
from dask_rac.files.folder import Folder
from dask_rac.store.manifest import Manifest, check_files, count_manifests, read_chain, withdraw


def clean_store(store: Folder, chain: Sequence[Manifest], kept: int, everything: bool = False) -> None:
    """Delete what no step needs: pieces, all states except the last `kept`, and leftovers of runs that died.

    A step that is not committed may belong to another run, unless `everything` is set.
    """
    tables = {table.name for manifest in chain for table in manifest.merges}
    states = [manifest.state for manifest in chain[len(chain) - kept :] if manifest.state]
    groups = {name for state in states for name in state.groups}
    committed, present = step_name(len(chain)), store.names()
    for folder in {ROUNDS, TREE}.intersection(present):
        for attempt in store.names(folder):
            if attempt >= committed and not everything:
                continue
            inside = {f"{folder}/{attempt}/{name}" for name in store.names(f"{folder}/{attempt}")}
            for name in inside - groups if inside & groups else [f"{folder}/{attempt}"]:
                store.remove(name)
    for name in store.names(MERGES) if MERGES in present else ():
        if f"{MERGES}/{name}" not in tables and (name < committed or everything):
            store.remove(f"{MERGES}/{name}")
    if chain and INPUT in present:
        store.remove(INPUT)
    for folder in ("", MANIFESTS, STATISTICS) if store.local else ():  # objects appear whole
        for name in store.names(folder):
            if name.endswith(UNFINISHED):
                store.remove(f"{folder}/{name}".lstrip("/"))


def newest_sound(store: Folder) -> list[Manifest]:
    """Return the chain up to the newest step whose files are intact; later steps are taken back."""
    chain = read_chain(store)
    there = count_manifests(store)
    fault: StoreError | None = None
    if there > len(chain):
        name = store.at(manifest_name(len(chain)))
        fault = DamagedStoreError(f"{name} is damaged" if chain else f"{name} or {store.at(HEADER)} is damaged")
    for length in range(len(chain), max(0, len(chain) - 2), -1):
        try:
            for manifest in chain[:length]:
                check_files(store, manifest if manifest is chain[length - 1] else replace(manifest, state=None))
        except DamagedStoreError as error:
            fault = fault or error
            continue
        if there > length:
            withdraw(store, length)
        return chain[:length]
    if fault is not None and there:
        raise DamagedStoreError(
            f"{fault}; there is no intact round before it: start the run again in another folder"
        ) from fault
    return []
