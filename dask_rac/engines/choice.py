"""Which engine clusters all pairs: the first that fits, the fastest first, or the one that the user names."""

from __future__ import annotations

from dataclasses import replace

from dask_rac.base.errors import InputError, ResourceError
from dask_rac.base.parameters import PAIRS_ENGINE
from dask_rac.base.settings import Settings
from dask_rac.base.text import quoted
from dask_rac.engines import ENGINES
from dask_rac.engines.contract import Engine, Expected, Sizes
from dask_rac.tasks.budget import Budget
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.triangle import triangle_entries
from dask_rac.vectors.pairs.vector_pairs import VectorPairs

ORDER = PAIRS_ENGINE.words


def expected_pairs(pairs: AllPairs, sampled: bool = False) -> Expected:
    """Return what engines must know of all pairs to tell whether they fit; if `sampled`, also what they would take."""
    given = pairs if sampled else None
    expected = Expected(pairs.nodes, triangle_entries(pairs.nodes), "float64", 0, pairs=given)
    if not isinstance(pairs, VectorPairs):
        return expected
    source = pairs.source
    return replace(expected, bytes=source.bytes, dimensions=source.dimensions, sparse=source.sparse)


def choose_engine(given: Expected, settings: Settings, budget: Budget, name: str = "") -> tuple[Engine, Sizes]:
    """Return the engine for all pairs, and what it would take; raise if none fits, or the named one does not."""
    known = {engine.name: engine for engine in ENGINES if engine.all_pairs}
    suitable = [known[each] for each in ORDER if settings.linkage in known[each].linkages]
    suitable = [engine for engine in suitable if engine.suits(given, settings)]
    if name:
        _check_name(name, [engine.name for engine in suitable], settings)
        return known[name], known[name].sizes(given, settings, None, budget)
    refused: ResourceError | None = None
    for engine in suitable:
        try:
            return engine, engine.sizes(given, settings, None, budget)
        except ResourceError as error:
            refused = error
    assert refused is not None
    raise refused


def _check_name(name: str, suitable: list[str], settings: Settings) -> None:
    """Raise unless an engine of this name can do what is asked for."""
    if name in suitable:
        return
    listed = ", ".join(map(repr, suitable))
    if name not in ORDER:
        raise InputError(f"engine={quoted(name)} is unknown: use one of {', '.join(map(repr, ORDER))}, or leave it out")
    raise InputError(
        f"engine={name!r} cannot do linkage={settings.linkage!r} with metric={settings.metric!r} for this input: use "
        f"one of {listed}, or leave it out"
    )
