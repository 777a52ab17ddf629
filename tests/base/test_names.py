"""Names on disk: stores that were written before must stay readable."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dask_rac.base import names
from tests.support.root import ROOT


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        (lambda: names.manifest_name(3), "manifests/00003.json"),
        (lambda: names.statistics_name(12), "statistics/00012.json"),
        (lambda: names.attempt_folder("00003-1f0c2d3e"), "rounds/00003-1f0c2d3e"),
        (lambda: names.attempt_name(3), "00003-[0-9a-f]{8}"),
        (lambda: names.merges_name("00003-1f0c2d3e", 7), "merges/00003-1f0c2d3e-00007-[0-9a-f]{8}.parquet"),
        (lambda: names.tree_name("00003-1f0c2d3e"), "tree/00003-1f0c2d3e/tree-[0-9a-f]{8}"),
        (lambda: names.shard_name(7), "shard-00007"),
        (lambda: names.moved_name(2, 7), "moved-2-00007"),
        (lambda: names.candidates_name(7), "candidates-00007"),
        (lambda: names.partition_name(7), "input/partition-00007.parquet"),
    ],
)
def test_names_stay(name: Callable[[], str], pattern: str) -> None:
    assert re.fullmatch(pattern, name())


def test_names_of_steps_sort_by_number() -> None:
    assert [names.step_name(step) for step in (9, 10, 99_999)] == sorted(map(names.step_name, (99_999, 10, 9)))
    assert names.attempt_name(9) < names.step_name(10) < names.attempt_name(10)


def test_no_two_attempts_have_one_name() -> None:
    assert len({names.attempt_name(1) for _ in range(100)}) == 100


@pytest.mark.parametrize("packed", sorted((ROOT / "tests/fixtures/stores").iterdir()), ids=lambda path: path.stem)
def test_all_that_runs_have_written_are_names_of_ours(packed: Path) -> None:
    with zipfile.ZipFile(packed) as store:
        found = {tuple(name.split("/")[:2]) for name in store.namelist() if name.rstrip("/") not in names.STORE_NAMES}
    assert len(found) >= 2
    assert not [(folder, name) for folder, name in found if not names.is_ours(folder, name)]


OURS = ["rounds/00003-1f0c2d3e", "rounds/verify-00000-1f0c2d3e", "rounds/123456-1f0c2d3e", "tree/00003-1f0c2d3e"]
OURS += ["merges/00003-1f0c2d3e-00007-89abcdef.parquet", "manifests/00003.json", "statistics/00003.json"]
OURS += ["manifests/00003.json.89abcdef.new", "input/partition-00007.parquet", "/rac.json", "/rac.json.89abcdef.new"]
FOREIGN = ["rounds/mine", "rounds/00003", "rounds/00003-1f0c2d3", "rounds/00003-1F0C2D3E", "rounds/verify-mine"]
FOREIGN += ["merges/00003-1f0c2d3e.parquet", "merges/mine.parquet", "manifests/mine.json", "manifests/3.json"]
FOREIGN += ["manifests/00003.json.bak", "manifests/00003.json.new", "statistics/notes.json", "input/mine.parquet"]
FOREIGN += ["/mine", "/mine.89abcdef.new", "/rac.json.new", "tree/verify-00000-1f0c2d3e", "manifests/00003.json\n"]


@pytest.mark.parametrize("name", [*OURS, *FOREIGN])
def test_names_of_ours_are_told_from_others(name: str) -> None:
    assert names.is_ours(*name.split("/")) == (name in OURS)


def test_temporary_names_are_recognised() -> None:
    made = names.temporary_name("labels.csv", names.PARTIAL)
    assert names.is_temporary(made, "labels.csv", names.PARTIAL)
    assert not names.is_temporary(made, "labels_csv", names.PARTIAL)
    assert not names.is_temporary(made)
    assert names.temporary_name("labels.csv") != names.temporary_name("labels.csv")
