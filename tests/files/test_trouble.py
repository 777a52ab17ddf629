"""Whatever the operating system says about a file, users read what to do, and programs get a typed error."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from click.testing import CliRunner

import dask_rac
from dask_rac.cli import main
from dask_rac.files.folder import Folder
from dask_rac.files.trouble import is_trouble, trouble_text
from dask_rac.files.urls import explained

NUMBERS = (
    errno.EIO,
    errno.EROFS,
    errno.ESTALE,
    errno.EACCES,
    errno.EPERM,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EMFILE,
    errno.EBADF,
)
EDGES = (np.array([0, 1]), np.array([1, 2]), np.array([1.0, 2.0]))


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number), "/disk/file")

    return fail


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trouble") / "run"
    dask_rac.cluster(EDGES, store=path)
    return path


@pytest.mark.parametrize("number", NUMBERS)
def test_one_sentence_each(number: int) -> None:
    text = trouble_text("here", OSError(number, "", "/disk/file"))
    assert text.startswith(f"/disk/file cannot be used ({os.strerror(number)}): ")
    assert trouble_text("here", OSError(number, "")).startswith("here cannot be used")
    with pytest.raises(dask_rac.StoreError, match="cannot be used"), explained("/disk"):
        failing(number)()


def test_other_errors_are_left_alone() -> None:
    assert not is_trouble(OSError("no number"))
    assert not is_trouble(ValueError())
    for kind in (FileNotFoundError, IsADirectoryError, NotADirectoryError, FileExistsError):
        with pytest.raises(kind), explained("/disk"):
            raise kind(2, "")


@pytest.mark.parametrize("number", NUMBERS)
def test_a_store_that_cannot_be_read(run: Path, number: int) -> None:
    with mock.patch.object(type(Folder(run).filesystem), "cat_file", failing(number)):
        for read in (dask_rac.open, dask_rac.resume):
            with pytest.raises(dask_rac.StoreError, match=r"/disk/file cannot be used"):
                read(run)
        said = CliRunner().invoke(main, ["info", str(run)])
        assert said.exit_code == 2
        assert "bug" not in said.output
        assert "Traceback" not in said.output


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ESTALE, errno.ENOENT])
def test_a_store_that_cannot_be_written(tmp_path: Path, number: int) -> None:
    """As when its disk fails, or it is deleted while the run goes on."""
    with (
        mock.patch("dask_rac.store.manifest.commit", failing(number)),
        pytest.raises(dask_rac.StoreError, match=r"/disk/file cannot be used \(.*\): ."),
    ):
        dask_rac.cluster(EDGES, store=tmp_path / "run")


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_an_output_that_cannot_be_written(run: Path, tmp_path: Path, number: int) -> None:
    with (
        mock.patch("dask_rac.files.labels._write_parquet", failing(number)),
        pytest.raises(dask_rac.InputError, match=r"labels\.parquet cannot be written"),
    ):
        dask_rac.open(run).cut(n_clusters=2, store=tmp_path / "labels.parquet")
    with (
        mock.patch("dask_rac.edges.writing.pq.ParquetWriter", failing(number)),
        pytest.raises(dask_rac.InputError, match="edges cannot be written"),
    ):
        dask_rac.datasets.lattice(20, 4, store=tmp_path / "edges")


def test_errors_that_reach_the_command_line(run: Path) -> None:
    with mock.patch("dask_rac.store.overview.overview", failing(errno.EIO)):
        said = CliRunner().invoke(main, ["info", str(run)])
    assert said.exit_code == 2
    assert "dask-rac: error: /disk/file cannot be used (Input/output error): check the disk" in said.output


def test_a_folder_in_place_of_a_file(run: Path, tmp_path: Path) -> None:
    (tmp_path / "store/rac.json").mkdir(parents=True)
    with pytest.raises(dask_rac.DamagedStoreError, match=r"rac\.json is damaged"):
        dask_rac.open(tmp_path / "store")
    (tmp_path / "labels.parquet").mkdir()
    with pytest.raises(dask_rac.InputError, match="exists and is never overwritten"):
        dask_rac.open(run).cut(n_clusters=2, store=tmp_path / "labels.parquet")
    with pytest.raises(dask_rac.InputError, match="cannot be written"):
        dask_rac.open(run).cut(n_clusters=2, store=run / "rac.json/labels.parquet")
    for name in ("nul\0", "a" * 300):
        with pytest.raises((dask_rac.InputError, dask_rac.StoreError), match=r"NUL|too long"):
            dask_rac.cluster(EDGES, store=tmp_path / name)
