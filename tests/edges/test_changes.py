"""A changed file of edges is noticed on every file system, and an unchanged one is never taken for another."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import fsspec
import pandas as pd
import pytest
import zarr
from fsspec.implementations.memory import MemoryFileSystem

import dask_rac
from dask_rac.edges.source import EdgeSource, open_edges
from tests.support.times import report_times

FRAME = pd.DataFrame({"source": [0, 1], "target": [1, 2], "weight": [1.0, 2.0]})


@pytest.fixture
def far(tmp_path: Path) -> Iterator[str]:
    """A folder of two files of edges in the memory of this process."""
    url = f"memory://{tmp_path.name}/edges"
    for part in range(2):
        FRAME.to_parquet(f"{url}/part-{part}.parquet")
    yield url
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.mark.parametrize("name", ["", "/part-1.parquet"])
def test_a_file_of_equal_size_that_replaces_another_is_noticed(far: str, name: str) -> None:
    source = open_edges(far + name)
    assert source.reachable()
    assert open_edges(far + name).fingerprint == source.fingerprint
    FRAME.to_parquet(f"{far}/part-1.parquet")
    assert open_edges(far + name).bytes == source.bytes
    assert not source.reachable()
    assert open_edges(far + name).fingerprint != source.fingerprint


def test_a_run_is_not_resumed_with_other_edges(far: str, tmp_path: Path) -> None:
    def stop(event: dask_rac.Event) -> None:
        if event.stage == "round":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dask_rac.cluster(far, store=tmp_path / "run", linkage="average", progress=stop)
    FRAME.to_parquet(f"{far}/part-0.parquet")
    with pytest.raises(dask_rac.InputError, match="has changed since the run began"):
        dask_rac.resume(tmp_path / "run")


@pytest.mark.parametrize("key", ["mtime", "LastModified", "created", "last_modified"])
def test_a_time_in_two_forms_is_one_time(far: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report_times(monkeypatch, key)
    folder, file = open_edges(far), open_edges(f"{far}/part-0.parquet")
    assert folder.reachable()
    assert file.reachable()
    assert folder.files[0].stamp == file.files[0].stamp == "1772368215.25"


def test_fingerprints_of_local_files_stay(tmp_path: Path) -> None:
    """Headers of runs hold them: another text for the same file, and no run could be resumed."""
    for part, seconds in enumerate((1_700_000_000.25, 1_700_000_001)):
        FRAME.to_parquet(tmp_path / f"part-{part}.parquet")
        os.utime(tmp_path / f"part-{part}.parquet", (seconds, seconds))
    source = open_edges(tmp_path)
    assert [file.stamp for file in source.files] == ["1700000000.25", "1700000001.0"]
    # Sizes depend on the version of pyarrow, and paths on where tests run.
    files = tuple(replace(file, path=f"/e/{number}", bytes=1000) for number, file in enumerate(source.files))
    assert EdgeSource("/e", False, files).fingerprint == (
        "8ee7eb899786dbf2419ac768e318c184f80aa97dd541c0556ab8e64448f82787"
    )


def test_fingerprints_of_local_zarr_groups_stay(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "edges")
    for name in FRAME:
        group.create_array(str(name), data=FRAME[name].to_numpy())
    source, root = open_edges(tmp_path / "edges"), str(tmp_path / "edges")
    infos = fsspec.filesystem("file").find(root, detail=True)
    facts = [[path.removeprefix(root), str(info["mtime"]), info["size"]] for path, info in sorted(infos.items())]
    assert len(facts) >= 7
    assert source.files[0].stamp == sha256(json.dumps(facts).encode()).hexdigest()


def test_a_zarr_group_that_is_gone_or_another_is_noticed(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "edges")
    for name in FRAME:
        group.create_array(str(name), data=FRAME[name].to_numpy())
    source = open_edges(tmp_path / "edges")
    assert source.reachable()
    group.create_array("weight", data=FRAME["weight"].to_numpy() + 1, overwrite=True)
    assert not source.reachable()
    (tmp_path / "edges").rename(tmp_path / "elsewhere")
    assert not source.reachable()
