"""How a run is done, beside what it computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from dask_rac.base.checks import check_whole
from dask_rac.edges.given_names import GivenNames
from dask_rac.engines.contract import Limits
from dask_rac.tasks.budget import memory_bytes


@dataclass(frozen=True)
class PlanOptions:
    """The parameters of a run that do not change its result, and the number of nodes."""

    n_nodes: int | None
    memory: str | float | None
    shards: int | None
    client: Any
    limits: Limits = field(default_factory=Limits, kw_only=True)
    names: GivenNames | None = field(default=None, kw_only=True)
    """The names of the nodes, if they are known before the edges are read."""
    engine: str = field(default="", kw_only=True)
    """The engine for all pairs, if the user names one."""


@dataclass(frozen=True)
class RunOptions(PlanOptions):
    """The same, with the path of the store."""

    store: str | PathLike[str]


def check_options(options: PlanOptions) -> None:
    """Raise unless each option is valid by itself."""
    if options.shards is not None:
        check_whole("shards", options.shards, 1)
    if options.n_nodes is not None:
        check_whole("n_nodes", options.n_nodes, 0)
    memory_bytes(options.memory, 0)


def given_bytes(options: PlanOptions) -> int | None:
    """Return the memory that the user gave in bytes, None for the default."""
    return memory_bytes(options.memory, 0) or None
