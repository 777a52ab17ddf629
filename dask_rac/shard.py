"""One shard's steps: arrays in, kernel, arrays out. In memory the whole graph is one shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dask_rac.config import Settings
from dask_rac.kernels import rule as rules
from dask_rac.kernels.arrays import Clusters, Ids, Merges, Pairs, Rows, Rule
from dask_rac.kernels.fold import find_nearest, fold
from dask_rac.kernels.forest import champions, list_champions, tree_hashes
from dask_rac.kernels.match import count_pairs, match

Span: TypeAlias = tuple[int, ...]

SPAN_ITEMS = 25_000  # with fewer, starting a thread costs more than it saves
SPANS_A_THREAD = 4  # so that a thread that is done early takes over from one that is not


class Tree(NamedTuple):
    """Edges of a spanning forest."""

    source: Ids
    target: Ids
    weight: NDArray[np.float64]


class Candidates(NamedTuple):
    """Edges that components would take."""

    component: Ids
    source: Ids
    target: Ids
    weight: NDArray[np.float64]


@dataclass(frozen=True)
class Shard:
    """Rows and their clusters."""

    rows: Rows
    clusters: Clusters

    @property
    def entries(self) -> int:
        """Entries of all rows: every edge between two rows of the shard counts twice."""
        return int((self.rows.stop - self.rows.start).sum())


@dataclass(frozen=True)
class Match:
    """What the matching of a shard found."""

    pairs: Pairs
    clusters: Clusters
    """The clusters after the round; their nearest comes with the fold."""
    merges: int
    """Merges found."""
    updates: int
    """Clusters that did not merge but whose nearest did."""


class Team:
    """Threads that run one kernel on several ranges of rows at once."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def spans(self, offset: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Ranges of rows with about as many entries each; `offset` counts the entries before each row."""
        cuts = np.searchsorted(offset[:-1], self._even_cuts(int(offset[-1])))
        return list(pairwise([0, *cuts.tolist(), len(offset) - 1]))

    def even_spans(self, items: int) -> list[tuple[int, int]]:
        """Ranges of as many items each."""
        return list(pairwise([0, *self._even_cuts(items), items]))

    def _even_cuts(self, items: int) -> list[int]:
        """Where to cut so many items into parts worth a thread."""
        parts = 1 if self.threads == 1 else max(1, min(items // SPAN_ITEMS, self.threads * SPANS_A_THREAD))
        return [items * part // parts for part in range(1, parts)]

    def run(self, kernel: Callable[..., Any], spans: Sequence[Span], *arguments: Any) -> list[Any]:
        """`kernel(*arguments, span)` for each span, the results in the order of the spans."""
        if self._pool is None or len(spans) == 1:
            return [kernel(*arguments, span) for span in spans]
        return list(self._pool.map(lambda span: kernel(*arguments, span), spans))


@dataclass
class Space:
    """Arrays that rounds write to, two sets in turn: fresh memory costs more than the work done in it."""

    first: Rows
    """The rows before the first round."""
    spare: tuple[str, ...]
    """Those of their arrays that may be written over once the first round has read them."""
    counted: bool
    """Whether the rule needs counts."""
    _arrays: dict[tuple[str, int], NDArray[Any]] = field(default_factory=dict)
    _turn: int = 0

    def __post_init__(self) -> None:
        self._arrays |= {(name, 0): getattr(self.first, name) for name in self.spare}

    def turn(self) -> None:
        """Begin a round: what the round before last wrote is written over."""
        self._turn = 1 - self._turn

    def clusters(self, length: int) -> Clusters:
        """Room for clusters."""
        ids = self.first.neighbour.dtype
        return Clusters(
            self._array("ids", length, ids),
            self._array("size", length, ids),
            self._array("nearest", length, ids),
            self._array("height", length, np.float64),
        )

    def rows(self, length: int, entries: int) -> Rows:
        """Room for rows."""
        return Rows(
            self._array("start", length, np.int64),
            self._array("stop", length, np.int64),
            self._array("neighbour", entries, self.first.neighbour.dtype),
            self._array("weight", entries, np.float64),
            self._array("edges", entries if self.counted else 0, self.first.edges.dtype),
            self._array("tie", entries, np.uint16),
        )

    def pairs(self, before: int, after: int) -> Pairs:
        """Room for the pairs that turn so many clusters into so many, which no later round reads."""
        ids = self.first.neighbour.dtype
        return Pairs(
            self._array("first", after, ids, 0),
            self._array("second", after, ids, 0),
            self._array("offset", after + 1, np.int64, 0),
            self._array("fate", 2 * before, ids, 0),
        )

    def _array(self, name: str, length: int, dtype: Any, turn: int | None = None) -> NDArray[Any]:
        """An array that holds anything."""
        key = name, self._turn if turn is None else turn
        if key not in self._arrays or len(self._arrays[key]) < length:
            self._arrays[key] = np.empty(length, dtype)
        return self._arrays[key][:length]


def rule_of(settings: Settings) -> Rule:
    """The kernels' rule for a run's settings."""
    mean, missing = settings.linkage == "average", settings.missing
    if missing == "ignore":
        code = rules.MEAN_PRESENT if mean else rules.MAX_PRESENT
    elif missing == "infinite":
        code = rules.MEAN_FULL if mean else rules.MAX_FULL
    elif mean and missing == 0:
        code = rules.MEAN_ALL
    else:
        code = rules.MEAN_FILLED if mean else rules.MAX_FILLED
    fill = 0.0 if isinstance(missing, str) else settings.sign * missing
    return Rule(code, fill, settings.sign * settings.max_height, settings.sign)


def needs_counts(rule: Rule) -> bool:
    """Whether W depends on how many edges are folded into one."""
    return rule.code not in (rules.MEAN_ALL, rules.MAX_PRESENT)


def first_shard(space: Space, rule: Rule, team: Team) -> Shard:
    """Every node a cluster, with its nearest."""
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
    after, found, updates = counts.sum(axis=0).tolist()
    places = (np.cumsum(counts, axis=0) - counts)[:, :2].tolist()
    pairs, merged = space.pairs(n, after), space.clusters(after)
    starts = [(*span, *place) for span, place in zip(spans, places, strict=True)]
    team.run(match, starts, clusters, shard.rows, pairs, merged, merges)
    pairs.offset[0] = 0
    np.cumsum(pairs.offset, out=pairs.offset)
    return Match(pairs, merged, found, updates)


def fold_shard(shard: Shard, found: Match, rule: Rule, space: Space, team: Team) -> Shard:
    """Fold the rows of each pair into one."""
    offset = found.pairs.offset
    rows = space.rows(len(offset) - 1, int(offset[-1]))
    spans = [(lo, hi, int(offset[lo]), 0) for lo, hi in team.spans(offset)]
    team.run(fold, spans, shard.rows, found.pairs, found.clusters, rule, rows)
    return Shard(rows, found.clusters)


def offsets(rows: Rows) -> NDArray[np.int64]:
    """The entries before each row, and all of them."""
    return np.concatenate((rows.start, rows.stop[-1:] if len(rows.stop) else [0]))


def starts_of(length: NDArray[np.signedinteger]) -> NDArray[np.int64]:
    """Where each row begins, and where the last one ends."""
    starts = np.zeros(len(length) + 1, np.int64)
    np.cumsum(length, out=starts[1:])
    return starts


def list_candidates(rows: Rows, label: Ids, count: int, best: NDArray[np.int64], base: int) -> tuple[int, Candidates]:
    """The lightest edge that rows have for each component, of which there are `count`; row `i` is node `base + i`."""
    champion = np.empty(count, np.int64)
    found = champions(rows, label, best, champion, base)
    ids = label.dtype
    candidates = Candidates(np.empty(found, ids), np.empty(found, ids), np.empty(found, ids), np.empty(found))
    list_champions(rows, best, champion, base, candidates)
    return found, candidates


def no_edges(count: int, ids: np.dtype[Any]) -> Tree:
    """What so many components hold before any edge challenges it."""
    return Tree(np.full(count, -1, ids), np.empty(count, ids), np.empty(count))


def tree_order(tree: Tree) -> NDArray[np.intp]:
    """The edges of a forest from the lightest to the heaviest."""
    order = np.argsort(tree.weight)
    ordered = tree.weight[order]
    if (ordered[1:] == ordered[:-1]).any():
        hashes = np.empty(len(order), np.uint64)
        tree_hashes(tree.source, tree.target, hashes)
        order = np.lexsort((hashes, tree.weight))
    return order
