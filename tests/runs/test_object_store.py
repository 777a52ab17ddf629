"""Runs on an object store, and on a cluster of processes under TLS, match runs in memory and reveal no secrets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import fsspec
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import requests
import zarr
from distributed import Client
from fsspec.implementations.memory import MemoryFileSystem

import dask_rac
from dask_rac.base.events import Event
from dask_rac.base.names import INCOMPLETE
from dask_rac.base.secrets import masked
from dask_rac.datasets.lattices import lattice
from dask_rac.edges.source import open_edges, read_edges
from dask_rac.edges.writing import new_folder
from dask_rac.files.arrays import check_array, check_group, read_array, write_group
from dask_rac.files.folder import Folder
from dask_rac.files.urls import explained, locate
from dask_rac.tasks.workers import Workers
from dask_rac.vectors.graph.plan import GraphLimits
from tests.support.crash import Child
from tests.support.object_store import BUCKET, KEY, SECRET, ObjectStore, free_port
from tests.support.results import assert_same
from tests.support.tls_cluster import TlsCluster, tls_cluster
from tests.support.ways import Graphs

NODES, EDGES, SHARDS, FILES = 150, 260, 2, 25
PROGRAM = "import sys, os, time, dask_rac\n"


def random_edges() -> pd.DataFrame:
    """Edges with many ties."""
    rng = np.random.default_rng(5)
    pairs = rng.integers(0, NODES, (2, EDGES))
    edges = pd.DataFrame({"source": pairs.min(0), "target": pairs.max(0), "weight": rng.integers(1, 99, EDGES) / 7})
    return edges[edges.source < edges.target].drop_duplicates(["source", "target"]).reset_index(drop=True)


@pytest.fixture(scope="module")
def edges(object_store: ObjectStore) -> str:
    """Edges in two files, several row groups each."""
    frame, url = random_edges(), object_store.url("edges")
    for number, part in enumerate(np.array_split(np.arange(len(frame)), 2)):
        frame.iloc[part].to_parquet(f"{url}/part-{number}.parquet", row_group_size=32)
    return url


@pytest.fixture(scope="module")
def in_memory(edges: str) -> dask_rac.Clustering:
    return dask_rac.cluster(edges)


@pytest.fixture(scope="module")
def cluster(object_store: ObjectStore) -> Iterator[TlsCluster]:
    with tls_cluster(("1GB", "600MB", "1GB"), object_store.environment) as made:
        yield made


@pytest.fixture(scope="module")
def tls_client(cluster: TlsCluster) -> Iterator[Client]:
    with cluster.client() as made:
        yield made


@pytest.fixture(scope="module")
def stored(
    object_store: ObjectStore, edges: str, cluster: TlsCluster, tls_client: Client
) -> tuple[dask_rac.StoredClustering, list[Event]]:
    """A run that lost a worker in the middle of a round."""
    killed: list[Event] = []

    def kill_one(event: Event) -> None:
        if event.stage == "tasks" and event.record is not None and event.done and not killed:
            killed.append(event)
            cluster.kill(2)

    run = dask_rac.cluster(edges, store=object_store.url("run"), shards=SHARDS, client=tls_client, progress=kill_one)
    return run, killed


def start(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start a process that runs the given code."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM + code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | environment,
    )


def outputs(*processes: subprocess.Popen[str]) -> list[str]:
    """Return what processes print until they end."""
    return [process.communicate(timeout=120)[0] for process in processes]


def test_budget_is_planned_for_the_smallest_worker(tls_client: Client) -> None:
    limits = sorted(worker["memory_limit"] for worker in tls_client.scheduler_info(n_workers=-1)["workers"].values())
    assert limits == [600_000_000, 1_000_000_000, 1_000_000_000]
    budget = Workers(tls_client).budget(None)
    assert (budget.memory, budget.processes) == (3 * 300_000_000, 3)
    with pytest.raises(dask_rac.ResourceError, match=r"one of them has 0.6 GB in all: set memory='1260MB' or less"):
        Workers(tls_client).budget("1.5GB")


def test_a_run_that_loses_a_worker_gives_the_same(
    stored: tuple[dask_rac.StoredClustering, list[Event]], in_memory: dask_rac.Clustering
) -> None:
    run, killed = stored
    assert len(killed) == 1
    assert 0 < killed[0].done < killed[0].total
    assert_same(run, in_memory)


def test_opened_verified_and_cut(
    stored: tuple[dask_rac.StoredClustering, list[Event]], object_store: ObjectStore, in_memory: dask_rac.Clustering
) -> None:
    run = dask_rac.open(object_store.url("run"))
    assert_same(run, in_memory)
    run.verify()
    one = run.cut(n_clusters=20, store=object_store.url("one.parquet"))
    some = run.cut(n_clusters=[20, 50], store=object_store.url("some.zarr"))
    labels = np.asarray(in_memory.cut(n_clusters=20))
    np.testing.assert_array_equal(pd.read_parquet(one).label, labels)
    np.testing.assert_array_equal(np.asarray(zarr.open_array(some, mode="r"))[0], labels)
    left = [path for path in object_store.filesystem.find(BUCKET) if ".partial" in path or "/run/rounds" in path]
    assert not left
    with pytest.raises(dask_rac.InputError, match=r"one\.parquet exists"):
        run.cut(n_clusters=20, store=one)


def run_to_death(environment: dict[str, str], edges: str, store: str) -> None:
    """Start a run that is killed in the middle of a round."""

    def die(event: Event) -> None:
        if event.stage == "tasks" and event.record is not None and event.done:
            os.kill(os.getpid(), signal.SIGKILL)

    os.environ.update(environment)
    dask_rac.cluster(edges, store=store, shards=SHARDS, progress=die)


def test_killed_run_is_resumed(object_store: ObjectStore, edges: str, in_memory: dask_rac.Clustering) -> None:
    store = object_store.url("killed")
    assert Child(run_to_death, object_store.environment, edges, store).join() == signal.SIGKILL
    with pytest.raises(dask_rac.StoreError, match="already holds a run"):
        dask_rac.cluster(edges, store=store)
    assert dask_rac.open(store).n_nodes == in_memory.n_nodes
    assert_same(dask_rac.resume(store), in_memory)
    assert not [path for path in object_store.filesystem.find(f"{BUCKET}/killed") if "/rounds/" in path]


def run_then(environment: dict[str, str], edges: str, store: str, then: float) -> str:
    """A run that begins at a given time."""
    os.environ.update(environment)
    Folder(store).exists()
    time.sleep(max(0.0, then - time.time()))
    dask_rac.cluster(edges, store=store)
    return "won"


def test_of_two_runs_one_begins(object_store: ObjectStore, edges: str, in_memory: dask_rac.Clustering) -> None:
    store, then = object_store.url("raced"), time.time() + 2
    children = [Child(run_then, object_store.environment, edges, store, then) for _ in range(2)]
    found = [child.join() for child in children]
    assert found.count("won") == 1
    name, text = next(answer for answer in found if answer != "won")
    assert name == "StoreError"
    assert "already holds a run: resume with dask_rac.resume" in text
    assert_same(dask_rac.open(store), in_memory)


def create_then(environment: dict[str, str], url: str, mark: str, then: float) -> list[int]:
    """Which files a process creates, and another one does not."""
    os.environ.update(environment)
    folder = Folder(url)
    folder.exists()
    time.sleep(max(0.0, then - time.time()))
    return [number for number in range(FILES) if folder.create(f"file-{number}", f"{mark} {number}".encode())]


def test_a_file_is_created_by_one_process(object_store: ObjectStore) -> None:
    url, then = object_store.url("created"), time.time() + 2
    children = {mark: Child(create_then, object_store.environment, url, mark, then) for mark in "ab"}
    won: dict[str, list[int]] = {mark: child.join() for mark, child in children.items()}
    assert sorted(won["a"] + won["b"]) == list(range(FILES))
    for mark, numbers in won.items():
        assert all(Folder(url).read(f"file-{number}") == f"{mark} {number}".encode() for number in numbers)


def test_an_answer_that_got_lost_is_no_defeat(object_store: ObjectStore) -> None:
    folder = Folder(object_store.url("lost"))
    folder.write("file", b"mine")  # as the first of two attempts did
    assert folder.create("file", b"mine")
    assert not folder.create("file", b"another's")
    assert folder.read("file") == b"mine"


class CarelessFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """A server that ignores conditional writes, as some do."""

    protocol = "careless"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        super().pipe_file(path, value)


def test_a_server_without_conditions_is_refused() -> None:
    fsspec.register_implementation("careless", CarelessFileSystem, clobber=True)
    with pytest.raises(
        dask_rac.StoreError, match=r"careless://run: the server ignores If-None-Match and overwrites existing objects"
    ):
        dask_rac.cluster(random_edges(), store="careless://run")
    assert not Folder("careless://run").names()


def test_graph_of_vectors(object_store: ObjectStore, tmp_path: Path) -> None:
    """Vectors and edges in a bucket; stopped after the first task, the same call resumes."""
    graphs = Graphs(GraphLimits(task_rows=50))
    vectors = np.random.default_rng(0).normal(size=(300, 20)).astype(np.float32)
    with Folder(object_store.url("vectors.npy")).filesystem.open(f"{BUCKET}/vectors.npy", "wb") as file:
        np.save(file, vectors)
    arguments = object_store.url("vectors.npy"), 5
    store = object_store.url("knn")

    def stop(event: Event) -> None:
        if event.stage == "neighbours" and event.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graphs.knn_graph(*arguments, store=store, progress=stop)
    with pytest.raises(dask_rac.InputError, match="is not complete"):
        open_edges(store)
    with pytest.raises(dask_rac.InputError, match=r"another graph \(k was 5, is now 6\)"):
        graphs.knn_graph(arguments[0], 6, store=store)
    found = graphs.knn_graph(*arguments, store=store)
    assert [name for name in Folder(store).names() if not name.startswith("part-")] == ["_graph.json"]
    expected = graphs.knn_graph(vectors, 5, store=tmp_path / "knn")
    pd.testing.assert_frame_equal(found.compute().reset_index(drop=True), expected.compute().reset_index(drop=True))
    assert dask_rac.cluster(found).n_nodes == dask_rac.cluster(store).n_nodes == 300
    with pytest.raises(dask_rac.InputError, match=r"another graph \(mode was 'union', is now 'mutual'\)"):
        graphs.knn_graph(*arguments, mode="mutual", store=store)


def test_lattice(object_store: ObjectStore, tmp_path: Path) -> None:
    url = lattice(3_000, 6, store=object_store.url("lattice"))
    found, expected = (open_edges(place) for place in (url, lattice(3_000, 6, store=tmp_path / "lattice")))
    assert found.rows == expected.rows == 9_000
    pd.testing.assert_frame_equal(pd.DataFrame(read_edges(found)[0]), pd.DataFrame(read_edges(expected)[0]))
    assert INCOMPLETE not in Folder(url).names()
    with pytest.raises(dask_rac.InputError, match="exists and is not empty"):
        lattice(3_000, 6, store=url)


def test_unfinished_folder_is_no_input(object_store: ObjectStore) -> None:
    url = object_store.url("unfinished")
    some = [np.array([0]), np.array([1]), np.array([1.0])]
    with pytest.raises(KeyboardInterrupt), new_folder(url, 1) as folder:  # noqa: PT012
        folder.write("part-0.parquet", [some])
        with pytest.raises(dask_rac.InputError, match="not complete: it is being written"):
            dask_rac.cluster(url)
        with pytest.raises(dask_rac.InputError, match="is being written by another run"), new_folder(url, 1):
            pass
        raise KeyboardInterrupt
    assert not Folder(url).exists()


def test_arrays_are_read_by_zarr_and_checked(object_store: ObjectStore) -> None:
    folder, array = Folder(object_store.url("arrays")), np.arange(1_000)
    records = write_group(folder, "group", {"some": array, "none": array[:0]}, chunk=64)
    assert sorted(folder.names("group")) == ["some", "zarr.json"]
    group: Any = zarr.open_group(f"{folder.url}/group", mode="r")
    np.testing.assert_array_equal(group["some"][:], array)
    np.testing.assert_array_equal(read_array(folder, "group/some", 100, 300), array[100:300])
    check_group(folder, "group")
    for record in records:
        check_array(folder, record)
    data = folder.read("group/some/0")
    folder.write("group/some/0", data[:500] + b"x" + data[501:])
    with pytest.raises(dask_rac.DamagedStoreError, match="checksum of chunk"):
        check_array(folder, records[0])
    folder.write("group/zarr.json", folder.read("group/zarr.json").replace(b"1000", b"1001"))
    with pytest.raises(dask_rac.DamagedStoreError):
        check_array(folder, records[0])
    folder.write("group/zarr.json", b"")
    with pytest.raises(dask_rac.DamagedStoreError, match="damaged or missing"):
        check_group(folder, "group")


def test_store_moves_between_disk_and_object_store(object_store: ObjectStore, tmp_path: Path) -> None:
    near, far, array = Folder(tmp_path), Folder(object_store.url("moved")), np.arange(100)
    for source, target, name in ((near, far, "near"), (far, near, "far")):
        records = write_group(source, name, {"some": array})
        for path in source.filesystem.find(source.at(name)):
            target.write(f"{name}/{path.partition(f'/{name}/')[2]}", source.filesystem.cat_file(path))
        np.testing.assert_array_equal(read_array(target, f"{name}/some"), array)
        check_group(target, name)
        check_array(target, records[0])


def test_folder_is_counted_and_deleted(object_store: ObjectStore) -> None:
    folder = Folder(object_store.url("counted"))
    for name, data in {"zarr.json": b"1", "c/0/0": b"22", "empty": b""}.items():
        folder.write(name, data)
        assert folder.read(name) == data
    assert (folder.names(), folder.bytes_of()) == (["c", "empty", "zarr.json"], 3)
    folder.remove("")
    assert (folder.names(), folder.bytes_of(), folder.exists()) == ([], 0, False)


def test_files_are_deleted_in_one_request(object_store: ObjectStore) -> None:
    folder = Folder(object_store.url("several"))
    for name in ("one", "two", "three"):
        folder.write(name, b"x")
    before = len(object_store.requests())
    folder.remove_files(["one", "none", "two"])
    assert [request.partition("?")[0] for request in object_store.requests()[before:]] == [f"POST /{BUCKET}"]
    assert folder.names() == ["three"]


def test_edges_are_read_without_waste(object_store: ObjectStore, edges: str) -> None:
    source = open_edges(edges)
    units = source.units(64)
    assert len(units) == 4
    list(source.read(units[0]))  # the footer is known from now on
    sizes: list[int] = []
    filesystem = locate(edges)[0]
    whole: Callable[..., bytes] = filesystem.cat_file

    def counted(*arguments: Any, **keywords: Any) -> bytes:
        data = whole(*arguments, **keywords)
        sizes.append(len(data))
        return data

    before = len(object_store.requests())
    with mock.patch.object(filesystem, "cat_file", counted):
        rows = sum(len(columns["weight"]) for columns, _ in source.read(units[0]))
    requests = len(object_store.requests()) - before
    metadata = pq.ParquetFile(fsspec.open(f"s3://{units[0].file}").open()).metadata
    needed = sum(
        metadata.row_group(group).column(column).total_compressed_size
        for group in units[0].numbers
        for column in range(3)
    )
    assert rows == units[0].rows
    assert requests == len(sizes) <= 2
    assert needed <= sum(sizes) < 1.1 * needed


def raised(action: Callable[[], Any]) -> str:
    """Return the text of the actionable error, which is all that users see."""
    with pytest.raises((dask_rac.InputError, dask_rac.StoreError, dask_rac.ResourceError)) as caught:
        action()
    assert caught.value.__cause__ is None
    assert not type(caught.value).__module__.startswith("botocore")
    return str(caught.value)


def test_bucket_that_is_missing(object_store: ObjectStore) -> None:
    url = "s3://no-such-bucket/x"
    for action in (
        lambda: dask_rac.cluster(random_edges(), store=url),
        lambda: dask_rac.open(url),
        lambda: dask_rac.resume(url),
        lambda: dask_rac.cluster(url),
        lambda: lattice(100, 4, store=url),
    ):
        text = raised(action)
        assert text.startswith(url)
        assert "this bucket does not exist: create it first, or correct the name" in text


def test_access_that_is_refused(object_store: ObjectStore, edges: str) -> None:
    requests.post(f"{object_store.endpoint}/moto-api/reset-auth", data="0", timeout=30)  # from now on keys are checked
    try:
        for url, action in (
            ("s3://graphs/new", lambda: dask_rac.cluster(random_edges(), store="s3://graphs/new")),
            (edges, lambda: dask_rac.cluster(edges)),
        ):
            text = raised(action)
            assert text.startswith(f"{url}: access is denied (")
            assert "check which credentials this process and every worker have" in text
            assert SECRET not in text
    finally:
        requests.post(f"{object_store.endpoint}/moto-api/reset-auth", data="inf", timeout=30)


@pytest.fixture(scope="module")
def refusals(object_store: ObjectStore) -> dict[str, str]:
    """Return the errors of a separate process for stores that it cannot use, by URL."""
    code = (
        "import s3fs, json\n"
        "found = {}\n"
        "def ask(url):\n"
        "    s3fs.S3FileSystem.clear_instance_cache()\n"
        "    began = time.monotonic()\n"
        "    try: dask_rac.open(url)\n"
        "    except (dask_rac.InputError, dask_rac.StoreError) as error: found[url] = str(error)\n"
        "    assert time.monotonic() - began < 60\n"
        "os.environ['AWS_ENDPOINT_URL_S3'] = 'http://127.0.0.1:' + sys.argv[1]\n"
        "ask('s3://graphs/down')\n"
        "del os.environ['AWS_ACCESS_KEY_ID'], os.environ['AWS_SECRET_ACCESS_KEY']\n"
        "ask('s3://graphs/alone')\n"
        "sys.modules['fsspec.registry']._registry.clear()\n"
        "for module in ('s3fs', 'gcsfs', 'adlfs'): sys.modules[module] = None\n"
        "for url in ('s3://b/x', 'gs://b/x', 'abfs://c@a.dfs.core.windows.net/x'):\n"
        "    try: dask_rac.open(url)\n"
        "    except dask_rac.InputError as error: found[url] = str(error)\n"
        "print(json.dumps(found))"
    )
    found: dict[str, str] = json.loads(
        outputs(start(code, str(free_port()), DASK_RAC__STORE_TIMEOUT="1s"))[0].splitlines()[-1]
    )
    return found


def test_server_that_is_down(refusals: dict[str, str]) -> None:
    text = refusals["s3://graphs/down"]
    assert text.startswith("s3://graphs/down cannot be reached (Could not connect to the endpoint URL")
    assert "AWS_ENDPOINT_URL_S3" in text


def test_no_credentials(refusals: dict[str, str]) -> None:
    text = refusals["s3://graphs/alone"]
    assert text.startswith("s3://graphs/alone: no credentials (Unable to locate credentials): put them, here and for")
    assert "AWS_ACCESS_KEY_ID" in text


@pytest.mark.parametrize(
    ("url", "module", "remedy"),
    [
        ("s3://b/x", "s3fs", "pip install 'dask-rac[s3]'"),
        ("gs://b/x", "gcsfs", "pip install gcsfs"),
        ("abfs://c@a.dfs.core.windows.net/x", "adlfs", "pip install adlfs"),
    ],
)
def test_package_that_is_missing(refusals: dict[str, str], url: str, module: str, remedy: str) -> None:
    assert refusals[url] == f"{url} cannot be opened: {module} is not installed, {remedy}"


SECRET_URLS = [
    ("s3://AKIA0KEY:hush/hush+1@bucket/run", "s3://***@bucket/run"),
    ("simplecache::s3://AKIA0KEY:hush@bucket/run", "simplecache::s3://***@bucket/run"),
    ("https://me:hush@host:8443/run?x=1", "https://***@host:8443/run?***"),
    ("https://hush@host/run", "https://***@host/run"),
    (
        "https://b.s3.amazonaws.com/e.parquet?X-Amz-Credential=hush&X-Amz-Date=2&X-Amz-Signature=hush",
        "https://b.s3.amazonaws.com/e.parquet?***",
    ),
    (
        "https://a.blob.core.windows.net/c/e.parquet?sv=1&sig=hush%3D",
        "https://a.blob.core.windows.net/c/e.parquet?***",
    ),
    ("https://host/e.parquet?access_token=hush#x", "https://host/e.parquet?***"),
]


@pytest.mark.parametrize(("url", "shown"), SECRET_URLS)
@pytest.mark.parametrize(
    "action",
    [
        lambda url: dask_rac.cluster(random_edges(), store=url),
        dask_rac.cluster,
        dask_rac.open,
        dask_rac.resume,
        lambda url: dask_rac.cluster(random_edges()).cut(n_clusters=9, store=f"{url}.parquet"),
        lambda url: lattice(100, 4, store=url),
    ],
)
def test_secrets_in_urls_are_refused(action: Callable[[str], Any], url: str, shown: str) -> None:
    text = raised(lambda: action(url))
    assert "hush" not in text
    assert text.startswith(shown.removesuffix("***"))
    assert "the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3://), an instance role, or" in text


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/a:b@c",
        "https://host:8080/a@b.parquet",
        "abfs://container@account.dfs.core.windows.net/x",
        "s3://bucket/run?versionId=3",
        "/home/me:you@here/run?token=1",
        "memory://run/monkey=1",
    ],
)
def test_harmless_urls_are_left_alone(url: str) -> None:
    assert masked(url) == url


def test_secrets_in_answers_are_masked() -> None:
    with pytest.raises(dask_rac.StoreError) as caught, explained("s3://bucket/x"):
        raise TimeoutError('no answer from "http://me:hush@127.0.0.1:9/x?X-Amz-Signature=hush"')
    assert 'from "http://***@127.0.0.1:9/x?***' in str(caught.value)
    assert "hush" not in str(caught.value)


def test_patterns_are_refused(object_store: ObjectStore) -> None:
    with pytest.raises(dask_rac.InputError, match="are wildcards on object stores"):
        dask_rac.cluster(random_edges(), store=object_store.url("r*"))


def test_secrets_stay_secret(
    stored: tuple[dask_rac.StoredClustering, list[Event]],
    cluster: TlsCluster,
    tls_client: Client,
    object_store: ObjectStore,
) -> None:
    texts = [
        raised(lambda: dask_rac.cluster(random_edges(), store="s3://no-such-bucket/x", client=tls_client)),
        raised(
            lambda: dask_rac.cluster(object_store.url("nothing"), client=tls_client, store=object_store.url("other"))
        ),
        outputs(start("dask_rac.cluster(sys.argv[1])", "s3://no-such-bucket/x"))[0],
        repr(stored[0]),
        cluster.output(),
    ]
    everything = [text.encode() for text in texts] + list(object_store.contents().values())
    assert sum(map(len, everything)) > 10_000
    assert not [text for text in everything if SECRET.encode() in text or KEY.encode() in text]


def test_workers_are_asked_before_a_run(object_store: ObjectStore, edges: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['dask_rac'] = None")
    none = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    own = [{}, none, {"PYTHONPATH": str(tmp_path)}]
    with tls_cluster(3, object_store.environment, own) as made, made.client() as client:
        with pytest.raises(
            dask_rac.ResourceError, match=r"worker tls://127.* lacks this version of dask_rac .*: install"
        ):
            dask_rac.cluster(edges, store=object_store.url("asked"), client=client)
        made.kill(2)
        with pytest.raises(dask_rac.ResourceError, match=r"worker tls://127.*: s3://graphs/asked: no credentials"):
            dask_rac.cluster(edges, store=object_store.url("asked"), client=client)
        made.kill(1)
        workers, store = Workers(client), Folder(object_store.url("asked"))
        workers.check(store, open_edges(edges))
        with fsspec.open("memory://here/edges.parquet", "wb") as file:
            random_edges().to_parquet(file)
        with pytest.raises(dask_rac.ResourceError, match=r"worker tls://127.* cannot access memory://here/edges"):
            workers.check(store, open_edges("memory://here/edges.parquet"))
    assert not Folder(object_store.url("asked")).names()
