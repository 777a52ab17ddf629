"""All pairs beyond memory: three engines, the same merges, chosen by the plan or by name, killed and resumed."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from scipy.spatial.distance import pdist, squareform

import dask_rac
from dask_rac.runs import loop
from dask_rac.store import manifest
from tests.support.resident import measured
from tests.support.results import assert_same

RNG = np.random.default_rng(0)
POINTS = RNG.normal(RNG.normal(size=(8, 5))[RNG.integers(0, 8, 300)] * 4).astype(np.float32)
POINTS[7:9] = POINTS[50]
DISTANCES = squareform(pdist(POINTS))
WAYS = [
    ("ward", "euclidean", "points"),
    ("average", "cosine", "points"),
    ("average", "euclidean", "certain"),
    ("complete", "manhattan", "certain"),
    ("weighted", "euclidean", "certain"),
    ("single", "euclidean", "certain"),
]

pytestmark = pytest.mark.filterwarnings("ignore:one cluster holds")


class KilledError(BaseException):
    """What no handler catches, as a kill."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors in a file."""
    made = tmp_path_factory.mktemp("vectors") / "vectors.npy"
    np.save(made, POINTS)
    return made


def same_tree(found: dask_rac.Clustering, expected: dask_rac.Clustering) -> None:
    """Compare merges by their clusters; sums of distances may differ in the last digits."""
    assert found.n_nodes == expected.n_nodes
    one, other = (np.sort(result.to_scipy()[:, 2]) for result in (found, expected))
    assert np.allclose(one, other, rtol=1e-9, atol=0)
    for clusters in (3, 10, 40):
        left, right = found.cut(n_clusters=clusters), expected.cut(n_clusters=clusters)
        assert np.array_equal(left, right)


@pytest.mark.parametrize(("linkage", "metric", "engine"), WAYS)
def test_every_engine_gives_the_tree_of_the_matrix(
    linkage: str, metric: str, engine: str, path: Path, tmp_path: Path
) -> None:
    expected = dask_rac.cluster(POINTS, linkage, metric=metric, engine="matrix")
    found = dask_rac.cluster(POINTS, linkage, metric=metric, engine=engine)
    same_tree(found, expected)
    stored = dask_rac.cluster(path, linkage, metric=metric, engine=engine, store=tmp_path / "run")
    assert_same(stored, found)
    assert_same(dask_rac.open(tmp_path / "run"), found)
    assert stored.verify().merges == len(POINTS) - 1
    assert not {"vectors", "near", "near.partial"} & {child.name for child in (tmp_path / "run").iterdir()}
    assert not list((tmp_path / "run" / "rounds").iterdir())


@pytest.mark.parametrize(("linkage", "metric", "engine"), WAYS)
def test_a_run_that_is_killed_at_any_step_goes_on(
    linkage: str, metric: str, engine: str, path: Path, tmp_path: Path
) -> None:
    """Each attempt commits one step more and is killed in the next."""
    expected = dask_rac.cluster(POINTS, linkage, metric=metric, engine=engine)
    for attempt in itertools.count(1):
        committed, commit = itertools.count(), manifest.commit

        def until(*arguments: Any) -> bool:
            if next(committed) == 1:  # noqa: B023 - used up before the next attempt
                raise KilledError
            return commit(*arguments)  # noqa: B023

        with mock.patch.object(manifest, "commit", until):
            try:
                if attempt == 1:
                    found = dask_rac.cluster(path, linkage, metric=metric, engine=engine, store=tmp_path / "run")
                else:
                    found = dask_rac.resume(tmp_path / "run")
            except KilledError:
                assert attempt < 40, "it does not get on"
                continue
        break
    assert attempt > 2
    assert_same(found, expected)


@pytest.mark.parametrize(("linkage", "metric", "engine"), WAYS)
def test_workers_and_threads_give_the_same_bits(
    linkage: str, metric: str, engine: str, path: Path, tmp_path: Path, client: Client
) -> None:
    expected = dask_rac.cluster(POINTS, linkage, metric=metric, engine=engine)
    with dask.config.set(num_workers=1):
        assert_same(dask_rac.cluster(POINTS, linkage, metric=metric, engine=engine), expected)
    with client.as_current():
        assert_same(dask_rac.cluster(path, linkage, metric=metric, engine=engine, store=tmp_path / "run"), expected)


