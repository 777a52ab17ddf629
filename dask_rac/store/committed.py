"""The steps that were committed, as readers find them while a run may be adding to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dask_rac.base.names import manifest_name
from dask_rac.files.folder import Folder
from dask_rac.store.manifest import Manifest, count_manifests, missing_groups, read_chain


@dataclass(frozen=True)
class Committed:
    """The steps of a run, and whether there were more."""

    chain: Sequence[Manifest]
    """From the first step to the newest that can be read."""
    lost: str | None
    """The manifest after them, if it is damaged or missing."""


def read_committed(store: Folder) -> Committed:
    """Read the steps of a run; before one counts as lost they are read again, as a run in progress moves on."""
    found, before = _read(store), None
    while found.lost and len(found.chain) != before:
        found, before = _read(store), len(found.chain)
    return found


def _read(store: Folder) -> Committed:
    """Read the steps of a run.

    The state of the newest step is deleted once a later one is committed: if it is gone, there was a later one.
    """
    written = count_manifests(store)  # before they are read: a run in progress adds to them
    chain = read_chain(store)
    state = chain[-1].state if chain else None
    lost = len(chain) < written or (state is not None and bool(missing_groups(store, state)))
    return Committed(chain, manifest_name(len(chain)) if lost else None)
