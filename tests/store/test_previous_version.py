"""Stores of the previous version are read, verified and resumed, and the current version writes the same names."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dask_rac
from dask_rac.store.overview import overview
from tests.fixtures.make_stores import CASES, NODES, Case, edges, make_store
from tests.support.crash import layout
from tests.support.folders import no_fsync
from tests.support.results import assert_same, merges_frame
from tests.support.root import ROOT

STORES = ROOT / "tests/fixtures/stores"


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    made: Case = request.param
    return made


@pytest.fixture
def old(case: Case, folder: Path) -> Iterator[Path]:
    """A store as the previous version left it."""
    with zipfile.ZipFile(STORES / f"{case.name}.zip") as packed, no_fsync():
        packed.extractall(folder / "old")
        yield folder / "old"


def expected(case: Case) -> dask_rac.Clustering:
    """What the current version makes of the same edges in memory."""
    whole: dask_rac.Clustering = dask_rac.cluster(edges(), **case.settings)
    return whole


def test_no_store_is_left_over() -> None:
    assert {path.stem for path in STORES.iterdir()} == {case.name for case in CASES}


def test_it_opens_and_shows_the_beginning_of_the_same_merges(case: Case, old: Path) -> None:
    found, whole = dask_rac.open(old), expected(case)
    assert found.finished == (not case.stop)
    assert found.n_nodes == NODES
    merges = merges_frame(found)
    shown = len(whole.merges) if found.finished else 0 if case.linkage == "single" else None
    assert shown in {None, len(merges)}
    pd.testing.assert_frame_equal(merges, whole.merges[: len(merges)])
    if case.stop == "round":
        assert found.rounds["round"].tolist() == list(range(1, case.rounds + 1))


def test_its_overview_is_complete(case: Case, old: Path) -> None:
    known = overview(old)
    assert known.status == ("stopped" if case.stop else "finished")
    assert known.damaged is None
    assert known.facts is not None
    assert (known.facts.nodes, known.facts.edges) == (NODES, len(edges()[0]))
    assert known.header.settings.linkage == case.linkage
    assert known.header.source is None
    assert known.merges == len(dask_rac.open(old).merges)
    json.dumps(known.to_json())


def test_it_resumes_to_the_same_bits_and_is_verified(case: Case, old: Path) -> None:
    kept = {path.name: path.read_bytes() for path in (old / "manifests").iterdir()}
    found = dask_rac.resume(old)
    assert_same(found, expected(case))
    assert_same(dask_rac.open(old), found)
    assert found.verify(edges()).ok
    assert kept == {name: (old / "manifests" / name).read_bytes() for name in kept}, "a committed step was done again"


def key_paths(value: Any, path: str = "") -> Iterator[str]:
    """Yield where the keys of a JSON value are; all items of a list are in one place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}/{key}"
            yield from key_paths(inner, f"{path}/{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from key_paths(inner, f"{path}/[]")


def keys_of(store: Path) -> dict[str, set[str]]:
    """The keys of every JSON file of a store, by its name without the random part."""
    return {
        re.sub(r"-[0-9a-f]{8}", "", str(path.relative_to(store))): set(key_paths(json.loads(path.read_text())))
        for path in store.rglob("*.json")
    }


def delete_older_states(store: Path) -> None:
    """How long a version keeps a state that is not the newest is not part of the format."""
    newest = max(path.stem for path in store.glob("manifests/*.json"))
    for path in store.glob("rounds/*"):
        if not path.name.startswith(newest):
            shutil.rmtree(path)


def test_the_current_version_writes_the_same_names(case: Case, old: Path, folder: Path) -> None:
    make_store(case, folder / "new")
    (folder / "new/lock").unlink()
    for store in (old, folder / "new"):
        delete_older_states(store)
    before, now = keys_of(old), keys_of(folder / "new")
    assert {"rac.json", "manifests/00000.json"} <= before.keys()
    assert "/state/component" in before["manifests/00000.json"]
    assert now == before
    assert layout(folder / "new") == layout(old)
