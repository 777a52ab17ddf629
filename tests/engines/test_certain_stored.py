"""Certain rounds through a store: the same bits as in memory, whatever stops them, and wherever tasks run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from distributed import Client
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from dask_rac.base.errors import InputError, ResourceError
from dask_rac.engines.certain import stored, survey
from dask_rac.engines.certain.engine import CertainEngine
from dask_rac.engines.contract import Expected, Limits, Step, Work
from dask_rac.files.folder import Folder
from dask_rac.files.listing import files_fingerprint
from dask_rac.runs.loop import StoredRun
from dask_rac.store.header import Header, read_header, write_header
from dask_rac.store.journal import Journal
from dask_rac.store.manifest import read_chain
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.client import choose_scheduler
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.opening import open_distances
from tests.support.certain import LINKAGES, any_points, certain_run, fixed, settings_of, vector_pairs
from tests.support.folders import no_fsync

MEMORY = 2**28
FEW = Limits(sample_rows=60, degrees=(8,), band_pairs=2_500, band_entries=600, stage_sample=80, stage_share=0.001)
"""Several bands, and near pairs that leave something to do."""


@pytest.fixture(autouse=True)
def chosen() -> Iterator[None]:
    """Let the loop run this engine, and disks be fast."""
    with no_fsync(), mock.patch("dask_rac.runs.loop.engine_for", return_value=CertainEngine()):
        yield


def save(folder: Path, points: NDArray[Any], name: str = "points.npy") -> Path:
    """Points on disk."""
    np.save(folder / name, points)
    return folder / name


def new_run(
    source: Path, store: Path, linkage: str, metric: str, client: Any = None, limits: Limits = FEW
) -> StoredRun:
    """A run in a new store, or one that goes on in an old one."""
    folder, scheduler = Folder(str(store)), choose_scheduler(client)
    if not folder.exists():
        store.mkdir()
        settings = settings_of(linkage, metric)
        header = Header(
            settings, str(source), files_fingerprint(str(source)), "float64", None, None, {}, engine="certain"
        )
        assert write_header(folder, header)
    run = StoredRun(
        folder, read_header(folder), scheduler, scheduler.budget(MEMORY), lambda _: None, limits, exclusive=True
    )
    run.adopt(read_chain(folder))
    return run


def finish(run: StoredRun) -> list[NDArray[Any]]:
    """The columns of all merges of a run that goes on to its end."""
    run.clean_attempt()
    run.go(None if run.chain else run.header.source)
    return columns_of(run.journal)


def columns_of(journal: Journal) -> list[NDArray[Any]]:
    """The columns of all merges."""
    parts = list(journal.parts())
    return [np.concatenate([part[name] for part in parts]) for name in ("left", "right", "height", "size", "round")]


def phases_of(run: StoredRun) -> list[str]:
    """The phases that a run has gone through."""
    return [manifest.state.own["phase"] for manifest in run.chain if manifest.state is not None]


def assert_same(found: list[NDArray[Any]], expected: list[NDArray[Any]]) -> None:
    """The same merges, to the last bit, in the same order."""
    for column, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(column, other)


@contextmanager
def small_matrix(clusters: int) -> Iterator[None]:
    """Let a matrix of more clusters be too large, whatever the memory."""
    with mock.patch.object(stored, "pairs_bytes", lambda count: MEMORY + 1 if count > clusters else 0):
        yield


@pytest.mark.parametrize("linkage", LINKAGES)
def test_a_store_gives_the_bits_of_memory(linkage: str, tmp_path: Path) -> None:
    points = np.repeat(any_points(1, 150, "densities", 4), [2] * 30 + [1] * 120, axis=0)
    run = new_run(save(tmp_path, points), tmp_path / "store", linkage, "euclidean")
    found = finish(run)
    assert phases_of(run)[:4] == ["start", "near", "rounds", "reduce"]
    assert phases_of(run).count("reduce") > 2
    assert not Path(tmp_path, "store", "near").exists()
    state = run.chain[2].state
    assert state is not None
    chosen = survey.Survey(**state.own["survey"])
    settings = settings_of(linkage, "euclidean")
    with Team(1) as team:
        expected = certain_run(vector_pairs(points, "euclidean"), chosen, settings, team, limits=FEW)
    assert_same(found, [*expected.merges, expected.round])


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


@pytest.mark.parametrize("staged", [False, True])
def test_a_run_that_is_stopped_in_any_step_goes_on_to_the_same_bits(staged: bool, tmp_path: Path) -> None:
    source = save(tmp_path, any_points(2, 120, "points", 3))
    with small_matrix(30 if staged else 120):
        whole = new_run(source, tmp_path / "whole", "average", "euclidean")
        expected = finish(whole)
        phases = phases_of(whole)
        assert ("again" in phases) == staged
        for step in range(len(whole.chain)):
            store = tmp_path / f"store-{step}"
            with stopped_at(step), pytest.raises(StoppedError):
                finish(new_run(source, store, "average", "euclidean"))
            run = new_run(source, store, "average", "euclidean")
            assert len(run.chain) == step
            assert_same(finish(run), expected)
            assert sorted(path.name for path in store.iterdir()) == sorted(
                path.name for path in Path(tmp_path, "whole").iterdir()
            )


def test_a_graph_that_is_stopped_goes_on(tmp_path: Path) -> None:
    source = save(tmp_path, any_points(3, 150, "points", 3))
    expected = finish(new_run(source, tmp_path / "whole", "complete", "manhattan"))
    store = tmp_path / "store"
    with (
        mock.patch("dask_rac.vectors.graph.stages.Stages._write", mock.Mock(side_effect=StoppedError)),
        pytest.raises(StoppedError),
    ):
        finish(new_run(source, store, "complete", "manhattan"))
    assert Path(store, "near.partial").exists()
    assert_same(finish(new_run(source, store, "complete", "manhattan")), expected)


def test_workers_give_the_bits_of_threads(client: Client, tmp_path: Path) -> None:
    source = save(tmp_path, any_points(4, 140, "densities", 3))
    for linkage, clusters in (("complete", 140), ("average", 40)):
        with small_matrix(clusters):
            expected = finish(new_run(source, tmp_path / f"threads-{linkage}", linkage, "euclidean"))
            found = finish(new_run(source, tmp_path / f"workers-{linkage}", linkage, "euclidean", client))
        assert_same(found, expected)


@pytest.mark.parametrize("linkage", LINKAGES)
def test_distances_at_a_path(linkage: str, tmp_path: Path) -> None:
    condensed = pdist(any_points(5, 120, "points", 3))
    source = save(tmp_path, squareform(condensed))
    for clusters in (120, 30):
        with small_matrix(clusters):
            run = new_run(source, tmp_path / f"store-{clusters}", linkage, "precomputed")
            found = finish(run)
        heights = np.sort(found[2])
        with Team(1) as team:
            expected = certain_run(open_distances(condensed), fixed(0.1), settings_of(linkage), team)
        np.testing.assert_allclose(heights, np.sort(expected.merges.height), rtol=1e-12)


def test_far_more_near_pairs_than_expected_lead_to_a_smaller_radius(tmp_path: Path) -> None:
    source = save(tmp_path, any_points(6, 200, "points", 3))
    limits = Limits(sample_rows=200, degrees=(4, 8, 64))
    expected = finish(new_run(source, tmp_path / "whole", "complete", "euclidean", limits=limits))
    with (
        mock.patch.object(stored, "most_pairs", return_value=3000),
        mock.patch.multiple(survey, EPS_SECONDS=0.0, KNN_SECONDS=0.0),
    ):
        run = new_run(source, tmp_path / "store", "complete", "euclidean", limits=limits)
        found = finish(run)
    assert phases_of(run).count("near") == 2
    assert_same([np.sort(found[2])], [np.sort(expected[2])])


def test_what_never_ends_is_refused(tmp_path: Path) -> None:
    source = save(tmp_path, np.ones((80, 80)) - np.eye(80))
    with small_matrix(20), pytest.raises(ResourceError, match=r"80 clusters are left|equally near"):
        finish(new_run(source, tmp_path / "store", "complete", "precomputed"))


def test_changed_vectors_are_noticed_between_steps(tmp_path: Path) -> None:
    source = save(tmp_path, any_points(7, 100, "points", 3))
    with stopped_at(2), pytest.raises(StoppedError):
        finish(new_run(source, tmp_path / "store", "complete", "euclidean"))
    run = new_run(source, tmp_path / "store", "complete", "euclidean")
    save(tmp_path, any_points(8, 101, "points", 3))
    with pytest.raises(InputError, match="has changed since the run began"):
        finish(run)


def test_vectors_that_no_process_can_pass_over_are_refused_first() -> None:
    pairs, settings = vector_pairs(any_points(9, 50, "points", 3), "euclidean"), settings_of("average", "euclidean")
    with pytest.raises(ResourceError, match=r"a pass over all pairs of 50 vectors needs .* set memory='\d+MB' or more"):
        stored.refuse_pass(pairs, Budget(10**5, 1, 1), settings, FEW)
    stored.refuse_pass(pairs, Budget(10**9, 1, 1), settings, FEW)


def test_an_engine_projects_memory_before_it_sees_the_data() -> None:
    engine, settings = CertainEngine(), settings_of("complete", "euclidean")
    expected = Expected(100_000, 0, "float32", 0)
    sizes = engine.sizes(expected, settings, None, Budget(4 * 10**9, 1, 2))
    assert 10**9 < sizes.memory < 4 * 10**9
    with pytest.raises(ResourceError, match="set memory="):
        engine.sizes(expected, settings, None, Budget(10**7, 1, 2))
    with pytest.raises(InputError):
        engine.pieces(mock.Mock(), False, mock.Mock())


def test_the_bands_of_a_pass_hold_all_rows_once() -> None:
    begin = np.concatenate(([0], np.cumsum(np.random.default_rng(1).integers(1, 9, 500))))
    for most_entries in (FEW.band_entries, math.inf):
        spans = stored.band_spans(begin, FEW.band_pairs, most_entries)
        assert [first for first, _ in spans] == [0, *(last for _, last in spans)][:-1]
        assert spans[-1][1] == 500
        assert len(spans) > 5


def test_a_search_has_as_many_bands_as_its_pairs_need() -> None:
    """However many clusters are left: their entries are gone through part by part."""
    begin = np.arange(500_001)
    spans = stored.band_spans(begin, Limits().band_pairs)
    assert len(spans) <= 500_000**2 / 2 / Limits().band_pairs + 1
