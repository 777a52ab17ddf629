"""The points engine through a store: the same bits as in memory, whatever stops it, and wherever tasks run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from distributed import Client
from numpy.typing import NDArray

from dask_rac.base.errors import InputError, ResourceError
from dask_rac.engines.contract import Limits, MergeList, Step, Work
from dask_rac.engines.points import stored
from dask_rac.engines.points.engine import PointsEngine
from dask_rac.engines.points.in_memory import merge_rounds
from dask_rac.files.folder import Folder
from dask_rac.files.listing import files_fingerprint
from dask_rac.runs.loop import StoredRun
from dask_rac.store.header import Header, read_header, write_header
from dask_rac.store.manifest import read_chain
from dask_rac.tasks.client import choose_scheduler
from tests.support.folders import no_fsync
from tests.support.points import KINDS, WAYS, merged_points, settings_of

WARD = WAYS[0]
FEW = Limits(near=3, lists=4, alike=0, save_seconds=0.0)
"""A step for every round."""


@pytest.fixture(autouse=True)
def chosen() -> Iterator[None]:
    """Let the loop run this engine, and disks be fast."""
    with no_fsync(), mock.patch("dask_rac.runs.loop.engine_for", return_value=PointsEngine()):
        yield


def some_points(seed: int, nodes: int = 120) -> NDArray[np.float64]:
    """Points of which some are equal."""
    random = np.random.default_rng(seed)
    return np.concatenate([KINDS["densities"](nodes - 20, 3, random), np.repeat(random.random((10, 3)), 2, axis=0)])


def save(folder: Path, points: NDArray[Any]) -> Path:
    """Points on disk."""
    np.save(folder / "points.npy", points)
    return folder / "points.npy"


def new_run(
    source: Path,
    store: Path,
    way: tuple[str, str] = WARD,
    limits: Limits = FEW,
    client: Any = None,
    memory: int = 2**28,
) -> StoredRun:
    """A run in a new store, or one that goes on in an old one."""
    folder, scheduler = Folder(str(store)), choose_scheduler(client)
    if not folder.exists():
        store.mkdir()
        mark = files_fingerprint(str(source))
        header = Header(settings_of(*way), str(source), mark, "float64", None, None, {}, engine="points")
        assert write_header(folder, header)
    run = StoredRun(
        folder, read_header(folder), scheduler, scheduler.budget(memory), lambda _: None, limits, exclusive=True
    )
    run.adopt(read_chain(folder))
    return run


def finish(run: StoredRun) -> list[NDArray[Any]]:
    """The columns of all merges of a run that goes on to its end."""
    run.clean_attempt()
    run.go(None if run.chain else run.header.source)
    parts = list(run.journal.parts())
    return [np.concatenate([part[name] for part in parts]) for name in ("left", "right", "height", "size", "round")]


def assert_same(found: list[NDArray[Any]], expected: list[NDArray[Any]] | MergeList) -> None:
    """The same merges, to the last bit, in the same order."""
    columns = [*expected.merges, expected.round] if isinstance(expected, MergeList) else expected
    for column, other in zip(found, columns, strict=True):
        np.testing.assert_array_equal(column, other)


def phases_of(run: StoredRun) -> list[str]:
    """The phases that a run has gone through."""
    return [manifest.state.own["phase"] for manifest in run.chain if manifest.state is not None]


class StoppedError(Exception):
    """What a test stops a run with."""


@contextmanager
def stopped_at(step: int) -> Iterator[None]:
    """Stop a run when it has done all of a step but has not committed it."""
    commit = StoredRun._commit

    def stop(run: StoredRun, done: Step, work: Work) -> None:
        if len(run.chain) == step:
            raise StoppedError
        commit(run, done, work)

    with mock.patch.object(StoredRun, "_commit", stop):
        yield


@pytest.mark.parametrize("way", WAYS)
def test_a_store_gives_the_bits_of_memory(way: tuple[str, str], tmp_path: Path) -> None:
    points = some_points(1)
    source, expected = save(tmp_path, points), merged_points(points, way)
    for number, limits in enumerate((FEW, Limits(), Limits(alike=0))):
        run = new_run(source, tmp_path / f"store-{number}", way, limits)
        assert_same(finish(run), expected)
        assert ("near" in phases_of(run)) == (limits.alike == 0)
        assert (phases_of(run).count("rounds") > 3) == (limits is FEW)
        assert {"near", "near.partial", "vectors"}.isdisjoint(path.name for path in run_folder(run).iterdir())


def run_folder(run: StoredRun) -> Path:
    """The folder of a run."""
    return Path(run.store.path)


def test_heights_do_not_fall_from_step_to_step(tmp_path: Path) -> None:
    """Ties that rounding parts: a merge may be a last bit below one of its parts, in an earlier step."""
    points = np.random.default_rng(4).integers(1, 4, (80, 4)) * 0.1
    for way in WAYS[:3]:
        left, right, height, _, _ = finish(new_run(save(tmp_path, points), tmp_path / way[1], way))
        top = dict.fromkeys(range(80), 0.0)
        for a, b, h in zip(left.tolist(), right.tolist(), height.tolist(), strict=True):
            assert h >= max(top[a], top[b])
            top[a] = h
        assert_same([left, right, height], [*merged_points(points, way).merges[:3]])


def test_a_run_that_is_stopped_in_any_step_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    source = save(tmp_path, some_points(2))
    whole = new_run(source, tmp_path / "whole")
    expected = finish(whole)
    assert phases_of(whole)[:4] == ["start", "near", "lists", "rounds"]
    steps = len(whole.chain)
    for step in sorted({0, 2, 3, 4, steps // 2, steps - 1}):
        store = tmp_path / f"store-{step}"
        with stopped_at(step), pytest.raises(StoppedError):
            finish(new_run(source, store))
        run = new_run(source, store)
        assert len(run.chain) == step
        assert_same(finish(run), expected)
        names = (sorted(path.name for path in folder.iterdir()) for folder in (store, tmp_path / "whole"))
        assert next(names) == next(names)


def test_a_run_that_is_stopped_within_a_step_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    source = save(tmp_path, some_points(3))
    expected = finish(new_run(source, tmp_path / "whole"))
    number = count()

    def stop(*arguments: Any) -> MergeList:
        found = merge_rounds(*arguments)
        if next(number) % 3 == 2:
            raise StoppedError
        return found

    with mock.patch.object(stored, "merge_rounds", stop):
        for _ in range(100):
            try:
                found = finish(new_run(source, tmp_path / "store"))
            except StoppedError:
                continue
            break
    assert_same(found, expected)


def test_near_pairs_that_are_stopped_go_on_even_with_other_limits(tmp_path: Path) -> None:
    source, store = save(tmp_path, some_points(5)), tmp_path / "store"
    expected = finish(new_run(source, tmp_path / "whole"))
    with (
        mock.patch("dask_rac.vectors.graph.stages.Stages._write", mock.Mock(side_effect=StoppedError)),
        pytest.raises(StoppedError),
    ):
        finish(new_run(source, store))
    assert Path(store, "near.partial").exists()
    other = Limits(near=9, lists=2, alike=0)
    assert_same(finish(new_run(source, store, limits=other)), expected)


def test_workers_give_the_bits_of_threads(client: Client, tmp_path: Path) -> None:
    points = some_points(6)
    source = save(tmp_path, points)
    for way in (WAYS[0], WAYS[2]):
        assert_same(finish(new_run(source, tmp_path / way[0], way, client=client)), merged_points(points, way))


def test_changed_vectors_are_noticed_before_they_are_read_again(tmp_path: Path) -> None:
    source = save(tmp_path, np.random.default_rng(7).random((60, 3)))
    with stopped_at(2), pytest.raises(StoppedError):
        finish(new_run(source, tmp_path / "store"))
    run = new_run(source, tmp_path / "store")
    save(tmp_path, np.random.default_rng(7).random((61, 3)))
    with pytest.raises(InputError, match="has changed since the run began"):
        finish(run)


def test_too_little_memory_is_refused(tmp_path: Path) -> None:
    source = save(tmp_path, some_points(8))
    with pytest.raises(ResourceError, match="set memory="):
        finish(new_run(source, tmp_path / "store", memory=10**5))
