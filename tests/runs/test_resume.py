"""A run that goes on does so as it began."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import pytest

import dask_rac
from dask_rac.runs.loop import StoredRun
from tests.support.named_graphs import SMALL, SMALL_BUDGET
from tests.support.results import assert_same
from tests.support.stored import PlugPulledError, stop_after, write_parquet


def stopped(folder: Path, memory: int) -> Path:
    """A run with this much memory that was stopped after its first round."""
    edges = write_parquet(folder / "edges.parquet", SMALL)
    with pytest.raises(PlugPulledError):
        dask_rac.cluster(edges, store=folder / "run", memory=memory, finisher=False, progress=stop_after(1))
    return folder / "run"


@pytest.fixture
def budgets(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The memory of each run that goes on."""
    seen: list[int] = []
    go = StoredRun.go

    def noted(run: StoredRun, given: Any = None) -> None:
        seen.append(run.budget.memory)
        go(run, given)

    monkeypatch.setattr(StoredRun, "go", noted)
    return seen


def test_it_keeps_the_memory_that_it_was_given(folder: Path, budgets: list[int]) -> None:
    run = stopped(folder, SMALL_BUDGET)
    with dask.config.set({"rac.memory": "70MB"}):
        assert_same(dask_rac.resume(run), dask_rac.cluster(SMALL, finisher=False))
    assert budgets == [SMALL_BUDGET, SMALL_BUDGET]


@pytest.mark.parametrize(("before", "given", "used"), [(SMALL_BUDGET, "60MB", 60_000_000), (10**18, None, 70_000_000)])
def test_it_takes_the_memory_that_it_is_given_now_and_no_more_than_there_is(
    folder: Path, budgets: list[int], before: int, given: str | None, used: int
) -> None:
    run = stopped(folder, before)
    with dask.config.set({"rac.memory": "70MB"}):
        dask_rac.resume(run, memory=given)
    assert budgets == [before, used]
