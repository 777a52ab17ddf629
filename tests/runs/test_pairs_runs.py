"""All pairs with a store and on workers: opened, resumed and audited as any run, from whatever holds them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client
from scipy.cluster import hierarchy
from scipy.spatial.distance import pdist, squareform

import dask_rac
from dask_rac.runs import in_memory
from dask_rac.store import manifest
from tests.support.all_pairs import LINKAGES
from tests.support.clients import nothing_left
from tests.support.folders import snapshot
from tests.support.results import assert_same

POINTS = np.random.default_rng(0).random((70, 3))
DISTANCES = squareform(pdist(POINTS, "cityblock"))
FORMS = ("array", "npy", "zarr", "zarr path", "dask", "list")


class KilledError(BaseException):
    """What no handler catches, as a kill."""


def killed(*_: Any) -> bool:
    raise KilledError


def given_as(form: str, values: Any, folder: Path) -> Any:
    """The same values in another form."""
    if form == "npy":
        np.save(folder / "given.npy", values)
        return folder / "given.npy"
    if form.startswith("zarr"):
        array = zarr.create_array(str(folder / "given.zarr"), data=values, chunks=(20, values.shape[1]))
        return str(folder / "given.zarr") if form == "zarr path" else array
    return {"array": values, "list": values.tolist(), "dask": da.from_array(values, chunks=(20, 2))}[form]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Vectors in a file."""
    made: Path = given_as("npy", POINTS, tmp_path)
    return made


@pytest.mark.parametrize("linkage", LINKAGES)
def test_a_run_is_stored_opened_and_resumed(linkage: str, path: Path, tmp_path: Path) -> None:
    expected = dask_rac.cluster(POINTS, linkage, metric="euclidean")
    stored = dask_rac.cluster(path, linkage, metric="euclidean", store=tmp_path / "run")
    kept = snapshot(tmp_path / "run" / "manifests")
    for found in (stored, dask_rac.open(tmp_path / "run"), dask_rac.resume(tmp_path / "run")):
        assert_same(found, expected)
        assert found.verify().merges == 69
        assert np.array_equal(found.cut(n_clusters=5), expected.cut(n_clusters=5))
        assert np.array_equal(found.to_scipy(), expected.to_scipy())
    assert hierarchy.is_valid_linkage(stored.to_scipy())
    assert_same(dask_rac.resume(tmp_path / "run", wait=False).result(), expected)
    assert snapshot(tmp_path / "run" / "manifests") == kept


@pytest.mark.parametrize("linkage", ["average", "ward"])
def test_a_killed_run_begins_again_from_its_file(linkage: str, path: Path, tmp_path: Path) -> None:
    with mock.patch.object(manifest, "commit", killed), pytest.raises(KilledError):
        dask_rac.cluster(path, linkage, metric="euclidean", store=tmp_path / "run")
    with pytest.raises(dask_rac.StoreError, match="resume"):
        dask_rac.cluster(path, linkage, metric="euclidean", store=tmp_path / "run")
    found = dask_rac.resume(tmp_path / "run")
    assert_same(found, dask_rac.cluster(POINTS, linkage))
    assert found.verify().merges == 69
    fresh = dask_rac.cluster(path, linkage, metric="euclidean", store=tmp_path / "fresh")
    assert fresh.n_nodes == 70
    counts = [len(list((tmp_path / name).rglob("*"))) for name in ("run", "fresh")]
    assert counts[0] == counts[1]


def test_a_killed_run_of_an_array_cannot_be_resumed_and_says_so(tmp_path: Path) -> None:
    with mock.patch.object(manifest, "commit", killed), pytest.raises(KilledError):
        dask_rac.cluster(POINTS, store=tmp_path / "run")
    with pytest.raises(dask_rac.StoreError, match="not on disk: start a new run in another folder"):
        dask_rac.resume(tmp_path / "run")


def test_a_source_that_has_changed_is_refused(path: Path, tmp_path: Path) -> None:
    with mock.patch.object(manifest, "commit", killed), pytest.raises(KilledError):
        dask_rac.cluster(path, store=tmp_path / "killed")
    finished = dask_rac.cluster(path, store=tmp_path / "finished")
    np.save(path, POINTS + 1)
    os.utime(path, ns=(1, 1))
    with pytest.raises(dask_rac.InputError, match="changed"):
        dask_rac.resume(tmp_path / "killed")
    with pytest.raises(dask_rac.InputError, match="changed"):
        finished.verify()
    assert finished.verify(POINTS).merges == 69
    assert_same(dask_rac.resume(tmp_path / "finished"), dask_rac.cluster(POINTS))


