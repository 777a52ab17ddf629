"""Recipes run in this process, and what becomes of their steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dask_rac.base.events import Event
from dask_rac.recipes.recipe import load_recipe
from dask_rac.recipes.runner import Planned, Runner


def runner(path: Path, *changes: str, report: Callable[[Event], None] = lambda _: None) -> Runner:
    @contextmanager
    def watch(_: str) -> Iterator[Callable[[Event], None]]:
        yield report

    made = Runner(load_recipe(path, changes), lambda _: None, watch)
    made.check()
    return made


def actions(planned: list[Planned]) -> dict[str, str]:
    return {one.step.name: one.action for one in planned}


def run(path: Path, *changes: str, start: str | None = None, **keywords: Any) -> dict[str, str]:
    return actions([planned for planned, _ in runner(path, *changes, **keywords).run(start)])
