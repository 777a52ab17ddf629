"""Choosing a cut: the positions of the slider, and what the page shows at each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_rac.show.report.facts import FINISHED, ReportFacts
from dask_rac.show.report.words import distinct_texts, quoted, share
from dask_rac.tree.summary import LargeCluster, Snapshot

if TYPE_CHECKING:
    from dask_rac.show.report.walk import WalkableTree


@dataclass(frozen=True)
class Row:
    """One of the largest clusters."""

    cells: tuple[str, ...]
    """Smallest node, size, share of all nodes, heights at which it forms and merges."""
    examples: tuple[str, ...] = ()
    """Its most central members."""
    branch: int = -1
    """The branch of the tree that contains it."""
    whole: bool = False
    """Whether all branches inside that one are inside the cluster."""


@dataclass(frozen=True)
class Position:
    """A position of the slider, as text."""

    exact: str
    """The height, to the last bit."""
    height: str
    clusters: str
    single: str
    count: int
    """The number of clusters."""
    largest: tuple[Row, ...]
    """One per cluster."""


@dataclass(frozen=True)
class Choice:
    """A cut that the page offers."""

    position: int
    height: str
    clusters: str
    lifetime: str
    """Empty for a cut that the user asked for and that is not among the suggested ones."""


@dataclass(frozen=True)
class Slider:
    """All positions, and where it starts."""

    positions: tuple[Position, ...]
    start: int
    choices: tuple[Choice, ...]
    lines: tuple[tuple[str, str], ...]
    """Code to copy: the parts before and after the height."""
    data: dict[str, Any]
    """For the script, with each cluster listed once."""

    @property
    def now(self) -> Position:
        """Where it starts."""
        return self.positions[self.start]


def slider_of(facts: ReportFacts) -> Slider | None:
    """Return the slider over the snapshots of a report; None if there are none."""
    if not facts.snapshots or not facts.n_nodes:
        return None
    texts = distinct_texts(snapshot.height for snapshot in facts.snapshots)
    positions = tuple(_position(snapshot, texts[snapshot.height], facts) for snapshot in facts.snapshots)
    choices = tuple(_choices(facts, positions))
    start = choices[0].position if choices else len(positions) - 1
    lines = tuple(_lines(facts))
    data = {**_table(positions), "nodes": facts.n_nodes, "sizes": [_sizes(snapshot) for snapshot in facts.snapshots]}
    return Slider(positions, start, choices, lines, data)


def _position(snapshot: Snapshot, height: str, facts: ReportFacts) -> Position:
    nodes, unmerged = facts.n_nodes or 0, _unmerged(facts)
    return Position(
        repr(snapshot.height),
        height,
        f"{snapshot.clusters:,}",
        f"{snapshot.single:,}",
        snapshot.clusters,
        tuple(_row(cluster, nodes, unmerged, facts.tree) for cluster in snapshot.largest),
    )


def _unmerged(facts: ReportFacts) -> str:
    """Return what to show as the end of a cluster that has not merged."""
    if facts.status not in FINISHED:
        return "not yet"
    if math.isfinite(facts.max_height):
        return f"not {'down' if facts.similarity else 'up'} to {facts.max_height:.6g}"
    return "never"


def _row(cluster: LargeCluster, nodes: int, unmerged: str, tree: WalkableTree | None) -> Row:
    """Return a cluster as text."""
    texts = distinct_texts(height for height in (cluster.height, cluster.end) if height is not None)
    end = unmerged if cluster.end is None else texts[cluster.end]
    cells = str(cluster.node), f"{cluster.size:,}", share(cluster.size, nodes), texts[cluster.height], end
    shown = tree.clusters.get(cluster.index) if tree else None
    return Row(cells, shown.examples, shown.branch, shown.whole) if shown else Row(cells)


def _lifetime(lifetime: float) -> str:
    """Return a lifetime as text; the trees of a forest never merge."""
    return f"{lifetime:.4g}" if math.isfinite(lifetime) else "no end"


def _choices(facts: ReportFacts, positions: tuple[Position, ...]) -> list[Choice]:
    """Return the cuts that the user asked for, then the suggested ones, each once."""
    places = {snapshot.height: place for place, snapshot in enumerate(facts.snapshots)}
    wanted = dict.fromkeys(facts.marks, "") | {cut.height: _lifetime(cut.lifetime) for cut in facts.cuts}
    return [
        Choice(places[height], positions[places[height]].height, positions[places[height]].clusters, lifetime)
        for height, lifetime in wanted.items()
        if height in places
    ]


def _lines(facts: ReportFacts) -> list[tuple[str, str]]:
    """Return code that gets the labels of a cut."""
    if facts.run is None:
        return [("clustering.cut(height=", ")")]
    return [
        (f"dask-rac cut {quoted(facts.run)} --height ", " -o labels.parquet"),
        (f"dask_rac.open({facts.run!r}).cut(height=", ")"),
    ]


def _table(positions: tuple[Position, ...]) -> dict[str, Any]:
    """Return the distinct rows of all positions, and which of them each position shows."""
    rows: dict[Row, int] = {}
    for position in positions:
        for row in position.largest:
            rows.setdefault(row, len(rows))
    return {
        "rows": [[row.cells, row.examples, row.branch, row.whole] for row in rows],
        "positions": [
            [at.exact, at.height, at.clusters, at.single, [rows[row] for row in at.largest], at.count]
            for at in positions
        ],
    }


def _sizes(snapshot: Snapshot) -> dict[str, list[Any]]:
    """Return the data of the histogram of sizes; JSON has no NaN."""
    from dask_rac.show.pictures import sizes_columns  # noqa: PLC0415 - Bokeh is an extra

    columns = sizes_columns(snapshot.sizes)
    return {**columns, "top": [count or None for count in columns["clusters"]]}
