"""Runs on a real S3 server behind a proxy that delays, cuts, resets, refuses, and loses answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest import mock

import dask
import s3fs

from dask_rac.files import patience, urls
from tests.campaign.campaign import Campaign
from tests.support.object_store import BUCKET, ObjectStore, client_environment, forget_clients, s3_server
from tests.support.proxy import Proxy, proxy
from tests.support.remote_runs import RemoteRuns
from tests.support.weather import Weather

SECONDS = "1s"
READ_SECONDS = 1  # before a server that does not answer is asked again


@dataclass
class S3Runs(RemoteRuns):
    """Runs through a proxy."""

    server: ObjectStore
    proxy: Proxy
    view: s3fs.S3FileSystem

    def url(self, name: str) -> str:
        """The URL of a name."""
        return self.server.url(name)

    @contextmanager
    def weather(self, given: Weather) -> Iterator[None]:
        """Have this weather during the block."""
        before, self.proxy.weather = self.proxy.weather, given
        try:
            with (
                dask.config.set({"rac.store-timeout": SECONDS}),
                mock.patch.object(patience, "WRITE_SECONDS", READ_SECONDS),
                mock.patch.object(urls, "PART_SECONDS", READ_SECONDS),
            ):
                yield
        finally:
            self.proxy.weather = before

    def names(self, prefix: str) -> list[str]:
        """The names of all objects that begin so."""
        paths = self.view.find(BUCKET, prefix=prefix)
        return [path.removeprefix(f"{BUCKET}/") for path in paths]

    def data(self, name: str) -> bytes:
        """The content of an object."""
        data: bytes = self.view.cat_file(f"{BUCKET}/{name}")
        return data

    def delete(self, prefix: str) -> None:
        """Delete all objects whose names begin so."""
        names = self.names(prefix)
        if names:
            self.view.rm([f"{BUCKET}/{name}" for name in names])


@contextmanager
def scene(_: Path) -> Iterator[S3Runs]:
    """A server with a proxy before it, edges, and what an undisturbed run makes of them.

    Requests are repeated by the package alone, and soon: botocore's own pauses grow to eight seconds.
    """
    with ExitStack() as stack:
        server = stack.enter_context(s3_server())
        between = stack.enter_context(proxy(int(server.endpoint.rpartition(":")[2])))
        pool = stack.enter_context(ThreadPoolExecutor(1))
        stack.enter_context(dask.config.set({"pool": pool, "num_workers": 1}))
        through = client_environment(f"http://127.0.0.1:{between.port}") | {"AWS_MAX_ATTEMPTS": "1"}
        view = server.filesystem
        stack.enter_context(mock.patch.dict(os.environ, through))
        stack.enter_context(mock.patch.object(s3fs.S3FileSystem, "read_timeout", READ_SECONDS))
        forget_clients()
        runs = S3Runs(server, between, view)
        runs.prepare()
        yield runs


def trial(runs: S3Runs, chance: Random, number: int) -> None:
    """Run and resume in bad weather, then in calm weather."""
    runs.disturb(f"run-{number}", chance)


CAMPAIGN = Campaign(
    name="objects",
    trial_is="a run on an S3 server behind a proxy that delays, cuts, resets, answers 500 and 503, and loses answers",
    scene=scene,
    trial=trial,
    goal=300,
    share=1,
)
