"""Errors are called what they are: of the disk, of the cluster, of the progress function."""

from __future__ import annotations

import errno
import gc
import os
import stat
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dask_rac
from dask_rac.base.errors import StoppedError
from dask_rac.tasks import scratch
from dask_rac.tasks.threads import Threads
from tests.support.crash import begin, path_edges, result_hash, write_edges
from tests.support.undisturbed import StopError, stop_after


@pytest.fixture
def edges(folder: Path) -> Path:
    return write_edges(folder / "edges", path_edges())


def test_a_disk_that_cannot_flush_folders_holds_runs(
    edges: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def refuse(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StopError):
        begin(edges, folder / "run", progress=stop_after(2))
    assert dask_rac.resume(folder / "run").finished


def test_a_failing_disk_is_named_when_a_run_is_resumed(
    edges: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StopError):
        begin(edges, folder / "run", progress=stop_after(2))

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(dask_rac.StoreError, match=r"cannot be used \(Input/output error\): check the disk"):
            dask_rac.resume(folder / "run")
    assert result_hash(dask_rac.resume(folder / "run")) == result_hash(begin(edges, folder / "other"))


def test_a_pipe_that_progress_writes_to_is_not_the_disk(edges: Path, folder: Path) -> None:
    def progress(_: dask_rac.Event) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    with pytest.raises(BrokenPipeError):
        begin(edges, folder / "run", progress=progress)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            StoppedError("the cluster has had no worker for 1 s"),
            "no worker for 1 s; the Dask DataFrame is not",
        ),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "is full: make room and start again; the Dask DataFrame"),
    ],
)
def test_a_dask_dataframe_that_cannot_be_written_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Threads, "compute", fail)
    frame = dd.from_pandas(path_edges()[["source", "target", "weight"]], npartitions=2)
    with pytest.raises(dask_rac.ResourceError, match=message):
        dask_rac.cluster(frame, store=folder / "run", shards=2)
    assert not (folder / "run").exists()


def test_a_run_holds_no_memory_of_threads_that_have_ended(folder: Path) -> None:
    edges = pd.DataFrame({"source": np.arange(50_000), "target": np.arange(1, 50_001), "weight": 1.0})
    edges.to_parquet(folder / "edges.parquet")
    before = list(scratch._slabs)  # other tests may have left threads
    for number in range(6):
        with dask.config.set(num_workers=2):
            dask_rac.cluster(folder / "edges.parquet", store=folder / str(number), shards=4, max_height=0)
    gc.collect()
    assert len(scratch._slabs) <= len(before) + 4  # the threads of the last run may still be ending