def test_a_source_that_is_gone_is_named(path: Path, tmp_path: Path) -> None:
    with mock.patch.object(manifest, "commit", killed), pytest.raises(KilledError):
        dask_rac.cluster(path, store=tmp_path / "killed")
    path.unlink()
    with pytest.raises(dask_rac.InputError, match=r"given\.npy"):
        dask_rac.resume(tmp_path / "killed")


def test_a_finished_run_of_an_array_is_audited_with_what_it_was_given(tmp_path: Path) -> None:
    found = dask_rac.cluster(POINTS, "complete", store=tmp_path / "run")
    assert_same(dask_rac.resume(tmp_path / "run"), found)
    opened = dask_rac.open(tmp_path / "run")
    with pytest.raises(
        dask_rac.InputError, match=r"the vectors .* not on disk: give them again with verify\(vectors\)"
    ):
        opened.verify()
    assert opened.verify(POINTS).merges == 69
    with pytest.raises(dask_rac.InputError, match="69 points, and the clustering has 70 nodes"):
        opened.verify(POINTS[1:])
    with pytest.raises(dask_rac.AuditError):
        opened.verify(POINTS * 2)


@pytest.mark.parametrize("linkage", ["average", "complete", "single", "weighted"])
def test_similarities_are_stored_as_users_see_them(linkage: str, tmp_path: Path) -> None:
    options: Any = {"metric": "inner_product", "weights": "similarity", "max_height": 0.4}
    expected = dask_rac.cluster(POINTS, linkage, **options)
    found = dask_rac.cluster(POINTS, linkage, **options, store=tmp_path / "run")
    assert_same(found, expected)
    assert found.verify(POINTS).merges == expected.verify().merges
    assert expected.merges["height"].min() >= 0.4
    first = np.triu(POINTS @ POINTS.T, 1).max()
    np.testing.assert_allclose(expected.merges["height"].max(), first, rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("metric", ["manhattan", "precomputed"])
def test_any_form_gives_the_same_here_on_a_worker_and_in_a_store(
    form: str, metric: str, client: Client, tmp_path: Path
) -> None:
    values = DISTANCES if metric == "precomputed" else POINTS
    expected = dask_rac.cluster(values, "average", metric=metric)
    given = given_as(form, values, tmp_path)
    for number, where in enumerate((None, client)):
        found = dask_rac.cluster(given, "average", metric=metric, client=where)
        assert_same(found, expected)
        assert found.verify().merges == 69
        stored = dask_rac.cluster(given, "average", metric=metric, client=where, store=tmp_path / f"run {number}")
        assert_same(stored, expected)
        handle = dask_rac.cluster(given, "average", metric=metric, client=where, wait=False)
        assert_same(handle.result(), expected)
    assert nothing_left(client)


def test_a_client_runs_it_on_one_of_its_workers(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> Any:
        raise AssertionError("in this process")

    monkeypatch.setattr(in_memory, "find_merges", nothing)
    events: list[dask_rac.Event] = []
    found = dask_rac.cluster(POINTS, "ward", client=client, progress=events.append)
    assert found.n_trees == 1
    assert {"rounds", "round", "done"} <= {event.stage for event in events}


def test_a_worker_refuses_what_is_wrong_or_too_large(client: Client, path: Path) -> None:
    wrong = DISTANCES.copy()
    wrong[3, 8] = -1
    with pytest.raises(dask_rac.InputError, match="row 3, column 8"):
        dask_rac.cluster(wrong, metric="precomputed", client=client)
    many = np.arange(20_000.0)[:, None]
    with pytest.raises(dask_rac.ResourceError, match="all pairs of 20,000 nodes need"):
        dask_rac.cluster(many, engine="matrix", client=client)
    square = np.zeros((8_000, 8_000))  # beside it a worker of 1 GB has no room for half of it
    with pytest.raises(dask_rac.ResourceError, match="all pairs of 8,000 nodes need"):
        dask_rac.cluster(square, metric="precomputed", engine="matrix", client=client)
    np.save(path, many)
    with pytest.raises(dask_rac.ResourceError, match="all pairs of 20,000 nodes need"):
        dask_rac.cluster(path, engine="matrix", client=client)
    assert nothing_left(client)
