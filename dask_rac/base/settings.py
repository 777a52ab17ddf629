"""What a run computes: its parameters, and the columns of edges and merges."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from dask_rac.base.checks import check_word, checked_finite, checked_number
from dask_rac.base.errors import InputError
from dask_rac.base.parameters import PAIRS_METRIC, SETTINGS, Duplicates, Linkage, Missing, Weights
from dask_rac.base.text import quoted

PRECOMPUTED = PAIRS_METRIC.words[-1]
"""The metric of distances that are given, not computed from vectors."""

FAR = 2.0
"""How many times the largest weight of a graph an absent pair weighs by `missing="far"`.

Any number well above 1 gives about the same clusters (`docs/linkage.md`), and products with 2 are exact. Stores keep
only the word, so this must not change.
"""

EDGE_COLUMNS = ("source", "target", "weight")
MERGE_COLUMNS = ("left", "right", "height", "size", "round")
RATIO = "ratio"
"""A further column of merges where they need not be the nearest."""

MOST_EPSILON = 10.0
"""Beyond this a height says nothing."""


REFUSED_LINKAGES = {
    "centroid": "centroid linkage is not reducible: a merge can bring clusters closer, so merging all reciprocal "
    "pairs at once is not HAC; use 'average', or 'ward' for all pairs of vectors",
    "median": "median linkage is not reducible: a merge can bring clusters closer, so merging all reciprocal pairs "
    "at once is not HAC; use 'average', or 'weighted'",
}
"""Linkages of other libraries that no engine can have, and why."""

WARD_ALONG_EDGES = (
    "ward linkage along the edges of a graph is not reducible: a merge can bring clusters closer, so merging all "
    "reciprocal pairs at once is not HAC; for all pairs of vectors pass metric='euclidean' and no graph, and "
    "for a graph use 'average'"
)


@dataclass(frozen=True)
class Settings:
    """The parameters of a run that determine its result."""

    linkage: Linkage
    """How the weights between two clusters are combined."""
    missing: Missing
    """The weight of a pair of nodes without an edge."""
    weights: Weights
    """Whether small or large weights are close."""
    max_height: float
    """The largest height of a merge; for similarities, the smallest."""
    duplicates: Duplicates
    """What to do with an edge given with different weights."""
    finisher: bool
    """Whether the finisher takes over once rounds merge few clusters."""
    epsilon: float = 0.0
    """A merge may be this fraction away from the nearest there is; 0 for sequential HAC."""
    metric: str = ""
    """For all pairs, how vectors are compared, or that distances are given; empty for the edges of a graph."""
    far: float | None = None
    """What an absent pair weighs by `missing="far"`: None until the edges have been read, and in headers."""

    @property
    def absent(self) -> str | float:
        """What an absent pair weighs, or the word that says how it is treated; "far" until the edges have been read."""
        return self.missing if self.far is None else self.far

    @property
    def missing_text(self) -> str:
        """`missing` as people read it, with what "far" was found to weigh."""
        return str(self.missing) if self.far is None else f"{self.missing} ({self.far:.6g})"

    def resolved(self, largest: float) -> Settings:
        """The same once the largest weight is known, which is minus infinity without edges: then "far" is a number."""
        if self.missing != "far" or self.far is not None:
            return self
        return replace(self, far=FAR * largest if largest > 0 else 1.0)

    @property
    def sign(self) -> float:
        """1 for distances, -1 for similarities: weights are compared by `sign * weight`."""
        return -1.0 if self.weights == "similarity" else 1.0

    @property
    def input_name(self) -> str:
        """What people call the input: "edges", "vectors" or "distances"."""
        return "edges" if not self.metric else "distances" if self.metric == PRECOMPUTED else "vectors"


def certified(ratios: Iterable[float], settings: Settings) -> float:
    """Return the epsilon that a run has kept to: the largest ratio of a merge, less 1."""
    return min(max(ratios, default=1.0) - 1.0, settings.epsilon)  # (1 + 0.1) - 1 is more than 0.1 by rounding


def checked_settings(  # noqa: PLR0913 - a parameter per setting, and what the settings are for
    linkage: str,
    missing: str | float | None,
    weights: str,
    max_height: float | None = SETTINGS["max_height"].default,
    duplicates: str = SETTINGS["duplicates"].default,
    finisher: bool = SETTINGS["finisher"].default,
    *,
    epsilon: float = SETTINGS["epsilon"].default,
    metric: str = "",
) -> Settings:
    """Check each parameter of the user, and return the settings; with a metric, those of all pairs."""
    if isinstance(linkage, str) and linkage in REFUSED_LINKAGES:
        raise InputError(f"linkage={linkage!r}: {REFUSED_LINKAGES[linkage]}")
    for name, value in (("linkage", linkage), ("weights", weights), ("duplicates", duplicates)):
        check_word(name, value, SETTINGS[name].words)
    sign = -1.0 if weights == "similarity" else 1.0
    known = _of_all_pairs(linkage, missing, weights, metric) if metric else _of_edges(linkage, missing, weights)
    if not isinstance(finisher, bool | np.bool):
        raise InputError(f"finisher={quoted(finisher)} is neither True nor False")
    height = math.inf * sign if max_height is None else checked_number("max_height", max_height)
    if height < 0 and max_height is not None:
        raise InputError(f"max_height={quoted(max_height)} is below 0, where nothing merges: weights are 0 or more")
    factor = _checked_epsilon(epsilon, linkage, metric)
    return Settings(linkage, known, weights, height, duplicates, bool(finisher), factor, metric)  # type: ignore[arg-type]


def _checked_epsilon(epsilon: float, linkage: str, metric: str) -> float:
    """Return epsilon; raise unless it is in its range, and 0 where only the nearest pair may merge."""
    factor = checked_number("epsilon", epsilon)
    if not 0 <= factor <= MOST_EPSILON:
        raise InputError(f"epsilon={quoted(epsilon)} is out of range: use 0, for exact merges, to {MOST_EPSILON:g}")
    if factor and metric:
        raise InputError(
            f"epsilon={quoted(epsilon)} is for graphs, and all pairs are clustered exactly: leave epsilon out, or "
            "cluster a graph of neighbours with graph=dict(k=15)"
        )
    if factor and linkage == "weighted":
        raise InputError(
            f"epsilon={quoted(epsilon)} with linkage='weighted': its heights depend on the order of earlier merges, "
            "so that merges out of order have no bound; use 'average' or 'complete', or leave epsilon out"
        )
    return factor + 0.0


def _of_all_pairs(linkage: str, missing: str | float | None, weights: str, metric: str) -> Missing:
    """Return `missing` where every pair has a weight; raise unless the linkage suits the kind of weights."""
    if missing is not None:
        raise InputError(
            f"missing={quoted(missing)} says what a pair without an edge means, but among all pairs none is missing: "
            "leave it out"
        )
    if linkage == "ward" and weights != "distance":
        raise InputError(
            f"linkage='ward' adds up squares of distances, and weights={weights!r} are not distances: use 'average', "
            "or metric='euclidean'"
        )
    if linkage == "ward" and metric not in ("euclidean", PRECOMPUTED):
        raise InputError(
            f"linkage='ward' is defined by euclidean distances, and metric={quoted(metric)} gives others: use "
            "metric='euclidean'; for cosines, divide each vector by its length first"
        )
    return "ignore"


def _of_edges(linkage: str, missing: str | float | None, weights: str) -> Missing:
    """Return `missing` of a graph whose edges are given; raise unless the linkage is defined on such a graph."""
    if linkage == "ward":
        raise InputError(f"linkage='ward': {WARD_ALONG_EDGES}")
    if missing is None:
        missing = "ignore" if linkage == "single" and weights == "distance" else "far"
    if isinstance(missing, str) and missing == "far" and weights == "similarity":
        missing = 0.0
    if not isinstance(missing, str):
        return checked_finite("missing", missing, "for pairs that are infinitely far apart use missing='infinite'")
    check_word("missing", missing, SETTINGS["missing"].words, "or a number")
    if linkage == "weighted" and missing != "far":
        raise InputError(_unweighable(missing, weights))
    return missing  # type: ignore[return-value]


def _unweighable(missing: str, weights: str) -> str:
    """Say why weighted linkage needs a weight for absent pairs, and which."""
    why = (
        "heights would depend on the order of earlier merges: where only B and D have no edge, W(A + B, C + D) is "
        "AC/4 + BC/4 + AD/2 or AC/4 + AD/4 + BC/2"
        if missing == "ignore"
        else "the mean with an infinite weight is infinite, so that only clusters with an edge for every pair could "
        "merge; if you want that, use 'average' or 'complete'"
    )
    bound = "at least the largest weight" if weights == "distance" else "at most the smallest similarity, such as 0"
    return (
        f"linkage='weighted' with missing={missing!r}: {why}; leave missing= out, or give it a number, {bound}; or "
        "for vectors leave the graph out"
    )
