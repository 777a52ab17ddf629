"""The progress of the run in a store, from its manifests alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, Literal

from dask_rac.base.events import RoundRecord
from dask_rac.base.names import RECORD, STATISTICS, statistics_name
from dask_rac.base.records import decoded, parse_json
from dask_rac.base.settings import Settings, certified
from dask_rac.files.folder import Folder
from dask_rac.store.committed import read_committed
from dask_rac.store.header import Header, read_header
from dask_rac.store.manifest import Facts, Manifest

Status = Literal["finished", "running", "stopped", "unfinished"]


@dataclass(frozen=True)
class Overview:
    """What a store knows of its run, finished or not."""

    store: str
    status: Status
    """"unfinished" on object stores, where it is unknown whether a process is working on the run."""
    damaged: str | None
    """The first manifest that is damaged or missing, if any."""
    header: Header
    facts: Facts | None
    """None until the edges have been read."""
    rounds: Sequence[RoundRecord]
    """All rounds with statistics, including those in memory that are not committed yet."""
    merges: int
    """The number of committed merges."""
    heights: tuple[float, float] | None
    """The heights of the nearest and the farthest of them."""
    epsilon: float
    """How far one of them was from the nearest there was, at most."""
    shards: int
    """The number of shards of the state on disk."""
    bytes: int
    """The current size of the store."""
    peak_disk: int
    """The largest size of the store during the run, in bytes."""
    seconds: float
    """The duration of the work so far."""

    @property
    def settings(self) -> Settings:
        """What the run computes; once the edges have been read, with what absent pairs weigh."""
        return self.header.settings if self.facts is None else self.header.settings.resolved(self.facts.largest)

    def to_json(self) -> dict[str, Any]:
        """Return all of it for other programs."""
        known = asdict(self)
        header = known.pop("header")
        parameters = asdict(self.settings)
        if parameters["far"] is None:
            del parameters["far"]
        del parameters["missing" if parameters["metric"] else "metric"]
        fields = {**known, "parameters": parameters, self.header.settings.input_name: header["source"]}
        return {**fields, "versions": header["versions"], "format": header["format"]}


def overview(path: str | PathLike[str]) -> Overview:
    """Return what the store at a path knows of its run."""
    store = Folder(path)
    header = read_header(store)
    found = read_committed(store)
    chain = found.chain
    tables = [table for step in chain for table in step.merges]
    heights = [table.low for table in tables] + [table.high for table in tables]
    ends = (min(heights), max(heights)) if heights else None
    last = chain[-1] if chain else None
    return Overview(
        store.url,
        _status(store, last),
        found.lost,
        header,
        chain[0].facts if chain else None,
        _rounds(store, chain),
        sum(table.rows for table in tables),
        ends if ends is None or header.settings.sign > 0 else ends[::-1],
        certified((table.ratio for table in tables if table.ratio is not None), header.settings),
        len(last.state.shards) if last and last.state else 0,
        store.bytes_of(),
        last.peak_disk if last else 0,
        last.seconds if last else 0.0,
    )


def _status(store: Folder, last: Manifest | None) -> Status:
    """Return whether the run is finished and, if not, whether a process is working on it."""
    if last is not None and last.state is None:
        return "finished"
    busy = store.in_use()
    return "unfinished" if busy is None else "running" if busy else "stopped"


def _rounds(store: Folder, chain: Sequence[Manifest]) -> list[RoundRecord]:
    """Return the committed rounds, and later ones that have written their statistics."""
    records = [record for step in chain for record in step.records]
    if chain and chain[-1].state is None:
        return records
    names = [f"{STATISTICS}/{name}" for name in store.names(STATISTICS) if name.endswith(RECORD)]
    later = [name for name in names if name > statistics_name(len(records))]
    return records + [record for name in later if (record := _statistics(store, name))]


def _statistics(store: Folder, name: str) -> RoundRecord | None:
    """Return the statistics of a round; None if they are torn: they are only for people who look at a run."""
    try:
        return decoded(RoundRecord, parse_json(store.read(name)))
    except (FileNotFoundError, IsADirectoryError, ValueError):
        return None
