"""A run that nothing stops, and two that were stopped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import dask_rac
from tests.support import crash
from tests.support.crash import begin, layout, manifests, result_hash
from tests.support.folders import no_fsync, quick_folder
from tests.support.undisturbed import POINTS, StopError, Undisturbed, stop_after


@pytest.fixture(scope="module")
def whole() -> Iterator[Undisturbed]:
    with quick_folder() as folder, no_fsync():
        edges = crash.write_edges(folder / "edges", crash.path_edges())
        store = folder / "whole"
        calls = crash.count_calls(POINTS, lambda: begin(edges, store))
        yield Undisturbed(folder, edges, result_hash(dask_rac.open(store)), layout(store), calls)


@pytest.fixture
def store(whole: Undisturbed) -> Iterator[Path]:
    path = whole.folder / "run"
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def stopped(whole: Undisturbed) -> Path:
    store = whole.folder / "stopped"
    with pytest.raises(StopError):
        begin(whole.edges, store, progress=stop_after(2))
    assert len(manifests(store)) == 3
    return store


@pytest.fixture(scope="module")
def stranger(whole: Undisturbed) -> Path:
    """A run on other edges, also stopped."""
    store, edges = whole.folder / "stranger", whole.folder / "other edges"
    crash.write_edges(edges, crash.path_edges(seed=1))
    with pytest.raises(StopError):
        begin(edges, store, progress=stop_after(2))
    return store
