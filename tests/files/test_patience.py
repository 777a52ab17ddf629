"""Requests to an object store that fails are repeated where that may help, and end in bounded time."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest import mock

import dask
import fsspec
import pytest
import s3fs
from botocore.exceptions import (  # type: ignore[import-untyped]
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
    SSLError,
)
from fsspec.spec import AbstractFileSystem
from s3fs.errors import translate_boto_error

import dask_rac
from dask_rac.edges.source import open_edges
from dask_rac.files import patience, urls
from dask_rac.files.folder import Folder
from dask_rac.files.output import writable
from dask_rac.files.patience import asked, may_pass
from tests.support.flaky import FlakyFileSystem, FlakyRuns, flaky_store
from tests.support.object_store import ObjectStore, client_environment, forget_clients
from tests.support.proxy import Proxy, proxy
from tests.support.weather import Weather

ENDPOINT = {"endpoint_url": "http://127.0.0.1:9", "error": "refused"}


def answer(code: str, status: int) -> Exception:
    """What s3fs makes of an answer."""
    response: Any = {"Error": {"Code": code, "Message": "so"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error: Exception = translate_boto_error(ClientError(response, "GetObject"))
    return error


@pytest.fixture
def no_server() -> Iterator[None]:
    """The environment of a server that nobody asks for anything."""
    with mock.patch.dict(os.environ, client_environment("http://127.0.0.1:9")):
        forget_clients()
        yield
        forget_clients()


@pytest.mark.usefixtures("no_server")
@pytest.mark.parametrize(("options", "connections"), [({}, urls.S3_CONNECTIONS), ({"max_pool_connections": 3}, 3)])
def test_threads_have_connections_of_their_own(options: dict[str, Any], connections: int) -> None:
    given = {"s3": {"config_kwargs": {**options, "read_timeout": 7}}}
    with mock.patch.dict(fsspec.config.conf, given):
        config = urls.locate("s3://graphs/run")[0].s3.meta.config
        assert urls.locate("s3://graphs/other")[0].s3.meta.config is config
    assert (config.max_pool_connections, config.read_timeout) == (connections, 7)
    assert given["s3"]["config_kwargs"] == {**options, "read_timeout": 7}


@pytest.mark.parametrize(
    "error",
    [
        answer("InternalError", 500),
        answer("SlowDown", 503),
        answer("ServiceUnavailable", 503),
        answer("ConditionalRequestConflict", 409),
        answer("RequestTimeout", 400),
        EndpointConnectionError(**ENDPOINT),
        ReadTimeoutError(**ENDPOINT),
        ConnectionError("cut"),
        TimeoutError(),
        OSError(errno.EHOSTUNREACH, "No route to host"),
    ],
)
def test_what_may_pass_is_repeated(error: Exception) -> None:
    request = mock.Mock(side_effect=[error, error, b"data"])
    with mock.patch.object(patience, "sleep"):
        assert asked("s3://bucket/x", dask_rac.StoreError, request, "x", start=0) == b"data"
    assert request.call_args_list == [mock.call("x", start=0)] * 3


@pytest.mark.parametrize(
    "error",
    [
        answer("NoSuchKey", 404),
        answer("AccessDenied", 403),
        answer("InvalidRange", 416),
        answer("InvalidArgument", 400),
        NoCredentialsError(),
        SSLError(**ENDPOINT),
        FileExistsError("x"),
        OSError(errno.ENOSPC, "No space left on device"),
        ValueError("not from a server"),
    ],
)
def test_what_cannot_pass_is_not_repeated(error: Exception) -> None:
    request = mock.Mock(side_effect=error)
    with pytest.raises((type(error), dask_rac.StoreError)):
        asked("s3://bucket/x", dask_rac.StoreError, request)
    request.assert_called_once()


def test_local_files_are_asked_once() -> None:
    request = mock.Mock(side_effect=TimeoutError)
    with pytest.raises(TimeoutError):
        asked("/folder/x", dask_rac.StoreError, request)
    request.assert_called_once()


@pytest.fixture
def runs() -> Iterator[FlakyRuns]:
    with flaky_store() as made, dask.config.set({"rac.store-timeout": "0s"}):
        yield made


def test_a_store_out_of_reach_is_not_a_store_that_does_not_exist(runs: FlakyRuns) -> None:
    folder = Folder("flaky://run")
    folder.write("file", b"data")
    for ask in (folder.exists, folder.is_file, folder.names, folder.bytes_of):
        with (
            runs.weather(Weather(Random(0), down_after=0)),
            pytest.raises(dask_rac.StoreError, match=r"flaky://run .*again"),
        ):
            ask()
    assert folder.exists("file")
    assert folder.is_file("file")
    assert not folder.exists("other")


class WalkedFileSystem(FlakyFileSystem):
    """One that lists folder after folder, as fsspec does for most protocols."""

    protocol = "walked"
    find = AbstractFileSystem.find


def test_a_folder_that_cannot_be_listed_is_not_left_out(runs: FlakyRuns) -> None:
    fsspec.register_implementation("walked", WalkedFileSystem, clobber=True)
    edges = Folder("walked://edges")
    for part in ("a/0.parquet", "b/1.parquet"):
        edges.write(part, b"")
    with (
        runs.weather(Weather(Random(0), down_after=3)),  # info, the folder, a; then b fails
        pytest.raises(dask_rac.InputError, match=r"walked://edges .*again"),
    ):
        open_edges("walked://edges")


@contextmanager
def between(store: ObjectStore, *faults: str | int) -> Iterator[Proxy]:
    """A proxy before the server; nothing but the package repeats a request more than once."""
    with proxy(int(store.endpoint.rpartition(":")[2])) as made:
        made.faults = faults
        through = client_environment(f"http://127.0.0.1:{made.port}") | {"AWS_MAX_ATTEMPTS": "1"}
        with mock.patch.dict(os.environ, through):
            forget_clients()
            try:
                yield made
            finally:
                forget_clients()


def test_the_lost_answer_of_an_exclusive_write_counts(object_store: ObjectStore) -> None:
    folder = Folder(object_store.url("lost-answer"))
    with between(object_store, "lost") as link:
        folder = Folder(folder.url)
        link.weather = Weather(Random(0), _left=1)
        assert folder.create("manifest", b"mine")
        assert link.weather.failed == 1
        link.weather = Weather(Random(0), _left=1)
        assert not folder.create("manifest", b"another's")
        assert folder.read("manifest") == b"mine"


def test_a_server_that_never_answers_is_given_up(object_store: ObjectStore) -> None:
    with between(object_store, "silent") as link, mock.patch.object(s3fs.S3FileSystem, "read_timeout", 0.2):
        folder = Folder(object_store.url("silent"))
        folder.exists()
        link.weather = Weather(Random(0), often=1)
        with (
            dask.config.set({"rac.store-timeout": "0s"}),
            pytest.raises(dask_rac.StoreError, match=r"cannot be reached .* then try again or resume"),
        ):
            folder.read("file")
        assert link.weather.failed == urls.S3_ATTEMPTS**2


def test_a_server_that_takes_no_data_is_given_up(object_store: ObjectStore) -> None:
    with between(object_store, "deaf") as link, dask.config.set({"rac.store-timeout": "0s"}):
        folder = Folder(object_store.url("deaf"))
        folder.write("first", b"")
        link.weather = Weather(Random(0), often=1)
        with (
            mock.patch.object(patience, "WRITE_SECONDS", 0.5),
            pytest.raises(dask_rac.StoreError, match="cannot be reached"),
        ):
            folder.write("file", b"data")
        url = object_store.url("deaf.csv")
        with (
            mock.patch.object(urls, "PART_SECONDS", 0.5),
            pytest.raises(dask_rac.InputError, match="cannot be reached"),
            writable(url),
            Folder(url).filesystem.open(url, "wb") as file,
        ):
            file.write(b"data")


def test_errors_of_libraries_that_are_not_installed_are_known_by_name() -> None:
    kind = type("ServiceRequestError", (Exception,), {"__module__": "azure.core.exceptions"})
    assert may_pass(kind("refused"))
    assert not may_pass(type("ServiceRequestError", (Exception,), {"__module__": "mine"})("refused"))
