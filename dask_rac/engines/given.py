"""All pairs as a run is given them: vectors or distances, in memory or at a path, and the metric of its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dask_rac.base.settings import PRECOMPUTED, Settings
from dask_rac.engines.start import Start
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.opening import open_distances, open_vector_pairs


@dataclass(frozen=True)
class GivenPairs:
    """All pairs of some clusters, for an engine that works in memory."""

    pairs: AllPairs
    """Those of distinct vectors, one for each cluster of the start; or of all nodes."""
    start: Start
    memory: int
    """Bytes of arrays that the engine may use."""


def open_pairs(given: Any, settings: Settings) -> AllPairs:
    """Open vectors, or distances if the metric says that they are."""
    if settings.metric == PRECOMPUTED:
        return open_distances(given)
    return open_vector_pairs(given, settings.metric, squares=settings.linkage == "ward")
