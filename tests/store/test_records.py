"""Records of a store that were changed, with and without a digest that matches."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dask_rac
from dask_rac.store.overview import overview
from tests.support import crash
from tests.support.hostile import nested
from tests.support.signed import sign, sign_chain
from tests.support.stored import PlugPulledError, stop_after

EDGES = (np.array([0, 1]), np.array([1, 2]), np.array([1.0, 2.0]))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records")
    dask_rac.cluster(EDGES, store=path / "run", shards=1)
    with pytest.raises(PlugPulledError):
        crash.begin(crash.write_edges(path / "edges", crash.path_edges(30)), path / "stopped", progress=stop_after(1))
    return path


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "run", tmp_path / "run"))


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": None},
        {"settings": nested(450)},
        {"source": 3},
        {"source": ["s3://x"]},
        {"n_nodes": -1},
        {"n_nodes": 10**400},
        {"shards": "2"},
        {"weights": "object"},
        {"versions": {"a": 1}},
        {"versions": []},
        {"more": 1},
        {"settings": {"linkage": "ward"}},
    ],
)
def test_headers_that_no_run_has_written(run: Path, changes: dict[str, Any]) -> None:
    sign(run / "rac.json", changes)
    for read in (dask_rac.open, dask_rac.resume, overview):
        with pytest.raises(dask_rac.DamagedStoreError, match=r"rac\.json is damaged"):
            read(run)


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"format": ' * 100_000, b"3", b"null", b"", b"\xff", b"9" * 5_000])
def test_headers_that_are_no_records(run: Path, data: bytes) -> None:
    (run / "rac.json").write_bytes(data)
    with pytest.raises(dask_rac.DamagedStoreError, match=r"rac\.json is damaged"):
        dask_rac.open(run)


@pytest.mark.parametrize(
    "changes",
    [
        {"facts": None},
        {"facts": {"nodes": 2**70}},
        {"merges": {"a": 1}},
        {"merges": [{"name": "../../x", "rows": 1, "low": 0, "high": 1, "bytes": 1, "digest": ""}]},
        {"merges": [{"name": "merges/x", "rows": 10**9, "low": 0, "high": 1, "bytes": 1, "digest": ""}]},
        {"records": [nested(300)]},
        {"seconds": float("nan")},
        {"phases": {"a": "b"}},
        {"state": 3},
        {"state": {"shards": [3]}},
        {"step": True},
    ],
)
def test_manifests_that_no_run_has_written(run: Path, changes: dict[str, Any]) -> None:
    sign(run / "manifests/00000.json", changes)
    with pytest.raises(dask_rac.DamagedStoreError, match=r"manifests/00000\.json is damaged"):
        dask_rac.open(run)
    assert overview(run).damaged == "manifests/00000.json"


def test_a_folder_in_place_of_a_manifest(run: Path) -> None:
    (run / "manifests/00001.json").unlink()
    (run / "manifests/00001.json").mkdir()
    with pytest.raises(dask_rac.DamagedStoreError, match=r"manifests/00001\.json is damaged"):
        dask_rac.open(run)


def test_merges_of_nodes_that_are_not_there(run: Path) -> None:
    """Kernels do not check what they index with."""
    for path in sorted(run.glob("manifests/*.json")):
        facts = json.loads(path.read_bytes())["facts"] | {"nodes": 2}
        merges = [table | {"rows": min(1, table["rows"])} for table in json.loads(path.read_bytes())["merges"]]
        sign(path, {"facts": facts, "merges": merges})
    sign_chain(run, 1)
    with pytest.raises(dask_rac.DamagedStoreError, match=r"merges/.* (does not hold|merges nodes)"):
        dask_rac.open(run).cut(n_clusters=1)


@pytest.mark.parametrize("data", [b"", b'{"round": 9', b"[" * 100_000, b'{"round": -1}', b"null", None])
def test_torn_statistics_are_left_out(made: Path, tmp_path: Path, data: bytes | None) -> None:
    store = Path(shutil.copytree(made / "stopped", tmp_path / "stopped"))
    before = overview(store).rounds
    path = store / "statistics/00099.json"
    path.parent.mkdir(exist_ok=True)
    path.mkdir() if data is None else path.write_bytes(data)
    assert overview(store).rounds == before
    assert dask_rac.open(store).n_trees
