"""An audit of all pairs, which are read or computed once more, some rows of the triangle at a time."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.events import Event, Listener
from dask_rac.base.settings import Settings
from dask_rac.base.spans import Span
from dask_rac.engines.given import open_pairs
from dask_rac.results.audit import EdgeTaker
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.triangle import triangle_entries, triangle_spans

PIECE = 2**20  # pairs that a thread holds


def audit_pairs(audit: EdgeTaker, given: Any, settings: Settings, team: Team, report: Listener) -> None:
    """Add every pair of some vectors, or of a matrix of distances, once."""
    pairs = open_pairs(given, settings)
    if pairs.nodes != audit.n_nodes:
        raise InputError(
            f"{pairs.name} has {pairs.nodes:,} points, and the clustering has {audit.n_nodes:,} nodes: give what was "
            "passed to cluster()"
        )
    pairs.check(team, report)
    spans = triangle_spans(pairs.nodes, -(-triangle_entries(pairs.nodes) // PIECE))
    lock, done = Lock(), 0

    def add(span: Span) -> None:
        nonlocal done
        audit.add(*_pairs_of(pairs, span, settings.sign))
        with lock:
            done += 1
            report(Event("verify", pairs.nodes, done=done, total=len(spans)))

    team.run(add, spans)


def _pairs_of(
    pairs: AllPairs, span: Span, sign: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the nodes and the weights of the pairs in some rows, as users see them."""
    first, last = span
    weight = np.empty(triangle_entries(last) - triangle_entries(first))
    pairs.read(first, last, weight)
    if pairs.squares:
        np.sqrt(weight, out=weight)
    slots = np.arange(first, last)
    row = np.repeat(slots, slots)
    column = np.arange(len(row)) - (np.repeat(triangle_entries_of(slots), slots) - triangle_entries(first))
    return pairs.nodes - 1 - row, pairs.nodes - 1 - column, sign * weight


def triangle_entries_of(slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the rows of slots begin."""
    return slots * (slots - 1) // 2
