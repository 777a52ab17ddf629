"""The choice of a cut: positions of the slider, and what the page shows at each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dask_rac.report.facts import FINISHED, ReportFacts
from dask_rac.report.words import apart, quoted, share
from dask_rac.summary import LargeCluster, Snapshot


@dataclass(frozen=True)
class Position:
    """A position of the slider, in words."""

    exact: str
    """The height, to the last bit."""
    height: str
    clusters: str
    single: str
    largest: tuple[tuple[str, ...], ...]
    """A row a cluster: smallest node, size, share of all nodes, the heights it is made and merges at."""


@dataclass(frozen=True)
class Choice:
    """A cut that the page offers."""

    position: int
    height: str
    clusters: str
    lifetime: str
    """Empty for a cut that was asked for and is not among those suggested."""


@dataclass(frozen=True)
class Slider:
    """All positions, and where it starts."""

    positions: tuple[Position, ...]
    start: int
    choices: tuple[Choice, ...]
    lines: tuple[tuple[str, str], ...]
    """What can be copied: before and after the height."""
    data: dict[str, Any]
    """For the script, each cluster once."""

    @property
    def now(self) -> Position:
        """Where it starts."""
        return self.positions[self.start]


def slider_of(facts: ReportFacts) -> Slider | None:
    """The slider over the snapshots of a report; None if there are none."""
    if not facts.snapshots or not facts.n_nodes:
        return None
    texts = apart(snapshot.height for snapshot in facts.snapshots)
    positions = tuple(_position(snapshot, texts[snapshot.height], facts) for snapshot in facts.snapshots)
    choices = tuple(_choices(facts, positions))
    start = choices[0].position if choices else len(positions) - 1
    lines = tuple(_lines(facts))
    data = {**_table(positions), "sizes": [_sizes(one) for one in facts.snapshots]}
    return Slider(positions, start, choices, lines, data)


def _position(snapshot: Snapshot, height: str, facts: ReportFacts) -> Position:
    nodes, unmerged = facts.n_nodes or 0, _unmerged(facts)
    return Position(
        repr(snapshot.height),
        height,
        f"{snapshot.clusters:,}",
        f"{snapshot.single:,}",
        tuple(_row(cluster, nodes, unmerged) for cluster in snapshot.largest),
    )


def _unmerged(facts: ReportFacts) -> str:
    """When a cluster merges that has not."""
    if facts.status not in FINISHED:
        return "not yet"
    if math.isfinite(facts.max_height):
        return f"not {'down' if facts.similarity else 'up'} to {facts.max_height:.6g}"
    return "never"


def _row(cluster: LargeCluster, nodes: int, unmerged: str) -> tuple[str, ...]:
    """A cluster in words."""
    texts = apart(height for height in (cluster.height, cluster.end) if height is not None)
    end = unmerged if cluster.end is None else texts[cluster.end]
    return str(cluster.node), f"{cluster.size:,}", share(cluster.size, nodes), texts[cluster.height], end


def _choices(facts: ReportFacts, positions: tuple[Position, ...]) -> list[Choice]:
    """Cuts that the user asked for, then those suggested, each once."""
    places = {snapshot.height: place for place, snapshot in enumerate(facts.snapshots)}
    wanted = dict.fromkeys(facts.marks, "") | {cut.height: f"{cut.lifetime:.4g}" for cut in facts.cuts}
    return [
        Choice(places[height], positions[places[height]].height, positions[places[height]].clusters, lifetime)
        for height, lifetime in wanted.items()
        if height in places
    ]


def _lines(facts: ReportFacts) -> list[tuple[str, str]]:
    """How to get the labels of a cut."""
    if facts.run is None:
        return [("clustering.cut(height=", ")")]
    return [
        (f"dask-rac cut {quoted(facts.run)} --height ", " -o labels.parquet"),
        (f"dask_rac.open({facts.run!r}).cut(height=", ")"),
    ]


def _table(positions: tuple[Position, ...]) -> dict[str, Any]:
    """Rows of all positions, each once, and which each position shows."""
    rows: dict[tuple[str, ...], int] = {}
    for position in positions:
        for row in position.largest:
            rows.setdefault(row, len(rows))
    return {
        "rows": list(rows),
        "positions": [
            [one.exact, one.height, one.clusters, one.single, [rows[row] for row in one.largest]] for one in positions
        ],
    }


def _sizes(snapshot: Snapshot) -> dict[str, list[Any]]:
    """What the histogram of sizes is drawn from; JSON has no NaN."""
    from dask_rac.pictures import sizes_columns  # noqa: PLC0415 - Bokeh is an extra

    columns = sizes_columns(snapshot.sizes)
    return {**columns, "top": [count or None for count in columns["clusters"]]}
