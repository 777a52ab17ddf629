"""An S3 server on the loopback interface, and the environment that processes need to use it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import s3fs

BUCKET = "graphs"
KEY = "AKIADISTINCTIVE00KEY"
SECRET = "distinctive/secret+0123456789abcdefghijkl"
PATIENCE = 60  # seconds, on a busy machine


@dataclass(frozen=True)
class ObjectStore:
    """An S3 server with one bucket."""

    endpoint: str
    """http://127.0.0.1:PORT"""
    environment: dict[str, str] = field(repr=False)
    """Variables to add to the environment of every process that uses the server."""
    log: Path
    """One line per request."""

    def url(self, name: str) -> str:
        """Return the URL of a name in the bucket."""
        return f"s3://{BUCKET}/{name}"

    @property
    def filesystem(self) -> s3fs.S3FileSystem:
        """A separate client that sees everything on the server."""
        return s3fs.S3FileSystem(key=KEY, secret=SECRET, endpoint_url=self.endpoint, use_listings_cache=False)

    def requests(self) -> list[str]:
        """Return the requests so far, as `GET /bucket/name`."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line.split('"')[1].removesuffix(" HTTP/1.1") for line in lines if line.count('"') >= 2]

    def contents(self) -> dict[str, bytes]:
        """Return everything in the bucket, by name."""
        filesystem = self.filesystem
        objects: dict[str, bytes] = filesystem.cat(filesystem.find(BUCKET))
        return objects


def client_environment(endpoint: str) -> dict[str, str]:
    """Return the environment to use a server, with credentials that are valid nowhere else."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def free_port() -> int:
    """Return an unused port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process listens on a port."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} does not listen on port {port}")


def forget_clients() -> None:
    """Drop the cached clients of this process; new ones read the environment again."""
    _forgotten.extend(s3fs.S3FileSystem._cache.values())
    s3fs.S3FileSystem.clear_instance_cache()


_forgotten: list[s3fs.S3FileSystem] = []  # a client that is garbage collected would warn about its open connections


@contextmanager
def s3_server(counting: bool = False) -> Iterator[ObjectStore]:
    """Run a server with an empty bucket during the block, and set up the environment of this process to use it.

    A counting one writes down more of each request: `counting.steps_of`.
    """
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    moto = ["moto.server", "-H", "127.0.0.1", "-p", str(port)]
    module = ["tests.support.counting", "127.0.0.1", str(port)] if counting else moto
    program = [sys.executable, "-m", *module]
    environment = client_environment(endpoint)
    with TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        server = subprocess.Popen(
            program, stdout=log, stderr=log, env=os.environ | {"AWS_EC2_METADATA_DISABLED": "true"}
        )
        try:
            await_port(port, server)
            with mock.patch.dict(os.environ, environment):
                forget_clients()
                store = ObjectStore(endpoint, environment, Path(log.name))
                store.filesystem.mkdir(BUCKET)
                yield store
        finally:
            server.kill()
            server.wait()
            forget_clients()
