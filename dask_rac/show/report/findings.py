"""Numbers about a run from which its remarks are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_rac.base.events import RoundRecord
from dask_rac.base.settings import Settings
from dask_rac.show.report.facts import FINISHED, Status
from dask_rac.tree.lifetimes import Lifetimes
from dask_rac.tree.summary import Snapshot


@dataclass(frozen=True)
class Findings:
    """Numbers that may be worth a remark."""

    settings: Settings
    n_nodes: int
    merges: int = 0
    status: Status = "in memory"
    run: str | None = None
    """The store."""
    single: int = 0
    """Nodes that have not merged."""
    largest: int = 1
    """Nodes in the largest tree."""
    tied: int = 0
    """Merges that share their height with another merge."""
    finisher: int = 0
    """Merges of the finisher."""
    deferred: int = 0
    """Rounds that ran instead of the finisher because it did not fit in memory."""
    loops: int = 0
    """Self loops that were dropped."""
    repeats: int = 0
    """Rows that repeat an edge."""
    cut: Snapshot | None = None
    """The first of the suggested cuts."""
    damaged: str | None = None
    """The first manifest that cannot be read."""

    @property
    def trees(self) -> int:
        """Trees of the hierarchy, including single nodes."""
        return self.n_nodes - self.merges

    @property
    def finished(self) -> bool:
        """Whether no more merges will come."""
        return self.status in FINISHED


def findings_of(settings: Settings, records: Sequence[RoundRecord], lives: Lifetimes, **known: Any) -> Findings:
    """Derive the findings from the tree and its rounds; `known` are other fields of `Findings`."""
    return Findings(
        settings,
        lives.n_nodes,
        len(lives),
        single=lives.n_nodes - int(lives.singles[-1]) if len(lives) else lives.n_nodes,
        largest=int(lives.size.max(initial=1)),
        tied=_tied(lives),
        finisher=count_finisher_merges(records),
        deferred=count_deferred(records),
        **known,
    )


def count_finisher_merges(records: Sequence[RoundRecord]) -> int:
    """Return the number of merges by the finisher."""
    return sum(record.merges for record in records if record.finisher)


def count_deferred(records: Sequence[RoundRecord]) -> int:
    """Return the number of rounds that ran instead of the finisher."""
    return sum(record.deferred for record in records)


def _tied(lives: Lifetimes) -> int:
    """Return the number of merges that share their height with another."""
    same = np.append(False, lives.distance[1:] == lives.distance[:-1])
    return int(np.count_nonzero(same | np.append(same[1:], False))) if len(lives) else 0
