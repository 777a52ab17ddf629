"""A manifest that vanishes is noticed, wherever it was; a run in progress is not mistaken for one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import dask_rac
from dask_rac.files.folder import Folder
from dask_rac.store import committed
from dask_rac.store.committed import read_committed
from dask_rac.store.manifest import Manifest, read_chain
from dask_rac.store.overview import overview
from tests.support import crash
from tests.support.folders import no_fsync

NODES = 40


@pytest.fixture(autouse=True)
def _quick_disk() -> Iterator[None]:
    with no_fsync():
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("committed") / "run"
    with no_fsync():
        crash.begin(crash.path_edges(NODES), store)
    return store


@pytest.fixture
def store(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


USES: dict[str, Callable[[Path], Any]] = {
    "open": dask_rac.open,
    "resume": dask_rac.resume,
    "labels": lambda store: dask_rac.open(store).labels,
    "cut": lambda store: dask_rac.open(store).cut(height=1.0),
    "export": lambda store: dask_rac.open(store).export(store / "tree.nwk"),
    "verify": lambda store: dask_rac.open(store).verify(crash.path_edges(NODES)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("lost", [1, 2])
def test_a_finished_run_without_its_last_manifests_is_not_shown_as_unfinished(store: Path, use: str, lost: int) -> None:
    paths = sorted(store.glob("manifests/*.json"))[-lost:]
    for path in paths:
        path.unlink()
    with pytest.raises(dask_rac.DamagedStoreError, match=rf"{paths[0]} is damaged or missing"):
        USES[use](store)
    assert overview(store).damaged == f"manifests/{paths[0].name}"


def test_every_other_manifest_is_missed_too(store: Path) -> None:
    for path in sorted(store.glob("manifests/*.json"))[:-1]:
        data = path.read_bytes()
        path.unlink()
        with pytest.raises(dask_rac.DamagedStoreError, match=path.name):
            dask_rac.open(store)
        path.write_bytes(data)
    assert dask_rac.open(store).finished


def test_a_run_that_moves_on_while_it_is_read_is_not_damaged(store: Path) -> None:
    """Its newest step is committed, and the states before are deleted, after all manifests there were are read."""
    last = max(store.glob("manifests/*.json"))
    data, reads = last.read_bytes(), 0
    last.unlink()

    def read(folder: Folder) -> list[Manifest]:
        nonlocal reads
        chain, reads = read_chain(folder), reads + 1
        last.write_bytes(data)
        return chain

    with mock.patch.object(committed, "read_chain", read):
        found = read_committed(Folder(store))
    assert (found.lost, reads) == (None, 2)
    assert found.chain[-1].state is None
