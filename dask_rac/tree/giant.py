"""Cuts in which one cluster holds nearly all nodes: which these are, and what would give others."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.settings import PRECOMPUTED, Settings
from dask_rac.base.stack import outer_level

GIANT = 0.9
"""A cluster with more than this share of all nodes is a giant: a cut with such a cluster hardly says anything."""

FEWEST = 100
"""With fewer nodes than this, one can look at every cluster, and a few outliers are what one may want to see."""


def is_giant(size: int, n_nodes: int, clusters: int) -> bool:
    """Whether a cluster holds nearly all nodes of a cut into several clusters."""
    return clusters > 1 and n_nodes >= FEWEST and size > GIANT * n_nodes


def warn_of_giants(cuts: Iterable[NDArray[np.int64]], settings: Settings) -> Iterator[NDArray[np.int64]]:
    """Yield the labels of cuts as they come, and warn once if a cluster of one of them is a giant.

    Negative labels are of nodes in no cluster.
    """
    warned = False
    for labels in cuts:
        if not warned and (text := _giant_text(labels, settings)):
            warnings.warn(text, stacklevel=outer_level())
            warned = True
        yield labels


def _giant_text(labels: NDArray[np.int64], settings: Settings) -> str:
    """Say how large the giant of a cut is, and what to do; empty if there is none."""
    n_nodes, clusters = len(labels), int(labels.max(initial=-1)) + 1
    if clusters > (1 - GIANT) * n_nodes + 1:  # too many for a giant; do not count them all
        return ""
    size = int(np.bincount(labels[labels >= 0] if labels.min(initial=0) < 0 else labels).max(initial=0))
    if not is_giant(size, n_nodes, clusters):
        return ""
    share = math.floor(1000 * size / n_nodes) / 10
    others = "the other cluster has" if clusters == 2 else f"the other {clusters - 1:,} clusters share"
    ways = (
        chains_less(settings),
        "suggest_cuts() finds cuts with several large clusters, and min_size= leaves out small ones",
    )
    return (
        f"one cluster holds {share:g}% of the {n_nodes:,} nodes, and {others} the rest: {'; '.join(filter(None, ways))}"
    )


def chains_less(settings: Settings) -> str:
    """Return which setting would give clusters of more similar sizes; empty if none is known to."""
    if not settings.metric and settings.linkage != "single":
        return "missing='far', the default, chains less than 'ignore'" if settings.missing == "ignore" else ""
    others = [linkage for linkage in _less_chained(settings) if linkage != "ward" or _has_ward(settings)]
    return f"linkage={' or '.join(map(repr, others))} often chains less than {settings.linkage!r}" if others else ""


def _less_chained(settings: Settings) -> tuple[str, ...]:
    """Return linkages by which clusters are more similar in size; complete only for all pairs (docs/linkage.md)."""
    if settings.linkage == "single":
        return ("average", "complete", "ward") if settings.metric else ("average",)
    return {"average": ("complete", "ward"), "weighted": ("complete", "ward"), "complete": ("ward",)}.get(
        settings.linkage, ()
    )


def _has_ward(settings: Settings) -> bool:
    """Whether ward linkage is defined for these pairs."""
    return settings.metric in ("euclidean", PRECOMPUTED) and settings.weights == "distance"
