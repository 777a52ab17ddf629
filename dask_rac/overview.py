"""How far the run in a store has come, from its manifests alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, Literal

from dask_rac.config import RoundRecord
from dask_rac.store import manifest as manifests
from dask_rac.store.files import Folder
from dask_rac.store.manifest import Facts, Header, Manifest

Status = Literal["finished", "running", "stopped", "unfinished"]


@dataclass(frozen=True)
class Overview:
    """What a store tells of its run, finished or on its way."""

    store: str
    status: Status
    """"unfinished" where nobody can tell whether a process is at work: on object stores."""
    damaged: str | None
    """The first manifest that cannot be read, if any."""
    header: Header
    facts: Facts | None
    """None until the edges have been read."""
    rounds: Sequence[RoundRecord]
    """As far as they are known; those under way in memory among them."""
    merges: int
    """Committed."""
    heights: tuple[float, float] | None
    """Of the nearest and the farthest of them."""
    shards: int
    """Of the state on disk."""
    bytes: int
    """Of the store now."""
    peak_disk: int
    seconds: float
    """Of work so far."""

    def to_json(self) -> dict[str, Any]:
        """All of it, for other programs."""
        known = asdict(self)
        header = known.pop("header")
        fields = {**known, "parameters": header.pop("settings"), "edges": header.pop("source")}
        return {**fields, "versions": header["versions"], "format": header["format"]}


def overview(path: str | PathLike[str]) -> Overview:
    """What the store at a path tells."""
    store = Folder(path)
    header = manifests.read_header(store)
    written = manifests.count_manifests(store)  # before they are read: a run on its way adds to them
    chain = manifests.read_chain(store)
    tables = [table for step in chain for table in step.merges]
    heights = [table.low for table in tables] + [table.high for table in tables]
    ends = (min(heights), max(heights)) if heights else None
    last = chain[-1] if chain else None
    return Overview(
        store.url,
        _status(store, last),
        f"{manifests.STEPS}/{len(chain):05d}.json" if len(chain) < written else None,
        header,
        chain[0].facts if chain else None,
        _rounds(store, chain),
        sum(table.rows for table in tables),
        ends if ends is None or header.settings.sign > 0 else ends[::-1],
        len(last.state.shards) if last and last.state else 0,
        store.bytes_of(),
        last.peak_disk if last else 0,
        last.seconds if last else 0.0,
    )


def _status(store: Folder, last: Manifest | None) -> Status:
    """Whether the run is at its end, and if not, whether anybody works on it."""
    if last is not None and last.state is None:
        return "finished"
    busy = store.in_use()
    return "unfinished" if busy is None else "running" if busy else "stopped"


def _rounds(store: Folder, chain: Sequence[Manifest]) -> list[RoundRecord]:
    """Committed rounds, and those that have left their statistics since."""
    records = [record for step in chain for record in step.records]
    if chain and chain[-1].state is None:
        return records
    known = f"{len(records):05d}.json"
    later = [name for name in store.names("statistics") if name > known and name.endswith(".json")]
    return records + [RoundRecord(**json.loads(store.read(f"statistics/{name}"))) for name in later]
