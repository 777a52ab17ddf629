"""Names on disk: stores that were written before must stay readable."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from dask_rac.base import names


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
