"""What a report tells of a run: numbers and words, before any of it is HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dask_rac.pictures import Picture
    from dask_rac.summary import Snapshot

Status = Literal["finished", "running", "stopped", "unfinished", "in memory"]
"""As in `Overview`, or "in memory" for a clustering without a store."""

FINISHED: tuple[Status, ...] = ("finished", "in memory")
"""When no merge is to come."""


@dataclass(frozen=True)
class Remark:
    """Something that a reader of the result should know."""

    name: str
    """One word, for links and tests."""
    title: str
    """What is the case, with its number."""
    meaning: str
    """What that does to the result."""
    remedy: str
    """What to do about it, if anything."""
    command: str = ""
    """The command that does it, to be copied."""
    urgent: bool = False
    """Whether the result is not what was asked for; else it is good to know."""


@dataclass(frozen=True)
class SuggestedCut:
    """A height at which the tree is stable."""

    height: float
    clusters: int
    """At that height, single nodes among them."""
    lifetime: float
    """How far one can go without a change: by difference or by ratio, as asked for."""


@dataclass(frozen=True)
class Table:
    """A table of texts."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ReportFacts:
    """All that a report shows; what users have named is as they named it, and escaped where HTML is made."""

    name: str
    """The store of the run, or what else it shall be called."""
    status: Status
    n_nodes: int | None
    """None until the edges have been read."""
    similarity: bool
    """Whether large heights are close."""
    parameters: Mapping[str, str]
    graph: Mapping[str, str]
    """What is known of the input."""
    result: Mapping[str, str]
    """What came out, or has so far."""
    run: str | None = None
    """The store, for commands that can be copied; None in memory."""
    pictures: Sequence[Picture] = ()
    """In the order in which they are shown; those named "heights" and "sizes" go to the choice of a cut."""
    snapshots: Sequence[Snapshot] = ()
    """A flat cut for each position of the slider, from the nearest height to the farthest."""
    cuts: Sequence[SuggestedCut] = ()
    """Best first; each height among those of the snapshots."""
    marks: Sequence[float] = ()
    """Heights that the user asked for, each once; each among those of the snapshots."""
    max_height: float = math.inf
    """No merge is beyond it; infinite if there is no such bound."""
    remarks: Sequence[Remark] = ()
    timings: Table | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the packages that made the run."""
    made: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When the page was made."""
    refresh: float | None = None
    """After how many seconds a browser shall read the page again; None if it is not written again."""
