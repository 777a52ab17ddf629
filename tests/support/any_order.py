"""Merges that need not be the nearest, and what the oracle says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

import dask_rac
from dask_rac.base.settings import checked_settings
from dask_rac.engines.contract import MergeList
from dask_rac.kernels.arrays import Merges
from tests.reference import AnyOrder, Judgement, Pair
from tests.support.strategies import Graph

CLOSE = Fraction(1, 2**40)
"""Relative error of heights and ratios in floating point, far below what differs in graphs of few nodes."""


@dataclass(frozen=True)
class Question:
    """A graph, and how it is clustered."""

    graph: Graph
    linkage: str = "average"
    missing: str | float = "ignore"
    weights: str = "distance"
    max_height: float | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `cluster`."""
        return {name: value for name, value in vars(self).items() if name != "graph"}

    def clusters(self) -> AnyOrder:
        """The nodes as clusters of the oracle."""
        return AnyOrder(self.graph.n_nodes, self.graph.edges, *self.options.values())


@dataclass(frozen=True)
class Answer:
    """Merges with their heights and ratios, in an order."""

    pairs: Sequence[Pair]
    judged: Sequence[Judgement]


def wander(question: Question, choose: Callable[[list[Pair]], Pair], epsilon: float) -> Answer:
    """Merge any pairs that are good, whichever are chosen, until none is left."""
    clusters, pairs, judged = question.clusters(), [], []
    while clusters.keys:
        pair = choose([pair for pair in sorted(clusters.keys) if clusters.judged(*pair).ratio <= 1 + Fraction(epsilon)])
        pairs.append(pair)
        judged.append(clusters.join(*pair))
    return Answer(pairs, judged)


def clustering_of(question: Question, answer: Answer, epsilon: float) -> dask_rac.Clustering:
    """A clustering of these merges, with ratios that are rounded up."""
    count, sizes = len(answer.pairs), dict.fromkeys(range(question.graph.n_nodes), 1)
    merges = Merges(*(np.empty(count, kind) for kind in (np.int64, np.int64, float, np.int64)))
    ratio = np.empty(count)
    for i, ((lo, hi), judgement) in enumerate(zip(answer.pairs, answer.judged, strict=True)):
        sizes[lo] += sizes.get(hi, 1)
        for column, value in zip(merges, (lo, hi, float(judgement.height), sizes[lo]), strict=True):
            column[i] = value
        ratio[i] = 1.0 if judgement.ratio == 1 else min(float(judgement.ratio) * (1 + 2.0**-45), 1 + epsilon)
    settings = checked_settings(*question.options.values(), epsilon=epsilon)
    largest = max((weight for _, _, weight in question.graph.edges), default=-np.inf)
    found = MergeList(question.graph.n_nodes, merges, np.ones(count, np.int32), (), largest=largest, ratio=ratio)
    return dask_rac.Clustering(found, settings)


def faults_of(merges: pd.DataFrame, question: Question, epsilon: float) -> list[str]:
    """What the oracle has against merges: a pair that cannot merge, a height, a ratio, or that some are left."""
    clusters, faults = question.clusters(), list[str]()
    for lo, hi, height, ratio in merges[["left", "right", "height", "ratio"]].itertuples(index=False):
        if (lo, hi) not in clusters.keys:
            return [*faults, f"{lo} and {hi} cannot merge"]
        true = clusters.join(lo, hi)
        if abs(Fraction(height) - true.height) > CLOSE * abs(true.height):
            faults.append(f"{lo} and {hi} merge at {float(true.height)}, not at {height}")
        if not true.ratio * (1 - CLOSE) <= ratio <= 1 + epsilon or ratio < 1:
            faults.append(f"{lo} and {hi} are within {float(true.ratio)}, not {ratio}")
    return faults if not clusters.keys else [*faults, f"{len(clusters.keys)} pairs are left"]
