"""What is counted in a run for its remarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_rac.config import RoundRecord, Settings
from dask_rac.lives import Lives
from dask_rac.report.facts import FINISHED, Status
from dask_rac.summary import Snapshot


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
    """Nodes that have merged with nothing."""
    largest: int = 1
    """Nodes of the largest tree."""
    tied: int = 0
    """Merges whose height another merge has, too."""
    finisher: int = 0
    """Merges of the finisher."""
    deferred: int = 0
    """Rounds in place of the finisher, for which there was no room."""
    loops: int = 0
    """Self loops that were dropped."""
    repeats: int = 0
    """Rows that name an edge once more."""
    cut: Snapshot | None = None
    """The first of the suggested cuts."""
    damaged: str | None = None
    """The first manifest that cannot be read."""

    @property
    def trees(self) -> int:
        """Trees of the hierarchy, single nodes among them."""
        return self.n_nodes - self.merges

    @property
    def finished(self) -> bool:
        """Whether no merge is to come."""
        return self.status in FINISHED


def findings_of(settings: Settings, records: Sequence[RoundRecord], lives: Lives, **known: Any) -> Findings:
    """What the tree and its rounds show; `known` are other fields of `Findings`."""
    return Findings(
        settings,
        lives.n_nodes,
        len(lives),
        single=lives.n_nodes - int(lives.singles[-1]) if len(lives) else lives.n_nodes,
        largest=int(lives.size.max(initial=1)),
        tied=_tied(lives),
        finisher=merged_last(records),
        deferred=count_deferred(records),
        **known,
    )


def merged_last(records: Sequence[RoundRecord]) -> int:
    """Merges of the finisher."""
    return sum(record.merges for record in records if record.finisher)


def count_deferred(records: Sequence[RoundRecord]) -> int:
    """Rounds in its place."""
    return sum(record.deferred for record in records)


def _tied(lives: Lives) -> int:
    """Merges whose height another has, too."""
    same = np.append(False, lives.distance[1:] == lives.distance[:-1])
    return int(np.count_nonzero(same | np.append(same[1:], False))) if len(lives) else 0