@pytest.mark.parametrize(("linkage", "engine"), [("ward", "points"), ("complete", "certain"), ("single", "certain")])
def test_the_plan_chooses_by_memory(linkage: str, engine: str, path: Path, tmp_path: Path) -> None:
    assert dask_rac.plan(path, linkage, metric="euclidean").engine == "matrix"
    many = RNG.random((6000, 8), np.float32)
    np.save(tmp_path / "many.npy", many)
    plan = dask_rac.plan(tmp_path / "many.npy", linkage, metric="euclidean", memory="100MB")
    assert plan.engine == engine
    assert plan.memory <= 100e6
    assert plan.passes is not None
    assert plan.passes.tiles > 0
    assert {"engine", "passes", "memory", "disk"} <= plan.facts().keys()
    assert plan.to_json()["passes"]["tiles"] == plan.passes.tiles
    found = dask_rac.cluster(many, linkage, metric="euclidean", memory="100MB")
    same_tree(found, dask_rac.cluster(many, linkage, metric="euclidean"))


@pytest.mark.parametrize("linkage", ["complete", "average", "single"])
def test_what_a_plan_allows_runs_through_a_store(linkage: str, tmp_path: Path) -> None:
    np.save(tmp_path / "many.npy", RNG.random((4000, 8), np.float32))
    wanted: dict[str, Any] = {"metric": "euclidean", "memory": "40MB", "engine": "certain"}
    assert dask_rac.plan(tmp_path / "many.npy", linkage, **wanted).memory <= 40e6
    found = dask_rac.cluster(tmp_path / "many.npy", linkage, **wanted, store=tmp_path / "run")
    same_tree(found, dask_rac.cluster(np.load(tmp_path / "many.npy"), linkage, metric="euclidean", engine="matrix"))


def test_a_plan_refuses_what_a_run_would(path: Path, tmp_path: Path) -> None:
    wanted: dict[str, Any] = {"metric": "euclidean", "memory": "1MB", "engine": "certain"}
    for attempt in (dask_rac.plan, lambda *given, **named: dask_rac.cluster(*given, **named, store=tmp_path / "run")):
        with pytest.raises(
            dask_rac.ResourceError, match=r"a pass over all pairs of \d+ vectors needs [\d.]+ MB in each"
        ):
            attempt(path, "complete", **wanted)


def pairs_in(memory: str, linkage: str, vectors: Path, store: Path) -> str:
    """Cluster within a budget; returns the engine that the plan names."""
    dask_rac.cluster(vectors, linkage, metric="euclidean", memory=memory, store=store, progress=False)
    return dask_rac.plan(vectors, linkage, metric="euclidean", memory=memory).engine


@pytest.mark.soak
@pytest.mark.parametrize(
    ("linkage", "engine"), [("ward", "points"), ("complete", "certain"), ("average", "certain"), ("single", "certain")]
)
def test_a_process_stays_within_its_budget(linkage: str, engine: str, tmp_path: Path) -> None:
    """The matrix would take 900 MB; 500 MB are for the interpreter, its libraries and kernels."""
    np.save(tmp_path / "many.npy", RNG.normal(size=(15_000, 64)).astype(np.float32))
    chosen, peak = measured(pairs_in, "200MB", linkage, tmp_path / "many.npy", tmp_path / "run")
    assert chosen == engine
    assert peak <= 700e6


def test_an_engine_that_cannot_do_it_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(dask_rac.InputError, match="'neither' is unknown"):
        dask_rac.cluster(POINTS, engine="neither")
    with pytest.raises(dask_rac.InputError, match=r"engine='points' cannot do linkage='complete'.*'matrix', 'certain'"):
        dask_rac.cluster(POINTS, "complete", engine="points")
    with pytest.raises(dask_rac.InputError, match="engine='certain' cannot do linkage='ward'"):
        dask_rac.plan(path, "ward", metric="euclidean", engine="certain")
    with pytest.raises(dask_rac.InputError, match="is for all pairs of vectors, and these are edges"):
        dask_rac.cluster((np.array([0]), np.array([1]), np.array([1.0])), engine="matrix")
    with pytest.raises(dask_rac.InputError, match="give their path"):
        dask_rac.cluster(DISTANCES, metric="precomputed", engine="certain", store=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("linkage", "engine"), [("ward", "points"), ("average", "certain"), ("single", "certain")])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_points(linkage: str, engine: str, count: int, tmp_path: Path) -> None:
    for store in (None, tmp_path / "run"):
        place: dict[str, Any] = {"store": store}
        found = dask_rac.cluster(POINTS[:count], linkage, metric="euclidean", engine=engine, **place)
        assert len(found.merges) == count - 1


@pytest.mark.parametrize(("linkage", "metric", "engine"), WAYS)
def test_one_point_many_times(linkage: str, metric: str, engine: str, tmp_path: Path) -> None:
    copies = np.ones((30_000, 3), np.float32)
    found = dask_rac.cluster(copies, linkage, metric=metric, engine=engine)
    assert (found.to_scipy()[:, 2] == 0).all()
    copies[0] = 2, 2, 5
    found = dask_rac.cluster(copies, linkage, metric=metric, engine=engine, store=tmp_path / "run")
    assert np.count_nonzero(found.to_scipy()[:, 2]) == 1


