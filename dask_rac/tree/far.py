"""Heights of a graph whose absent pairs are far apart: all are close to `far`, and what differs is how far below it.

The mean over pairs of which a few have an edge is `far` minus a similarity: the mean of how far each edge is below
`far`, 0 for the others. Ratios of this similarity tell apart what differences of heights do not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.settings import Settings

ROUNDING = 1e-12
"""Heights that differ from `far` by less, relative to it, are at `far`: averages are rounded."""


def far_of(settings: Settings) -> float | None:
    """Return the distance of pairs without an edge; None if it is not a number, or plays no role."""
    if isinstance(settings.absent, str) or settings.weights == "similarity" or settings.linkage == "single":
        return None
    return float(settings.absent)


def below(far: float, distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far below `far` distances are; 0 within rounding."""
    difference: NDArray[np.float64] = far - distances
    return np.where(difference < ROUNDING * abs(far), 0.0, difference)
