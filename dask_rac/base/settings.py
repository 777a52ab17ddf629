"""What a run computes: its parameters, and the columns of edges and merges."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dask_rac.base.checks import check_word, checked_finite, checked_number
from dask_rac.base.errors import InputError
from dask_rac.base.parameters import SETTINGS, Duplicates, Linkage, Missing, Weights
from dask_rac.base.text import quoted

EDGE_COLUMNS = ("source", "target", "weight")
MERGE_COLUMNS = ("left", "right", "height", "size", "round")


REFUSED_LINKAGES = {
    "centroid": "centroid linkage is not reducible: a merge can bring clusters closer, so merging all reciprocal "
    "pairs at once is not HAC; use 'average'",
    "median": "median linkage is not reducible: a merge can bring clusters closer, so merging all reciprocal pairs "
    "at once is not HAC; use 'average'",
    "ward": "ward linkage needs the distance of every pair of nodes, that is a complete graph, and is not defined on a "
    "sparse one; use 'average' or 'complete'",
    "weighted": "weighted linkage needs the distance of every pair of nodes, that is a complete graph, and is not "
    "defined on a sparse one; use 'average' or 'complete'",
}


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

    @property
    def sign(self) -> float:
        """1 for distances, -1 for similarities: weights are compared by `sign * weight`."""
        return -1.0 if self.weights == "similarity" else 1.0


def checked_settings(
    linkage: str,
    missing: str | float | None,
    weights: str,
    max_height: float | None = SETTINGS["max_height"].default,
    duplicates: str = SETTINGS["duplicates"].default,
    finisher: bool = SETTINGS["finisher"].default,
) -> Settings:
    """Check each parameter of the user, and return the settings."""
    if isinstance(linkage, str) and linkage in REFUSED_LINKAGES:
        raise InputError(f"linkage={linkage!r}: {REFUSED_LINKAGES[linkage]}")
    for name, value in (("linkage", linkage), ("weights", weights), ("duplicates", duplicates)):
        check_word(name, value, SETTINGS[name].words)
    sign = -1.0 if weights == "similarity" else 1.0
    if missing is None:
        missing = 0.0 if weights == "similarity" else "ignore"
    if isinstance(missing, str):
        check_word("missing", missing, SETTINGS["missing"].words, "or a number")
    else:
        missing = checked_finite("missing", missing, "for pairs that are infinitely far apart use missing='infinite'")
    if not isinstance(finisher, bool | np.bool):
        raise InputError(f"finisher={quoted(finisher)} is neither True nor False")
    height = math.inf * sign if max_height is None else checked_number("max_height", max_height)
    if height < 0 and max_height is not None:
        raise InputError(f"max_height={quoted(max_height)} is below 0, where nothing merges: weights are 0 or more")
    return Settings(linkage, missing, weights, height, duplicates, bool(finisher))  # type: ignore[arg-type]
