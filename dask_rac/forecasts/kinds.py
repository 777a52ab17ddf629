"""Kinds of machines: cores, memory, disk, network and prices.

The kinds here are examples, made of round numbers, and so are their prices: give your own as a mapping. Nothing of what
a core does per second is among them; that is measured.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

from dask_rac.base.errors import InputError
from dask_rac.base.text import listed, quoted
from dask_rac.tasks.budget import memory_bytes
from dask_rac.tasks.machine import memory_limit, new_team


@dataclass(frozen=True)
class Kind:
    """A kind of machine, and what it costs."""

    cores: int
    memory: int
    """Bytes."""
    disk: int = 0
    """Bytes of its own disk; 0 for none."""
    disk_rate: float = 0.0
    """Bytes per second that its disk reads, or writes; 0 for those of the machine that was measured."""
    network: float = math.inf
    """Bytes per second between the machine and an object store."""
    processes: int = 1
    """Into which its cores are divided."""
    speed: float = 1.0
    """Of a core, as a multiple of a core of the machine that was measured."""
    hour: float = 0.0
    """Price of the machine per hour."""
    million_reads: float = 0.0
    """Price of a million requests that read an object."""
    million_writes: float = 0.0
    """Price of a million requests that write or list objects."""
    request_rate: float = math.inf
    """Requests per second that the object store answers to all machines together."""
    latency: float = 0.0
    """Seconds until the object store answers, where the constants of the machine do not say."""
    connection: float = 0.0
    """Bytes per second of one request to the object store, where the constants of the machine do not say."""


_NEAR_STORE = replace(
    Kind(1, 1), million_reads=0.4, million_writes=5.0, request_rate=5_500, latency=0.03, connection=8e7
)
"""A machine beside an object store, with prices in dollars."""
EXAMPLES = {
    "small": replace(_NEAR_STORE, cores=16, memory=128 * 10**9, network=1.25e9, hour=1.0),
    "large": replace(_NEAR_STORE, cores=96, memory=1_536 * 10**9, network=6.25e9, hour=12.0),
    "workstation": Kind(64, 512 * 10**9, disk=100 * 10**12, disk_rate=2e9),
}
"""Kinds by name. `small` has the cores of the paper's machines, whose memory the paper does not state."""


def kind_of(given: str | PathLike[str] | Mapping[str, Any], folder: str = ".") -> Kind:
    """Return a kind from its name, from a mapping, or from a file with one as JSON; "here" is this machine."""
    if isinstance(given, Mapping):
        return _checked(given)
    name = str(given)
    if name == "here":
        with new_team() as team:
            return Kind(team.threads, memory_limit(), shutil.disk_usage(folder).free)
    if name in EXAMPLES:
        return EXAMPLES[name]
    if name.endswith(".json"):
        try:
            return _checked(json.loads(Path(name).read_text()))
        except (OSError, ValueError) as error:
            raise InputError(f"{name} holds no kind of machine: {error}") from None
    raise InputError(
        f"kind={quoted(given)} is unknown: use {listed(['here', *EXAMPLES])}, a file that ends in .json, or a mapping "
        "such as {'cores': 32, 'memory': '256GB'}"
    )


def _checked(given: Any) -> Kind:
    """Return a kind from a mapping."""
    known = [one.name for one in fields(Kind)]
    if not isinstance(given, Mapping) or not given.keys() <= set(known):
        raise InputError(f"kind={quoted(given)} is not a kind of machine: its keys are {listed(known)}")
    if not {"cores", "memory"} <= given.keys():
        raise InputError(f"kind={quoted(given)} lacks cores or memory: give both")
    sizes = {name: memory_bytes(given[name], 0) for name in ("memory", "disk") if given.get(name)}
    kind = replace(Kind(1, 1), **{**given, **sizes})
    for name, value in asdict(kind).items():
        least = 1 if name in {"cores", "memory", "processes"} else 0
        whole = isinstance(value, int) if name in {"cores", "processes"} else isinstance(value, int | float)
        if isinstance(value, bool) or not whole or not value >= least:
            raise InputError(f"kind: {name}={quoted(value)} is not a number of {least} or more")
    if kind.processes > kind.cores:
        raise InputError(f"kind: {kind.processes} processes need as many cores, and there are {kind.cores}")
    return kind
