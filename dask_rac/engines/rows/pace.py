"""The pace of rounds: whether another one pays, and how many there will be if the finisher has no room."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dask_rac.base.events import RoundRecord

JUDGED = 8  # rounds: fewer could be an accident
MOST_ROUNDS = 1000  # each of them rewrites all that is left of the graph


def pays(record: RoundRecord, edges: int, share: float) -> bool:
    """Whether rounds like this one, which has left `edges` edges, take less work than the finisher.

    A round writes every edge once. If each takes away the same share of the edges, all of them write a multiple of what
    is left, the inverse of that share; nor are there more rounds than it takes until one cluster is left. The finisher
    takes the time of a few dozen rounds. Only counts decide, so that it is the same on every machine.
    """
    shrinks = (record.edges - edges) / max(1, record.edges)
    ends = record.merges / max(1, record.clusters) / max(1, record.clusters).bit_length()
    return max(shrinks, ends) >= share


def rounds_until(records: Sequence[RoundRecord], edges: int, room: float) -> float:
    """Return in how many rounds no more than `room` of `edges` edges are left, at the pace of the last few.

    It is 0 unless the finisher was due before each of them: as long as rounds pay, nothing needs to be judged.
    """
    judged = records[-JUDGED:]
    if len(judged) < JUDGED or not all(record.deferred for record in judged) or edges <= room:
        return 0
    lost = judged[0].edges - edges
    return math.inf if lost <= 0 else (edges - room) * JUDGED / lost


def stalls(records: Sequence[RoundRecord], edges: int, room: float) -> bool:
    """Whether rounds make so little progress that the finisher should have more memory instead."""
    return rounds_until(records, edges, room) > MOST_ROUNDS
