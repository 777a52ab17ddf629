"""The store between steps: which steps are still valid, and which files can be deleted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dask_rac.base.errors import DamagedStoreError, StoreInUseError
from dask_rac.base.names import (
    HEADER,
    INPUT,
    MANIFESTS,
    MERGES,
    NAMES,
    PAIRS_FOLDERS,
    ROUNDS,
    STATISTICS,
    TREE,
    is_given,
    is_ours,
    is_temporary,
    manifest_name,
    step_name,
)
from dask_rac.files.folder import Folder
from dask_rac.store.committed import Committed, read_committed
from dask_rac.store.manifest import Manifest, State, check_merges, check_state, count_manifests, read_chain, withdraw


def clean_store(store: Folder, chain: Sequence[Manifest], kept: Iterable[State], everything: bool = False) -> None:
    """Delete what no step needs: pieces, all states that are not `kept`, and leftovers of runs that died.

    A step that is not committed may belong to another run, unless `everything` is set.
    """
    kept = tuple(kept)
    tables = {table.name for manifest in chain for table in manifest.merges}
    groups = {name for state in kept for name in state.groups}
    committed, present = step_name(len(chain)), store.names()
    for folder in (name for name in (ROUNDS, TREE) if name in present):
        for attempt in store.names(folder):
            if not is_ours(folder, attempt) or (attempt >= committed and not everything):
                continue
            inside = {f"{folder}/{attempt}/{name}" for name in store.names(f"{folder}/{attempt}")}
            for name in sorted(inside - groups) if inside & groups else [f"{folder}/{attempt}"]:
                store.remove(name)
    for name in store.names(MERGES) if MERGES in present else ():
        if f"{MERGES}/{name}" not in tables and is_ours(MERGES, name) and (name < committed or everything):
            store.remove(f"{MERGES}/{name}")
    if NAMES in present:
        _clean_names(store, chain, committed, everything)
    if chain and INPUT in present:
        remove_ours(store, INPUT)
    if chain:
        _clean_pairs(store, kept, present)
    for folder in ("", MANIFESTS, STATISTICS) if store.local else ():  # objects appear whole
        for name in store.names(folder):
            if is_temporary(name) and is_ours(folder, name):
                store.remove(f"{folder}/{name}".lstrip("/"))


def _clean_pairs(store: Folder, kept: Iterable[State], present: Sequence[str]) -> None:
    """Delete vectors and near pairs that no state needs."""
    needed = {name for state in kept for name in state.own.get("needs", ())}
    for folder in PAIRS_FOLDERS:
        if folder in present and folder.partition(".")[0] not in needed:
            store.remove(folder)


def _clean_names(store: Folder, chain: Sequence[Manifest], committed: str, everything: bool) -> None:
    """Delete names that no manifest names: of attempts that died, and of tasks that were done twice."""
    record = chain[0].names if chain else None
    parts = {part.name for part in record.parts} if record else set()
    for attempt in store.names(NAMES):
        if is_given(attempt) or not is_ours(NAMES, attempt) or (attempt >= committed and not everything):
            continue
        folder = f"{NAMES}/{attempt}"
        inside = {f"{folder}/{name}" for name in store.names(folder)}
        for name in sorted(inside - parts) if inside & parts else [folder]:
            store.remove(name)


def remove_ours(store: Folder, folder: str) -> None:
    """Delete everything with a name of ours in a folder of a store, and the folder if nothing else is in it."""
    names = store.names(folder)
    if all(is_ours(folder, name) for name in names):
        store.remove(folder)
        return
    for name in names:
        if is_ours(folder, name):
            store.remove(f"{folder}/{name}")


def intact_end(store: Folder) -> list[Manifest]:
    """Return the chain of a run that is finished and whose merges are intact, otherwise nothing; only reads."""
    chain = read_chain(store)
    if not chain or chain[-1].state is not None or len(chain) != count_manifests(store):
        return []
    return chain if _intact_merges(store, chain)[1] is None else []


def newest_sound(store: Folder, edges: bool = False) -> list[Manifest]:
    """Return the chain up to the newest step whose files are intact; later steps are taken back.

    A run that has not merged anything yet may go back to its `edges`, if it can read them again.
    """
    there = count_manifests(store)  # before they are read: another run may add to them
    found = read_committed(store)
    merged, fault = _intact_merges(store, found.chain)
    if found.lost is not None:
        fault = DamagedStoreError(_lost_text(store, found))
    for length in range(merged, 0, -1):
        state = found.chain[length - 1].state
        try:
            if state is not None:
                check_state(store, state)
        except DamagedStoreError as error:
            fault = fault or error
            continue
        if there > length:
            _refuse_growing(store, there)
            withdraw(store, length)
        return list(found.chain[:length])
    nothing_merged = there == 1 and found.lost in {None, manifest_name(0)}
    if fault is not None:
        _refuse_growing(store, there)
    if fault is not None and not (edges and nothing_merged):
        raise DamagedStoreError(
            f"{fault}; there is no intact round before it: start the run again in another folder"
        ) from fault
    withdraw(store, 0)
    return []


def _refuse_growing(store: Folder, there: int) -> None:
    """Raise if steps were committed since they were counted: what seems to be damaged is another run's work."""
    if count_manifests(store) > there:
        raise StoreInUseError(f"{store.url}: another run is working on it; this one stops")


def _intact_merges(store: Folder, chain: Sequence[Manifest]) -> tuple[int, DamagedStoreError | None]:
    """Return the number of steps, from the first, whose merges are intact, and what is wrong with the next one's."""
    for manifest in chain:
        try:
            check_merges(store, manifest)
        except DamagedStoreError as error:
            return manifest.step, error
    return len(chain), None


def _lost_text(store: Folder, found: Committed) -> str:
    """Return which manifest is lost; the first one may only seem to be, if the header is another one."""
    assert found.lost is not None
    name = store.at(found.lost)
    return f"{name} is damaged or missing" if found.chain else f"{name} or {store.at(HEADER)} is damaged or missing"
