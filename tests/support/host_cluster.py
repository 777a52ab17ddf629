"""A cluster on hosts of its own: an S3 server, a scheduler, workers and the process that drives runs.

    with host_cluster(workers=4) as cluster:
        for host in cluster.workers:
            cluster.start_worker(host)
        cluster.order(call="cluster", arguments=["s3://graphs/edges"], options={"store": "s3://graphs/run"}, workers=4)
        print(cluster.outcome())

Hosts share the store alone: what they write elsewhere is on a disk of their own.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.counting import Traffic, requests_of, steps_of
from tests.support.hosts import PATIENCE, Host, Network, network
from tests.support.object_store import BUCKET, client_environment
from tests.support.root import ROOT

SERVER_PORT, SCHEDULER_PORT = 9000, 8786
RUN_SECONDS = 200  # in which a run ends, however the network fails
PATIENT = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": f"{PATIENCE}s"}  # also how long a run waits for a worker
PYTHON = {"PYTHONPATH": str(ROOT), "AWS_EC2_METADATA_DISABLED": "true"}


@dataclass(frozen=True)
class WorkerKind:
    """How a worker is started."""

    memory: str = "1GB"
    threads: int = 1
    name: str = ""
    """That the scheduler knows it by; empty for its address."""
    packages: Path | None = None
    """A folder of packages that come before those of the other hosts."""


@dataclass
class HostCluster:
    """The hosts, and what runs on them."""

    net: Network
    store: Host
    scheduler: Host
    driver: Host
    workers: list[Host]
    environment: dict[str, str]
    patience: float = RUN_SECONDS
    lines: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)

    @property
    def address(self) -> str:
        """Of the scheduler."""
        return f"tcp://{self.scheduler.address}:{SCHEDULER_PORT}"

    def start_store(self) -> None:
        """Start the server, which writes down its requests."""
        command = [sys.executable, "-m", "tests.support.counting", self.store.address, str(SERVER_PORT), BUCKET]
        self.store.start("server", command, PYTHON)

    def start_scheduler(self) -> None:
        """Start the scheduler."""
        options = ["--host", self.scheduler.address, "--port", str(SCHEDULER_PORT), "--no-dashboard"]
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", *options]
        self.scheduler.start("scheduler", command, self.environment)

    def await_servers(self) -> None:
        """Wait until the server and the scheduler listen."""
        for host, port, name in ((self.store, SERVER_PORT, "server"), (self.scheduler, SCHEDULER_PORT, "scheduler")):
            host.listens(port, host.processes[name])

    def start_worker(self, host: Host, kind: WorkerKind = WorkerKind()) -> None:
        """Start a worker."""
        options = ["--host", host.address, "--nthreads", str(kind.threads), "--memory-limit", kind.memory]
        options += ["--no-nanny", "--no-dashboard", "--death-timeout", "20"]
        options += ["--name", kind.name] if kind.name else []
        environment = dict(self.environment)
        if kind.packages is not None:
            environment["PYTHONPATH"] = os.pathsep.join([str(kind.packages), environment["PYTHONPATH"]])
        host.start("worker", [sys.executable, "-m", "distributed.cli.dask_worker", self.address, *options], environment)

    def start_driver(self) -> None:
        """Start the driver, and a thread that reads what it says; its first event is `ready`."""
        command = [sys.executable, "-m", "tests.support.driver"]
        process = self.driver.start("driver", command, self.environment, talks=True)
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Pass on what the driver says."""
        assert process.stdout is not None
        for line in process.stdout:
            self.lines.put(json.loads(line))

    def order(self, **wanted: Any) -> None:
        """Have the driver begin."""
        process = self.driver.processes["driver"]
        assert process.stdin is not None
        common = {"scheduler": self.address, "workers": len(self.workers), "options": {}, "verify": False}
        process.stdin.write(json.dumps(common | wanted) + "\n")
        process.stdin.flush()

    def next_line(self, end: float) -> dict[str, Any]:
        """Return the next line of the driver."""
        try:
            return self.lines.get(timeout=max(0.01, end - time.monotonic()))
        except queue.Empty:
            raise AssertionError("the driver has said nothing in time: the run hangs") from None

    def await_event(self, stage: str) -> None:
        """Wait for an event."""
        end = time.monotonic() + PATIENCE
        while self.next_line(end).get("event") != stage:
            pass

    def outcome(self, after: int = -1, then: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Return what came of a run, and how many events it had; call a function after some of them."""
        end, events = time.monotonic() + self.patience, 0
        while "event" in (line := self.next_line(end)):
            events += 1
            if events == after:
                then()
        return line | {"events": events}

    def await_round(self, number: int) -> None:
        """Wait until a run has done this many rounds."""
        end = time.monotonic() + self.patience
        while (line := self.next_line(end)).get("round", 0) < number:
            assert "event" in line, f"the run has ended before round {number}: {line}"

    def steps(self, name: str) -> list[Traffic]:
        """Return the requests of each step of the run in a folder of the bucket."""
        with (self.net.folder / f"{self.store.name}-server.log").open() as log:
            return steps_of(requests_of(log), f"{BUCKET}/{name}")


def alive(host: Host) -> bool:
    """Whether the processes of a host run."""
    return bool(host.processes) and all(process.poll() is None for process in host.processes.values())


@contextmanager
def host_cluster(workers: int, patience: float = RUN_SECONDS) -> Iterator[HostCluster]:
    """Have a server with a bucket, a scheduler and a driver during the block, and hosts without workers."""
    with network() as net:
        store, scheduler, driver = (net.host(name) for name in ("store", "scheduler", "driver"))
        environment = client_environment(f"http://{store.address}:{SERVER_PORT}") | PYTHON | PATIENT
        hosts = [net.host(f"worker{number}") for number in range(workers)]
        cluster = HostCluster(net, store, scheduler, driver, hosts, environment, patience)
        cluster.start_store()
        cluster.start_scheduler()
        cluster.start_driver()
        cluster.await_servers()
        cluster.await_event("ready")
        yield cluster