@pytest.mark.parametrize(("linkage", "engine"), [("ward", "points"), ("average", "certain"), ("single", "certain")])
def test_vectors_that_change_between_steps_are_refused(linkage: str, engine: str, tmp_path: Path) -> None:
    original, steps = loop.StoredRun._commit, itertools.count()

    def commit(run: Any, *arguments: Any) -> None:
        original(run, *arguments)
        if next(steps) == 0:
            np.save(tmp_path / "vectors.npy", POINTS + 1)
            os.utime(tmp_path / "vectors.npy", ns=(1, 1))

    np.save(tmp_path / "vectors.npy", np.unique(POINTS, axis=0))
    with (
        mock.patch.object(loop.StoredRun, "_commit", commit),
        pytest.raises(dask_rac.InputError, match=r"vectors\.npy has changed since the run began"),
    ):
        dask_rac.cluster(tmp_path / "vectors.npy", linkage, metric="euclidean", engine=engine, store=tmp_path / "run")


@pytest.mark.parametrize(("linkage", "engine"), [("ward", "points"), ("complete", "certain")])
def test_vectors_in_memory_are_kept_until_the_end(linkage: str, engine: str, tmp_path: Path) -> None:
    commit = manifest.commit
    with (
        mock.patch.object(manifest, "commit", lambda *given: commit(*given) and (_ for _ in ()).throw(KilledError)),
        pytest.raises(KilledError),
    ):
        dask_rac.cluster(da.from_array(POINTS, chunks=(50, 5)), linkage, engine=engine, store=tmp_path / "run")
    assert (tmp_path / "run" / "vectors").exists()
    assert_same(dask_rac.resume(tmp_path / "run"), dask_rac.cluster(POINTS, linkage, engine=engine))
    assert not (tmp_path / "run" / "vectors").exists()


@pytest.mark.parametrize("linkage", ["complete", "average", "weighted", "single"])
@pytest.mark.parametrize("form", ["npy", "zarr"])
def test_a_matrix_of_distances_beyond_memory(linkage: str, form: str, tmp_path: Path) -> None:
    given = tmp_path / f"distances.{form}"
    if form == "npy":
        np.save(given, DISTANCES)
    else:
        da.from_array(DISTANCES, chunks=(64, 64)).to_zarr(str(given))
    expected = dask_rac.cluster(DISTANCES, linkage, metric="precomputed")
    found = dask_rac.cluster(given, linkage, metric="precomputed", engine="certain", store=tmp_path / "run")
    same_tree(found, expected)
    same_tree(dask_rac.cluster(given, linkage, metric="precomputed", engine="certain"), expected)


@pytest.mark.parametrize("engine", ["points", "certain"])
def test_vectors_that_cannot_be_compared_are_refused_before_anything_is_written(engine: str, tmp_path: Path) -> None:
    linkage = "average"
    for bad, metric, text in ((np.nan, "sqeuclidean", "nan"), (0.0, "cosine", "all zeros")):
        vectors = POINTS.copy()
        vectors[5] = bad
        with pytest.raises(dask_rac.InputError, match=text):
            dask_rac.cluster(vectors, linkage, metric=metric, engine=engine, store=tmp_path / "run")
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("linkage", ["complete", "single"])
def test_distances_beyond_memory_are_checked(linkage: str, tmp_path: Path) -> None:
    for place, value, text in (((7, 2), np.nan, "nan"), ((2, 9), -1.0, "-1"), ((11, 4), 99.0, "symmetric")):
        distances = DISTANCES.copy()
        distances[place] = value
        np.save(tmp_path / "distances.npy", distances)
        for store in (None, tmp_path / "run"):
            kind: dict[str, Any] = {"metric": "precomputed", "engine": "certain", "store": store}
            with pytest.raises(dask_rac.InputError, match=text):
                dask_rac.cluster(tmp_path / "distances.npy", linkage, **kind)


def test_linkage_and_the_estimator_go_beyond_memory() -> None:
    vectors = RNG.random((3000, 4))
    with mock.patch("dask_rac.runs.in_memory.pairs_room", return_value=20_000_000):
        tree = dask_rac.linkage(vectors, "ward")
        labels = dask_rac.RAC(n_clusters=5).fit_predict(vectors)
    assert np.allclose(tree[:, 2], dask_rac.linkage(vectors, "ward")[:, 2], rtol=1e-9, atol=0)
    assert np.array_equal(labels, dask_rac.RAC(n_clusters=5).fit_predict(vectors))
