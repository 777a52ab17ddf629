"""What a run comes near to: the limits of the machines, and those of the way in which it is done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dask_rac.base.text import size_text
from dask_rac.engines.rows.receipts import PIECE_GROUPS
from dask_rac.forecasts.model import Layer, Model
from dask_rac.runs.plan import Plan

VECTOR_SHARE = 0.8  # of a process: what `shard_entries` lets vectors over nodes take
RECEIPT_BYTES = 10**8  # that a scheduler should hold of one layer


@dataclass(frozen=True)
class Bound:
    """Something that a run needs, beside what there is of it."""

    name: str
    needed: float
    available: float
    bytes: bool = False
    """Whether these are bytes."""

    @property
    def share(self) -> float:
        """What is needed, of what there is; with more than 1, a run fails here, or is slow because of it."""
        return self.needed / self.available if self.available else math.inf

    def text(self) -> str:
        """Say it for people."""
        needed, available = (
            size_text(value) if self.bytes else f"{value:,.0f}" for value in (self.needed, self.available)
        )
        return f"{needed} of {available}"


def bounds_of(model: Model, plan: Plan, layers: Sequence[Layer]) -> tuple[Bound, ...]:
    """Return what a run comes near to, the nearest first."""
    fleet, budget = model.fleet, model.budget
    found = [
        Bound("memory for nodes, per process", plan.node_bytes, VECTOR_SHARE * budget.process, True),
        Bound("shards, of bins of ids", model.shards, model.intake.used_bins),
        Bound("receipts of ids counted by bin", model.intake.counted_bytes, RECEIPT_BYTES, True),
        Bound("receipts of edges sent to shards", model.intake.receipt_bytes, RECEIPT_BYTES, True),
        Bound("receipts of rows that move", _moved_bytes(model, layers), RECEIPT_BYTES, True),
    ]
    if fleet.remote:
        found.append(_busiest("requests per second, at the busiest", layers, model))
    else:
        found.append(Bound("disk", plan.disk, fleet.kind.disk, True))
    return tuple(sorted(found, key=lambda bound: -bound.share))


def _moved_bytes(model: Model, layers: Sequence[Layer]) -> float:
    """Return the bytes of receipts that say where the rows for each shard, or group of shards, begin."""
    gathers = max((layer.tasks for layer in layers if layer.name == "gather"), default=0)
    if not gathers:
        return model.shards * (2 * 8 * (model.shards + 1) + 100 * PIECE_GROUPS)
    width = math.isqrt(gathers)
    return (model.shards + gathers) * (2 * 8 * (width + 1) + 100 * PIECE_GROUPS)


def _busiest(name: str, layers: Sequence[Layer], model: Model) -> Bound:
    """Return the most requests per second of any layer, if they were all that it waits for."""
    fleet = model.fleet
    rates = [0.0]
    for layer in layers:
        bounds = layer.bounds(fleet)
        others = max(seconds for what, seconds in bounds.items() if what != "requests")
        requests = layer.traffic.reads + layer.traffic.writes
        rates.append(requests / others if others else 0.0)
    return Bound(name, max(rates), fleet.kind.request_rate)
