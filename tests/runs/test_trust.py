"""A store from someone else names edges anywhere: no other server is contacted without the user's word."""

import socket
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest
from click.testing import CliRunner

import dask_rac
from dask_rac.cli import main
from dask_rac.files.urls import servers
from tests.support import crash
from tests.support.recipes import run as run_recipe
from tests.support.signed import sign, sign_chain
from tests.support.stored import PlugPulledError, stop_after


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """The address of a server that nobody may contact: it never answers, and sees who tries."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/edges"
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    edges = crash.write_edges(tmp_path / "edges", crash.path_edges(30))
    with pytest.raises(PlugPulledError):
        crash.begin(edges, tmp_path / "run", progress=stop_after(1))
    return tmp_path / "run"


def test_what_would_be_contacted() -> None:
    assert servers("/data/what?#") == servers("file:///x") == servers("memory://x") == set()
    assert servers("s3://bucket/a") == servers("s3://bucket/b/c") == {"s3://bucket"}
    assert servers("simplecache::s3://b/x") == {"simplecache", "s3://b"}
    assert servers("zip://x::http://h:1/y") == {"zip://x", "http://h:1"}
    assert servers("reference::/data/x.json") == {"reference"}


def test_resume_asks(store: Path, elsewhere: str) -> None:
    sign(store / "rac.json", {"source": elsewhere})
    for manifest in store.glob("manifests/*"):
        manifest.unlink()
    refused = rf"run names its input at {elsewhere}, .*: if you trust the store, pass trust_source=True$"
    with pytest.raises(dask_rac.StoreError, match=refused):
        dask_rac.resume(store)
    with pytest.raises(dask_rac.StoreError, match=refused):
        dask_rac.resume(store, wait=False).result()
    said = CliRunner().invoke(main, ["resume", str(store)])
    assert said.exit_code == 2
    assert "pass --trust-source" in said.output


def test_edges_that_were_read_are_not_needed(store: Path, elsewhere: str) -> None:
    """The state of the run has all of them."""
    sign(store / "rac.json", {"source": elsewhere})
    sign_chain(store, 0)
    expected = dask_rac.cluster(crash.path_edges(30)[["source", "target", "weight"]], finisher=False)
    assert dask_rac.resume(store).finished
    np.testing.assert_array_equal(dask_rac.open(store).labels, expected.labels)


def test_verify_asks(store: Path, elsewhere: str, tmp_path: Path) -> None:
    dask_rac.resume(store)
    sign(store / "rac.json", {"source": elsewhere})
    sign_chain(store, 0)
    found = dask_rac.open(store)
    with pytest.raises(dask_rac.StoreError, match=r"trust_source=True, or give the edges with verify\(edges\)$"):
        found.verify()
    assert found.verify(tmp_path / "edges").ok
    said = CliRunner().invoke(main, ["verify", str(store)])
    assert (said.exit_code, "--trust-source, or give the edges with --edges" in said.output) == (2, True)


def test_who_has_named_the_edges_is_not_asked(tmp_path: Path) -> None:
    """In this process, or in the recipe, which may say so once for all."""
    frame = crash.path_edges(30)[["source", "target", "weight"]]
    with fsspec.open("memory://trust/edges.parquet", "wb") as file:
        frame.to_parquet(file)
    url = "memory://trust/edges.parquet"
    assert dask_rac.cluster(url, store=tmp_path / "one").verify().ok
    path = tmp_path / "recipe.yaml"
    path.write_text(f"folder: {tmp_path}/made\nsteps:\n  cluster: {{edges: '{url}'}}\n  verify:\n")
    assert run_recipe(path) == {"cluster": "do", "verify": "do"}
