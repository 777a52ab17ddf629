"""What a run reports while it works: rounds, and events for whoever listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from dask_rac.base.public import public


@dataclass(frozen=True)
class RoundRecord:
    """Statistics of one round; the finisher is the last round."""

    round: int = field(default=0, kw_only=True)
    """The number of the round, from 1."""
    clusters: int
    """Live clusters, that is those with an edge, before the round."""
    edges: int
    """Edges between live clusters before the round."""
    merges: int
    """Merges in the round."""
    nearest_updates: int = 0
    """Clusters that did not merge but whose nearest did, so that it had to be found again; in Boruvka's rounds, all."""
    nearest_seconds: float = 0.0
    """Seconds to find the nearest of each node, before the first round."""
    match_seconds: float = 0.0
    """Seconds to find the pairs that merge."""
    fold_seconds: float = 0.0
    """Seconds to fold rows, and to find the nearest in the same pass."""
    finish_seconds: float = 0.0
    """Seconds of the finisher."""
    finisher: bool = False
    """Whether this was the finisher."""
    deferred: bool = False
    """Whether the finisher was due but did not fit in memory, so that this round ran instead."""


@public
@dataclass(frozen=True)
class Event:
    """What a run is doing, as passed to the `progress` function."""

    stage: Literal[
        "generate",
        "compile",
        "load",
        "scan",
        "ingest",
        "rounds",
        "tasks",
        "round",
        "rest",
        "finisher",
        "verify",
        "score",
        "vectors",
        "pairs",
        "neighbours",
        "lists",
        "edges",
        "components",
        "done",
    ]
    """The stage that begins; for "round", the one that has just ended; for "tasks", the one in progress."""
    n_nodes: int = 0
    """The number of nodes of the graph, 0 until it is known."""
    merges: int = 0
    """The number of merges so far."""
    record: RoundRecord | None = None
    """The round that has just ended."""
    done: int = 0
    """The completed tasks of the current step, out of core; for "load", the rows read so far."""
    total: int = 0
    """The number of tasks of the current step."""
    seconds: float = 0.0
    """The duration of the round, out of core."""
    bytes: int = 0
    """The bytes that the round read and wrote, out of core."""
    wanted: int = 0
    """The memory with which the run would end now, if rounds go on only for lack of it; 0 otherwise."""


Listener = Callable[[Event], None]
