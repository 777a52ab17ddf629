"""What a kind of step is: what it does, how it is checked and forecast, and what it works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dask_rac.base.events import Listener

Keys = Mapping[str, Any]
"""The keys of a step with their values."""

Facts = dict[str, Any]
"""The result of a step, as a few numbers."""


@dataclass(frozen=True)
class Forecast:
    """Sizes of what a step makes or reads, where they are known."""

    text: str
    """For people."""
    nodes: int | None = None
    edges: int | None = None
    weights: str = "float64"
    """dtype."""
    bytes: int | None = None
    """Size of its output on disk."""
    dimensions: int = 0
    """Values of each vector, if it makes vectors."""
    sparse: bool = False
    """Whether these are sparse."""


@dataclass(frozen=True)
class StepInput:
    """What a kind of step works on."""

    key: str
    """The key that names it."""
    makers: tuple[str, ...] = ()
    """The kinds of steps that make it; if there are none, it comes from elsewhere."""


def _complete_already(keys: dict[str, Any]) -> None:
    """No key depends on another."""


def _no_check(keys: Keys, parent: Keys | None) -> None:
    """Nothing can be checked before the step runs."""


@dataclass(frozen=True)
class Kind:
    """A kind of step; its keys are in `schema.STEPS`."""

    name: str
    does: Callable[[Keys, Any, Listener], Facts]
    """Do the step, on a client or in threads if it is None."""
    forecast: Callable[[Keys, Forecast | None, str], Forecast]
    """Estimate sizes from metadata: the keys, the forecast of the step that makes the input, and the scheduler."""
    works_on: StepInput | None = None
    instead: StepInput | None = None
    """What it works on if the step says so, by this key or by `metric`."""
    complete: Callable[[dict[str, Any]], None] = _complete_already
    """Fill in keys that depend on others; raise a ValueError that says what the step needs."""
    check: Callable[[Keys, Keys | None], None] = _no_check
    """Raise if keys are invalid, by themselves or with those of the step that makes the input."""
    resumable: bool = False
    """Whether a step that was stopped goes on where it was; otherwise it starts over."""
    inherits: tuple[str, ...] = ()
    """Keys that are those of the step that makes the input, unless they are given."""

    def input_of(self, keys: Keys) -> StepInput | None:
        """Return what a step with these keys works on."""
        if self.instead is not None and (keys[self.instead.key] is not None or keys["metric"] is not None):
            return self.instead
        return self.works_on
