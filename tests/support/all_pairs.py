"""Distances of all pairs, most of them tied, and runs of the matrix engine on them within limits of our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any
from unittest import mock

import dask
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from dask_rac.api.cluster import run_cluster
from dask_rac.base.settings import checked_settings
from dask_rac.engines.contract import Limits
from dask_rac.results.clustering import Clustering
from dask_rac.runs.options import PlanOptions, RunOptions
from dask_rac.tasks import team
from dask_rac.tasks.client import choose_scheduler
from dask_rac.vectors.pairs import triangle
from tests.reference import Merge, hac
from tests.support.results import merges_frame

LINKAGES = ("average", "complete", "single", "ward", "weighted")

PATHS = {
    "as users have it": Limits(),
    "alone, all rows": Limits(dense_share=-1.0, shrink_share=0.0),
    "alone, all rows, closed up": Limits(dense_share=-1.0, shrink_share=1.0),
    "alone, few rows": Limits(dense_share=2.0),
    "threads": Limits(alone=1),
    "threads, all rows": Limits(alone=1, dense_share=-1.0, shrink_share=0.0),
    "threads, all rows, closed up": Limits(alone=1, dense_share=-1.0, shrink_share=1.0),
    "threads, few rows": Limits(alone=1, dense_share=2.0),
    "threads, then alone": Limits(alone=6, dense_share=0.5),
}
"""The ways that rounds can take through a matrix."""


def pairs_within(  # noqa: PLR0913 - the parameters of `dask_rac.cluster`
    limits: Limits,
    given: Any,
    linkage: str,
    *,
    metric: str = "precomputed",
    weights: str = "distance",
    max_height: float | None = None,
    client: Any = None,
    store: str | PathLike[str] | None = None,
) -> Clustering:
    """What `dask_rac.cluster` would give."""
    settings = checked_settings(linkage, None, weights, max_height, metric=metric)
    options = PlanOptions(None, None, None, choose_scheduler(client), limits=limits)
    if store is not None:
        options = RunOptions(**vars(options), store=store)
    return run_cluster(given, None, settings, options, lambda _: None)[0]


@contextmanager
def in_threads(threads: int) -> Iterator[None]:
    """Cut even the smallest matrix into parts for so many threads."""
    small = mock.patch.object(team, "SPAN_ITEMS", 3), mock.patch.object(triangle, "SPAN_ITEMS", 3)
    with small[0], small[1], dask.config.set(num_workers=threads):
        yield


def edges_of(condensed: NDArray[Any]) -> tuple[int, list[tuple[int, int, float]]]:
    """The number of nodes, and every pair as an edge."""
    nodes = (1 + round((1 + 8 * len(condensed)) ** 0.5)) // 2
    source, target = np.triu_indices(nodes, 1)
    return nodes, list(zip(source.tolist(), target.tolist(), condensed.tolist(), strict=True))


def oracle(condensed: NDArray[Any], linkage: str, max_height: float | None = None) -> list[Merge]:
    """The merges of naive HAC."""
    nodes, edges = edges_of(condensed)
    return hac(nodes, edges, linkage, max_height=max_height)


def merge_rows(found: Clustering) -> list[tuple[int, int, int, float]]:
    """The merges by the clusters that they unite."""
    frame = merges_frame(found)[["left", "right", "size", "height"]]
    return sorted(frame.itertuples(index=False, name=None))


def grid_points(nodes: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Points with whole coordinates, some of them in one place."""
    return random.integers(0, 4, (nodes, random.integers(1, 4)))


def _halves(nodes: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return a few different values, which do not come from any points."""
    return random.integers(0, random.integers(1, 9), nodes * (nodes - 1) // 2) / 2


def _blocks(nodes: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return blocks of equal distances."""
    block = random.integers(0, 4, nodes)
    source, target = np.triu_indices(nodes, 1)
    return np.where(block[source] == block[target], 1.0, 4.0)


def _gaps(nodes: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return points whose gaps double, so that a round merges one pair; the order of nodes is any."""
    places: NDArray[np.float64] = pdist(random.permutation(2.0 ** np.arange(nodes))[:, None])
    return places


KINDS: dict[str, Callable[[int, np.random.Generator], NDArray[np.float64]]] = {
    "halves": _halves,
    "grid": lambda nodes, random: pdist(grid_points(nodes, random), "cityblock"),
    "all equal": lambda nodes, random: np.full(nodes * (nodes - 1) // 2, float(random.integers(0, 2))),
    "blocks": _blocks,
    "gaps": _gaps,
    "eighths": lambda nodes, random: random.integers(0, 500, nodes * (nodes - 1) // 2) / 8,
}


@st.composite
def condensed_distances(draw: st.DrawFn, most: int = 30) -> NDArray[np.float64]:
    """Distances that floats hold exactly, of two points or more."""
    kind, nodes = draw(st.sampled_from(sorted(KINDS))), draw(st.integers(2, most))
    return KINDS[kind](nodes, np.random.default_rng(draw(st.integers(0, 2**32 - 1))))
