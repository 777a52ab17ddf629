"""What a report shows of a run: numbers and words, before any of it is HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dask_rac.show.pictures import Picture
    from dask_rac.show.report.walk import WalkableTree
    from dask_rac.tree.summary import Snapshot

Status = Literal["finished", "running", "stopped", "unfinished", "in memory"]
"""As in `Overview`, or "in memory" for a clustering without a store."""

FINISHED: tuple[Status, ...] = ("finished", "in memory")
"""States in which no more merges will come."""


@dataclass(frozen=True)
class Remark:
    """Something that a reader of the result should know."""

    name: str
    """One word, for links and tests."""
    title: str
    """The observation, with its number."""
    meaning: str
    """What it means for the result."""
    remedy: str
    """What to do about it, if anything."""
    command: str = ""
    """The command to copy, if one helps."""
    urgent: bool = False
    """Whether the result differs from what was asked for; otherwise the remark is only informative."""


@dataclass(frozen=True)
class SuggestedCut:
    """A height at which the tree is stable."""

    height: float
    clusters: int
    """The number of clusters at that height, including single nodes."""
    lifetime: float
    """How far the height can move without changing a large cluster, as a difference or a ratio; infinite for trees."""
    clear: bool = True
    """Whether the cut stands out."""


@dataclass(frozen=True)
class Table:
    """A table of texts."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ReportFacts:
    """Everything a report shows; names given by users are kept as they are, and escaped when the HTML is made."""

    name: str
    """The store of the run, or another name for it."""
    status: Status
    n_nodes: int | None
    """None until the edges have been read."""
    similarity: bool
    """Whether heights are similarities: the larger, the closer."""
    parameters: Mapping[str, str]
    graph: Mapping[str, str]
    """What is known of the input."""
    result: Mapping[str, str]
    """The result, or the result so far."""
    run: str | None = None
    """The store, for commands to copy; None in memory."""
    pictures: Sequence[Picture] = ()
    """In the order in which they are shown; "heights" and "sizes" go to the section on choosing a cut."""
    snapshots: Sequence[Snapshot] = ()
    """A flat cut for each position of the slider, from the nearest height to the farthest."""
    cuts: Sequence[SuggestedCut] = ()
    """Best first; each height is that of a snapshot."""
    marks: Sequence[float] = ()
    """Heights that the user asked for, each once; each is that of a snapshot."""
    max_height: float = math.inf
    """No merge lies beyond it; infinite if there is no limit."""
    remarks: Sequence[Remark] = ()
    timings: Table | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of the packages that computed the run."""
    made: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When the page was created."""
    title: str | None = None
    """The title that the user gave; by default the name."""
    tree: WalkableTree | None = None
    """The tree to walk; None without merges."""
    refresh: float | None = None
    """Seconds after which a browser reloads the page; None if the page is final."""
