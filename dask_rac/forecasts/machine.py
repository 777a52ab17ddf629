"""What a machine does per second, as runs and a probe have measured it; written and read as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from dask_rac.base.errors import InputError
from dask_rac.base.text import quoted


@dataclass(frozen=True)
class Rate:
    """Seconds of a thread per unit of work; where memory is read in no order, more clusters make it slower."""

    flat: float = 0.0
    """Seconds per unit, whatever the number of clusters."""
    doubling: float = 0.0
    """Seconds per unit that each doubling of the clusters adds, as caches hold less of them."""

    def at(self, clusters: float) -> float:
        """Seconds per unit with this many clusters."""
        return self.flat + self.doubling * math.log2(max(2.0, clusters))


@dataclass(frozen=True)
class Machine:
    """Constants of one machine: seconds of one thread per unit of each kind of work, and what all threads share."""

    scan: Rate = field(default_factory=Rate)
    """Checking an edge of the input."""
    route: Rate = field(default_factory=Rate)
    """Reading an edge again and sending it to its shard."""
    build: Rate = field(default_factory=Rate)
    """Making rows of an edge; the units of a state's first shards are edges."""
    read: Rate = field(default_factory=Rate)
    """Reading a byte of a shard or of rows that have moved."""
    relabel: Rate = field(default_factory=Rate)
    """Working out what becomes of a cluster, which `cut` does, and then every process."""
    move: Rate = field(default_factory=Rate)
    """Taking an entry out of a shard, or pairing the rows of a cluster."""
    fold: Rate = field(default_factory=Rate)
    """Folding an entry out of core."""
    write: Rate = field(default_factory=Rate)
    """Writing a byte of a shard, of rows that move, or of merges."""
    load: Rate = field(default_factory=Rate)
    """Loading an entry of the rest into memory, and writing its merges."""
    rest_match: Rate = field(default_factory=Rate)
    """Matching a cluster in memory."""
    rest_fold: Rate = field(default_factory=Rate)
    """Folding an entry in memory."""
    finish: Rate = field(default_factory=Rate)
    """Finishing an edge, in one thread."""
    step: float = 0.0
    """Seconds between the tasks of two steps: the graph, the manifest, deleting what is not needed any more."""
    task: float = 0.0
    """Seconds that the scheduler takes for each task, one after the other."""
    discard: float = 0.0
    """Seconds for a byte of a state between two steps: it is flushed now and then, and deleted later."""
    disk_read: float = 0.0
    """Bytes per second that the disk reads, past the page cache; 0 if it was not measured."""
    disk_write: float = 0.0
    """Bytes per second that the disk writes, flushed; 0 if it was not measured."""
    memory: float = 0.0
    """Bytes per second that one thread copies in memory; 0 if it was not measured."""
    latency: float = 0.0
    """Seconds until an object store answers a request; 0 if it was not measured."""
    connection: float = 0.0
    """Bytes per second of one request to an object store; 0 if it was not measured."""
    sources: tuple[str, ...] = ()
    """What it was measured from, for people."""

    def save(self, path: str | Path) -> None:
        """Write the constants as JSON."""
        Path(path).write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load_from(cls, path: str | Path) -> Machine:
        """Read constants that `save` has written."""
        try:
            given = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path} holds no constants of a machine ({error}): write some with dask-rac probe"
            ) from None
        return cls.of(given, str(path))

    @classmethod
    def of(cls, given: Any, name: str) -> Machine:
        """Return the constants in a record of them."""
        known = {one.name: one.default for one in fields(cls)}
        if not isinstance(given, Mapping) or not given.keys() <= known.keys():
            raise InputError(f"{name} holds no constants of a machine: write some with dask-rac probe")
        values: dict[str, Any] = {}
        for key, value in given.items():
            if key == "sources":
                values[key] = tuple(map(str, value))
            elif isinstance(value, Mapping):
                numbers = {part: _number(number, f"{name}: {key}.{part}") for part, number in value.items()}
                values[key] = Rate(**{part: numbers[part] for part in ("flat", "doubling") if part in numbers})
            else:
                values[key] = _number(value, f"{name}: {key}")
        return cls(**values)


def sorting_seconds(machine: Machine, nodes: float, size: tuple[float, float], row: int) -> float:
    """Seconds of threads that read so many bytes of edges by group, order them, and write so many by shard."""
    read, written = size
    ordering = machine.move.at(nodes) * written / row
    return machine.read.at(nodes) * read + ordering + machine.write.at(nodes) * written


def _number(value: Any, what: str) -> float:
    """Return a number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError(f"{what}={quoted(value)} is not a number of 0 or more")
    return float(value)
