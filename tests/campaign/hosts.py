"""Scheduler, workers, S3 server and driver on hosts of their own, lost, cut off or slow while a run goes on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.campaign.campaign import Campaign
from tests.support.crash import SHARDS
from tests.support.host_cluster import PYTHON, SERVER_PORT, HostCluster, alive
from tests.support.hosts import PATIENCE, Host, missing_hosts, network
from tests.support.object_store import BUCKET, client_environment

LINK_PORT = 9001
NODES, WORKERS = 60, 2
CUTS = (30, 0.5, 15, 3, 8)  # seconds
TIMEOUTS = {
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "6s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s",
    "DASK_RAC__STORE_TIMEOUT": "10s",
    "AWS_MAX_ATTEMPTS": "2",
}
LONGEST_PAUSE = 0.05  # seconds, for each piece of a slow link
PREPARE = f"""
from dask_rac.files.folder import Folder
from tests.support.crash import path_edges
frame = path_edges({NODES})
for number in range(2):
    Folder("s3://{BUCKET}/edges").write(f"{{number}}.parquet", frame.iloc[number::2].to_parquet(index=False))
"""


@dataclass
class Cluster(HostCluster):
    """The hosts, and how they are disturbed."""

    hash: str = ""
    events: int = 0
    """Of an undisturbed run."""
    cut: threading.Timer | None = None
    """Ends the last time that a host was cut off."""

    def slow_down(self, pause: float) -> None:
        """Let each piece between the store and all others wait."""
        link = self.store.processes["link"]
        assert link.stdin is not None
        link.stdin.write(f"{pause}\n")
        link.stdin.flush()

    def lose_workers(self) -> None:
        """Lose both workers."""
        for host in self.workers[:WORKERS]:
            host.lose()

    def replace_workers(self) -> None:
        """Start a third worker, and lose the others."""
        self.start_worker(self.workers[WORKERS])
        self.lose_workers()

    def cut_off(self, host: Host, seconds: float) -> None:
        """Cut a host off for some seconds, while everything else goes on."""
        host.unplug()
        self.cut = threading.Timer(seconds, host.plug_in)
        self.cut.start()

    def heal(self) -> None:
        """Have everything in order again; a host that is still cut off stays so until its time is over.

        Workers that have lost their scheduler, or been lost by it, end themselves, some of them only after a while.
        """
        if self.cut is not None:
            self.cut.join()
            self.cut = None
            for host in self.workers:
                host.lose()
        self.slow_down(0.0)
        for host in self.net.hosts:
            host.plug_in()
        if not alive(self.scheduler):
            for host in (self.scheduler, *self.workers):
                host.lose()
            self.start_scheduler()
            self.await_servers()
        for host in self.workers[:WORKERS]:
            if not alive(host):
                host.lose()
                self.start_worker(host)
        self.workers[WORKERS].lose()


@contextmanager
def scene(_: Path) -> Iterator[Cluster]:
    """A cluster on six hosts, edges on its store, and what an undisturbed run makes of them."""
    with network() as net:
        store, scheduler, driver = (net.host(name) for name in ("store", "scheduler", "driver"))
        workers = [net.host(f"worker{number}") for number in range(WORKERS + 1)]
        environment = client_environment(f"http://{store.address}:{LINK_PORT}") | PYTHON | TIMEOUTS
        cluster = Cluster(net, store, scheduler, driver, workers, environment)
        cluster.start_store()
        link = [sys.executable, "-m", "tests.support.relay", store.address, str(LINK_PORT), str(SERVER_PORT)]
        store.listens(LINK_PORT, store.start("link", link, PYTHON, talks=True))
        for host in workers[:WORKERS]:
            cluster.start_worker(host)
        cluster.start_scheduler()
        cluster.start_driver()
        cluster.await_servers()
        prepared = driver.start("prepare", [sys.executable, "-c", PREPARE], environment)
        assert prepared.wait(PATIENCE) == 0, f"see {net.folder}"
        del driver.processes["prepare"]
        cluster.await_event("ready")
        cluster.order(call="cluster", arguments=[f"s3://{BUCKET}/edges"], options=options("whole"), workers=WORKERS)
        found = cluster.outcome()
        assert "hash" in found, found
        cluster.hash, cluster.events = found["hash"], found["events"]
        yield cluster


def options(name: str) -> dict[str, Any]:
    """How runs are begun."""
    return {"store": f"s3://{BUCKET}/{name}", "shards": SHARDS, "finisher": False}


def fault_of(cluster: Cluster, chance: Random, number: int) -> tuple[str, Callable[[], None]]:
    """Choose what happens to the hosts: each kind of fault in turn, and each length of a cut."""
    worker = chance.choice(cluster.workers[:WORKERS])
    cut_off = chance.choice([worker, worker, cluster.scheduler, cluster.store, cluster.driver])
    pause = chance.uniform(0.001, LONGEST_PAUSE)
    joiner = cluster.workers[WORKERS]
    faults: list[tuple[str, Callable[[], None]]] = [
        ("a worker is lost", worker.lose),
        ("all workers are lost", cluster.lose_workers),
        ("the scheduler is lost", cluster.scheduler.lose),
        (f"the store is slow by {pause:.3f} s", lambda: cluster.slow_down(pause)),
        ("a worker joins late", lambda: cluster.start_worker(joiner)),
        ("a worker joins and both others are lost", cluster.replace_workers),
    ]
    turn, kind = divmod(number, len(faults) + 1)
    if kind < len(faults):
        return faults[kind]
    seconds = CUTS[turn % len(CUTS)]
    return f"{cut_off.name} is cut off for {seconds} s", lambda: cluster.cut_off(cut_off, seconds)


def trial(cluster: Cluster, chance: Random, number: int) -> None:
    """A fault in the middle of a run: it ends right, or says what to do, and that works."""
    cluster.heal()
    what, fault = fault_of(cluster, chance, number)
    name = f"run-{number}-{chance.randrange(10**9)}"
    edges = [f"s3://{BUCKET}/edges"]
    verify = chance.random() < 0.3
    cluster.order(call="cluster", arguments=edges, options=options(name), verify=verify, workers=WORKERS)
    after = chance.randrange(1, cluster.events)
    found = cluster.outcome(after, fault)
    assert found["events"] >= after, (what, "the fault did not happen", found)
    if "hash" not in found:
        assert found["typed"], (what, found)
        cluster.heal()
        again = {"call": "resume", "arguments": [f"s3://{BUCKET}/{name}"], "workers": WORKERS}
        cluster.order(**again)
        found = cluster.outcome()
        if "does not exist" in found.get("text", ""):  # nothing had been committed
            cluster.order(call="cluster", arguments=edges, options=options(name), workers=WORKERS)
            found = cluster.outcome()
    assert found.get("hash") == cluster.hash, (what, found)


CAMPAIGN = Campaign(
    name="hosts",
    trial_is="a run on hosts of their own, one of which is lost, cut off for up to 30 s, slow or late",
    scene=scene,
    trial=trial,
    goal=100,
    share=0,  # a minute, most of it to set up and wait
    patience=1_200,  # three runs, and hosts that start in between
    missing=missing_hosts,
)
