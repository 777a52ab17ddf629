"""Runs on an object store that fails for a while."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any
from unittest import mock

import dask
import pytest

import dask_rac
from dask_rac.base.names import HEADER
from dask_rac.files import patience
from dask_rac.files.folder import Folder
from dask_rac.runs import begin
from tests.support.crash import result_hash
from tests.support.flaky import FlakyRuns, flaky_store
from tests.support.weather import Weather


@pytest.fixture
def runs() -> Iterator[FlakyRuns]:
    with flaky_store() as made, mock.patch.object(patience, "sleep"):
        made.prepare()
        yield made


def test_failures_that_pass_do_not_show(runs: FlakyRuns) -> None:
    with runs.weather(Weather(Random(1), often=0.1, burst=3)):
        assert result_hash(runs.finish("run")) == runs.hash


def test_a_beginning_that_is_undone_in_part_can_be_resumed(runs: FlakyRuns) -> None:
    """The server fails while the edges are read, and again after the first deletion."""
    deleted = 0

    def fail(*_: Any) -> None:
        raise dask_rac.StoreError("out of reach")

    def delete(folder: Folder, name: str) -> None:
        nonlocal deleted
        deleted += 1
        if deleted > 1:
            raise dask_rac.StoreError("out of reach again")
        remove(folder, name)

    remove = Folder.remove
    with (
        mock.patch.object(begin, "run_to_end", fail),
        mock.patch.object(Folder, "remove", delete),
        pytest.raises(dask_rac.StoreError, match=r"^out of reach$"),
    ):
        runs.finish("run")
    assert runs.names(f"run/{HEADER}")
    assert result_hash(runs.finish("run")) == runs.hash


def test_a_server_that_stays_away_is_named_with_a_remedy(runs: FlakyRuns) -> None:
    message = r"^flaky://run .*(try again or resume|then try again)"
    with (
        runs.weather(Weather(Random(0), down_after=100)),
        dask.config.set({"rac.store-timeout": "0s"}),
        pytest.raises(dask_rac.StoreError, match=message),
    ):
        runs.finish("run")
    assert result_hash(runs.finish("run")) == runs.hash
