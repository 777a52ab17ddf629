"""The decay of a graph: which share of its clusters and entries is left before each round, from a run on a sample.

Shares hardly depend on the size of a graph of the same kind. A larger graph has more rounds, in which a smaller share
of its clusters is left than the sample ever had; they go on at the pace of the last rounds in which the sample was
large enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dask_rac.base.events import RoundRecord

FEWEST = 500  # clusters of a sample, below which chance decides
LAST = 8  # rounds whose pace goes on
MOST_ROUNDS = 10_000


@dataclass(frozen=True)
class Level:
    """A graph before a round."""

    clusters: float
    entries: float
    """Two for each edge."""
    merges: float
    """Of the round."""


@dataclass(frozen=True)
class Decay:
    """How a kind of graph shrinks, and how its rows are spread over shards."""

    levels: tuple[Level, ...]
    """Before each round, as shares: of the nodes, of the entries, and the merges of the nodes."""
    scatter: float = 1.0
    """Rows that move, of those that would if every cluster joined one in a shard chosen at random."""
    spread: float = 1.0
    """Entries that are read to find the rows that move, of all."""

    @classmethod
    def of(cls, records: Sequence[RoundRecord], nodes: int, edges: int) -> Decay:
        """From the rounds of a run on a graph of this size."""
        counted = [record for record in records if not record.finisher]
        large = [record for record in counted if record.clusters >= FEWEST and record.edges] or counted[:1]
        return cls(
            tuple(
                Level(record.clusters / max(1, nodes), record.edges / max(1, edges), record.merges / max(1, nodes))
                for record in large
            )
        )

    def rounds(self, nodes: int, edges: int) -> Iterator[Level]:
        """Yield the graph before each round, until hardly anything is left."""
        entries = 2 * edges
        if not self.levels or not edges:
            return
        for share in self.levels:
            yield Level(share.clusters * nodes, share.entries * entries, share.merges * nodes)
        level = Level(*_scaled(self.levels[-1], nodes, entries))
        pace, thinning = self._pace()
        for _ in range(MOST_ROUNDS - len(self.levels)):
            clusters = min(level.clusters * pace, level.clusters - level.merges)
            merges = min(level.merges * pace, clusters * (1 - pace))
            level = Level(clusters, level.entries * thinning, merges)
            if level.clusters < 2 or level.entries < 2:
                return
            yield level

    def placed(self, scatter: float, spread: float) -> Decay:
        """The same with other rows that move."""
        return replace(self, scatter=scatter, spread=spread)

    def _pace(self) -> tuple[float, float]:
        """Return the share of clusters, and of entries, that each of the last rounds has left."""
        last = self.levels[-LAST - 1 :]
        if len(last) < 2:
            left = 1 - last[-1].merges / last[-1].clusters
            return min(left, 0.99), min(left, 0.99)
        steps = len(last) - 1
        clusters, entries = last[-1].clusters / last[0].clusters, last[-1].entries / last[0].entries
        return clusters ** (1 / steps), entries ** (1 / steps)


def _scaled(share: Level, nodes: int, entries: int) -> tuple[float, float, float]:
    """Return what shares are of a graph."""
    return share.clusters * nodes, share.entries * entries, share.merges * nodes
