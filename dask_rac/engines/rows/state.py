"""The state of a run in memory: one shard, which is the whole graph, and the space in which rounds change it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.arrays import Clusters, Merges, Pairs, Rows, Rule
from dask_rac.kernels.rows.fold import find_nearest, fold
from dask_rac.kernels.rows.match import count_pairs, match
from dask_rac.tasks.team import Team


@dataclass(frozen=True)
class Shard:
    """Rows and their clusters."""

    rows: Rows
    clusters: Clusters

    @property
    def entries(self) -> int:
        """Number of entries in all rows; an edge between two rows of the shard counts twice."""
        return int((self.rows.stop - self.rows.start).sum())


@dataclass(frozen=True)
class Match:
    """What the matching of a shard found."""

    pairs: Pairs
    clusters: Clusters
    """The clusters after the round; the fold fills in their nearest."""
    merges: int
    """Number of merges."""
    updates: int
    """Number of clusters that did not merge but whose nearest did."""


@dataclass
class Space:
    """Two sets of arrays that rounds write to in turn, because fresh memory costs more than the work done in it."""

    first: Rows
    """The rows before the first round."""
    spare: tuple[str, ...]
    """The arrays among them that may be overwritten once the first round has read them."""
    counted: bool
    """Whether the rule needs counts."""
    _arrays: dict[tuple[str, int], NDArray[Any]] = field(default_factory=dict)
    _turn: int = 0

    def __post_init__(self) -> None:
        self._arrays |= {(name, 0): getattr(self.first, name) for name in self.spare}

    def release(self) -> None:
        """Give up all arrays but those of the current rows, which no other round will change."""
        self.first = Rows._make(np.empty(0, array.dtype) for array in self.first)
        self._arrays.clear()

    def turn(self) -> None:
        """Begin a round, which overwrites what the round before last wrote."""
        self._turn = 1 - self._turn

    def clusters(self, length: int) -> Clusters:
        """Return room for clusters."""
        ids = self.first.neighbour.dtype
        return Clusters(
            self._array("ids", length, ids),
            self._array("size", length, ids),
            self._array("nearest", length, ids),
            self._array("height", length, np.float64),
        )

    def rows(self, length: int, entries: int) -> Rows:
        """Return room for rows."""
        return Rows(
            self._array("start", length, np.int64),
            self._array("stop", length, np.int64),
            self._array("neighbour", entries, self.first.neighbour.dtype),
            self._array("weight", entries, np.float64),
            self._array("edges", entries if self.counted else 0, self.first.edges.dtype),
            self._array("tie", entries, np.uint16),
        )

    def pairs(self, before: int, after: int) -> Pairs:
        """Return room for the pairs that turn `before` clusters into `after`; no later round reads them."""
        ids = self.first.neighbour.dtype
        return Pairs(
            self._array("first", after, ids, 0),
            self._array("second", after, ids, 0),
            self._array("offset", after + 1, np.int64, 0),
            self._array("fate", 2 * before, ids, 0),
        )

    def _array(self, name: str, length: int, dtype: Any, turn: int | None = None) -> NDArray[Any]:
        """Return an array with arbitrary contents."""
        key = name, self._turn if turn is None else turn
        if key not in self._arrays or len(self._arrays[key]) < length:
            self._arrays[key] = np.empty(length, dtype)
        return self._arrays[key][:length]


def first_shard(space: Space, rule: Rule, team: Team) -> Shard:
    """Return the first shard, in which every node is a cluster, and find the nearest of each."""
    rows = space.first
    n = len(rows.start)
    clusters = space.clusters(n)
    clusters.ids[:], clusters.size[:] = np.arange(n), 1
    spans = [(lo, hi, 0) for lo, hi in team.spans(offsets(rows))]
    team.run(find_nearest, spans, rows, clusters, rule)
    return Shard(rows, clusters)


def match_shard(shard: Shard, space: Space, merges: Merges, team: Team) -> Match:
    """Find the reciprocal pairs and write the merges."""
    clusters = shard.clusters
    n = len(clusters.ids)
    spans = team.even_spans(n)
    counts = np.array(team.run(count_pairs, spans, clusters.nearest)).reshape(-1, 3)
    after, count, updates = counts.sum(axis=0).tolist()
    places = (np.cumsum(counts, axis=0) - counts)[:, :2].tolist()
    pairs, merged = space.pairs(n, after), space.clusters(after)
    starts = [(*span, *place) for span, place in zip(spans, places, strict=True)]
    team.run(match, starts, clusters, shard.rows, pairs, merged, merges)
    pairs.offset[0] = 0
    np.cumsum(pairs.offset, out=pairs.offset)
    return Match(pairs, merged, count, updates)


def fold_shard(shard: Shard, matched: Match, rule: Rule, space: Space, team: Team) -> Shard:
    """Fold the rows of each pair into one."""
    offset = matched.pairs.offset
    rows = space.rows(len(offset) - 1, int(offset[-1]))
    spans = [(lo, hi, int(offset[lo]), 0) for lo, hi in team.spans(offset)]
    team.run(fold, spans, shard.rows, matched.pairs, matched.clusters, rule, rows)
    return Shard(rows, matched.clusters)


def offsets(rows: Rows) -> NDArray[np.int64]:
    """Return the number of entries before each row, then the total."""
    return np.concatenate((rows.start, rows.stop[-1:] if len(rows.stop) else [0]))
