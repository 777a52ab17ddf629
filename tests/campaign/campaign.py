"""A campaign: many trials of one kind, each of which must end in the right result or in an error that says what to do.

A trial is reproduced by its campaign, the seed and its number. It gets a random generator of its own, so that the
number of trials before it, and the process it runs in, do not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any


@dataclass(frozen=True)
class Campaign:
    """What is tried, how often, and how."""

    name: str
    """As on the command line, such as `kills`."""
    trial_is: str
    """What one trial is, for people who read the table."""
    scene: Callable[[Path], AbstractContextManager[Any]]
    """Makes what all trials of a process share, in an empty folder."""
    trial: Callable[[Any, Random, int], None]
    """Given the scene, chance and the trial's number; raises if anything was wrong or lost."""
    goal: int
    """Trials of a whole campaign."""
    share: int
    """Trials in the suite: a few seconds' worth."""
    count: Callable[[Any], int] | None = None
    """How many different trials a scene has, if they can all be tried; then `goal` is the least that there must be."""
    patience: float = 300
    """Seconds in which a trial says something, or else it hangs."""
    missing: Callable[[], str] = lambda: ""
    """Why this machine cannot run it; empty if it can."""


def chance(campaign: str, seed: int, number: int) -> Random:
    """The random generator of one trial."""
    return Random(f"{campaign} {seed} {number}")
