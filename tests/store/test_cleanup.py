"""Which states a run keeps, and how far it goes back when files are damaged."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest

import dask_rac
from dask_rac.engines.contract import Limits
from tests.support import crash
from tests.support.folders import no_fsync
from tests.support.limits import cluster_within
from tests.support.results import assert_same
from tests.support.undisturbed import StopError, stop_after

NODES = 40


@pytest.fixture(autouse=True)
def _quick_disk() -> Iterator[None]:
    with no_fsync():
        yield


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        (Limits(durable_seconds=inf), [{0}, {0, 1}, {0, 1, 2}, {0, 2, 3}]),
        (Limits(durable_seconds=0), [{0}, {0, 1}, {1, 2}, {2, 3}]),
        (Limits(durable_seconds=inf, disk_share=0, small_states=0), [{0}, {1}, {2}, {3}]),
    ],
    ids=["the first is flushed", "all are flushed", "no room"],
)
def test_the_states_that_are_kept(tmp_path: Path, limits: Limits, kept: list[set[int]]) -> None:
    """The last, the last that was flushed, and if there is room the one before; the first is always flushed."""
    found: list[set[int]] = []

    def look(after: bool) -> None:
        if after:
            found.append({int(path.name[:5]) for path in tmp_path.glob("run/rounds/*")})

    with crash.patch_calls("dask_rac.runs.loop.StoredRun.clean", look):
        cluster_within(limits, small_edges(), shards=crash.SHARDS, finisher=False, store=tmp_path / "run")
    assert found[: len(kept)] == kept
    assert found[-1] == set()


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A run of a small input, which has no room for two states by its size."""
    store = tmp_path / "run"
    with pytest.raises(StopError):
        crash.begin(crash.write_edges(tmp_path / "edges", small_edges()), store, progress=stop_after(3))
    return store


def small_edges() -> Any:
    return crash.path_edges(NODES)[["source", "target", "weight"]]


def check_mended(store: Path, steps: int) -> None:
    """A run is resumed after some of its steps, to the merges that it would have come to."""
    kept = crash.manifests(store)[:steps]
    assert_same(dask_rac.resume(store), dask_rac.cluster(small_edges(), finisher=False))
    assert crash.manifests(store)[:steps] == kept


def test_damage_to_the_state_of_a_small_run_costs_one_step(stopped: Path) -> None:
    for path in stopped.glob("rounds/00003*/*/*/0"):
        path.write_bytes(b"")
    check_mended(stopped, 3)


def test_a_run_goes_back_as_far_as_there_is_an_intact_state(stopped: Path) -> None:
    for path in stopped.glob("rounds/0000[23]*/*/*/0"):
        path.write_bytes(b"")
    check_mended(stopped, 1)


def test_damaged_merges_are_made_again_from_a_state_before_them(stopped: Path) -> None:
    min(stopped.glob("merges/00002*")).write_bytes(b"")
    check_mended(stopped, 1)


def test_a_run_that_has_merged_nothing_goes_back_to_its_edges(stopped: Path) -> None:
    for path in sorted(stopped.glob("manifests/*.json"))[1:]:
        path.unlink()
    next(stopped.glob("rounds/00000*/*/neighbour/0")).unlink()
    check_mended(stopped, 0)
