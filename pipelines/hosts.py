"""Runs on several hosts that share nothing but an object store, and what they ask of it.

python pipelines/hosts.py [--nodes 10000] [--degree 20] [--shards 6] [--workers 4] [--memory 1GB] [--folder hosts-logs]

An S3 server, a scheduler, workers and the process that drives runs are on hosts of their own: network namespaces of
this machine, each with an address and a disk. That needs Linux, root, and the commands ip, unshare, mount and setpriv.
Hosts are lost, join late, come and go as Dask's Adaptive wants, have less memory, or another version of a package. The
merges of every run must be those of the same graph in memory.
"""

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
from dask.utils import parse_bytes
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the tests have hosts and a server that counts

from dask_rac.base.text import size_text
from dask_rac.engines.rows.requests import RoundShape, round_requests
from tests.support.counting import Traffic
from tests.support.host_cluster import HostCluster, WorkerKind, alive, host_cluster
from tests.support.hosts import Host, missing_hosts
from tests.support.object_store import BUCKET

EDGES = f"s3://{BUCKET}/edges"
PATIENCE = 600  # seconds for a run, on a busy machine
OTHER, VERSION = "numpy", "0.0.1"


@dataclass
class Scaler:
    """Starts and stops workers as Dask's Adaptive wants."""

    cluster: HostCluster
    kind: WorkerKind
    hosts: dict[str, Host] = field(default_factory=dict)
    counts: list[int] = field(default_factory=lambda: [0])
    """Workers after each decision."""

    def start(self, most: int) -> None:
        """Begin to scale between one worker and this many."""
        command = [sys.executable, "-m", "tests.support.scaling", self.cluster.address, "1", str(most)]
        process = self.cluster.scheduler.start("scaling", command, self.cluster.environment, talks=True)
        threading.Thread(target=self._obey, args=(process.stdout,), daemon=True).start()

    def _obey(self, lines: Any) -> None:
        """Do what is decided."""
        for line in lines:
            decided = json.loads(line)
            if name := decided.get("start"):
                host = next(host for host in self.cluster.workers if host not in self.hosts.values())
                self.hosts[name] = host
                self.cluster.start_worker(host, WorkerKind(self.kind.memory, name=name))
            elif decided["stop"] in self.hosts:
                self.hosts.pop(decided["stop"]).lose()
            self.counts.append(len(self.hosts))

    @property
    def course(self) -> str:
        """How many workers there were, one number after each change."""
        changed = [now for before, now in pairwise(self.counts) if now != before]
        return " ".join(map(str, changed))

    def end(self) -> None:
        """Stop scaling, and all workers."""
        process = self.cluster.scheduler.processes.pop("scaling")
        process.kill()
        process.wait()
        for host in self.hosts.values():
            host.lose()


@dataclass
class Stage:
    """The cluster on which scenes are played, and what they have in common."""

    cluster: HostCluster
    shards: int
    kind: WorkerKind
    merges: str
    """A hash of the merges of the run in memory."""
    rounds: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the driver has said of each finished run."""

    @property
    def hosts(self) -> list[Host]:
        """Of the workers."""
        return self.cluster.workers

    def staff(self, count: int, last: WorkerKind | None = None) -> None:
        """Have exactly the first hosts at work, the last of them with another kind of worker if one is given."""
        for number, host in enumerate(self.hosts):
            if number >= count or not alive(host) or last is not None:
                host.lose()
        for number, host in enumerate(self.hosts[:count]):
            if not alive(host):
                self.cluster.start_worker(host, last if last is not None and number == count - 1 else self.kind)

    def begin(self, name: str, workers: int) -> None:
        """Have the driver begin a run, as soon as there are this many workers."""
        options = {"store": f"s3://{BUCKET}/{name}", "shards": self.shards}
        self.cluster.order(call="cluster", arguments=[EDGES], options=options, workers=workers)

    def end(self, name: str) -> str:
        """Wait for the end of a run, and say what it did; raise unless its merges are right."""
        found = self.cluster.outcome()
        if "hash" not in found:
            raise click.ClickException(f"{name}: {found['error']}: {found['text']}")
        if found["hash"] != self.merges:
            raise click.ClickException(f"{name}: the merges are not those of the run in memory")
        self.rounds[name] = found
        return f"{len(found['rounds'])} rounds in {found['seconds']:.0f} s, the merges of the run in memory"

    def refused(self) -> str:
        """Wait for the error of a run, and return it."""
        found = self.cluster.outcome()
        if "hash" in found or not found.get("typed"):
            raise click.ClickException(f"the run was not refused: {found}")
        return f"{found['error']}: {found['text']}"

    def budget(self) -> str:
        """Return what a run may use."""
        self.cluster.order(call="plan", arguments=[EDGES])
        found = self.cluster.outcome()["budget"]
        return f"{size_text(found['memory'])} for {found['processes']} workers"

    def asked(self, name: str, host: Host) -> int:
        """Return how many requests of a run came from a host."""
        return sum(step.clients[host.address] for step in self.cluster.steps(name))


def plain(stage: Stage) -> list[str]:
    """Run on all hosts."""
    stage.staff(len(stage.hosts))
    stage.begin("plain", len(stage.hosts))
    told = stage.end("plain")
    shares = ", ".join(str(stage.asked("plain", host)) for host in stage.hosts)
    return [told, f"requests of each worker: {shares}; of the driver: {stage.asked('plain', stage.cluster.driver)}"]


def lost(stage: Stage) -> list[str]:
    """Lose a host in the middle."""
    stage.staff(len(stage.hosts))
    stage.begin("lost", len(stage.hosts))
    stage.cluster.await_round(2)
    stage.hosts[0].lose()
    return [f"lost a worker's host after round 2: {stage.end('lost')}"]


def late(stage: Stage) -> list[str]:
    """Start without the last host, which joins in the middle."""
    stage.staff(len(stage.hosts) - 1)
    stage.begin("late", len(stage.hosts) - 1)
    stage.cluster.await_round(1)
    stage.cluster.start_worker(stage.hosts[-1], stage.kind)
    told = stage.end("late")
    return [f"a worker joined after round 1 and made {stage.asked('late', stage.hosts[-1])} requests: {told}"]


def adaptive(stage: Stage) -> list[str]:
    """Let Dask's Adaptive scale between one worker and all."""
    stage.staff(0)
    scaler = Scaler(stage.cluster, stage.kind)
    scaler.start(len(stage.hosts))
    try:
        stage.begin("adaptive", 1)
        told = stage.end("adaptive")
        return [f"workers during the run, one decision after the other: {scaler.course}: {told}"]
    finally:
        scaler.end()


def memory(stage: Stage) -> list[str]:
    """Have a worker with half the memory."""
    half = WorkerKind(f"{parse_bytes(stage.kind.memory) // 2}B")
    stage.staff(len(stage.hosts))
    told = [f"all workers alike: {stage.budget()}"]
    stage.staff(len(stage.hosts), half)
    told.append(f"one with half the memory: {stage.budget()}")
    stage.begin("memory", len(stage.hosts))
    return [*told, stage.end("memory")]


def version(stage: Stage) -> list[str]:
    """Have a host with another version of a package: at the start, and as one that joins."""
    packages = stage.cluster.net.folder / "packages"
    other_version(packages, OTHER, VERSION)
    other = WorkerKind(stage.kind.memory, packages=packages)
    stage.staff(len(stage.hosts), other)
    stage.begin("version", len(stage.hosts))
    told = [f"refused: {stage.refused()}"]
    stage.staff(len(stage.hosts) - 1)
    stage.begin("version", len(stage.hosts) - 1)
    stage.cluster.await_round(1)
    stage.cluster.start_worker(stage.hosts[-1], other)
    told.append(f"joined after round 1, it stopped the run: {stage.refused()}")
    stage.hosts[-1].lose()
    stage.cluster.order(call="resume", arguments=[f"s3://{BUCKET}/version"], workers=len(stage.hosts) - 1)
    return [*told, f"resumed without it: {stage.end('version')}"]


SCENES: dict[str, Callable[[Stage], list[str]]] = {
    scene.__name__: scene for scene in (plain, lost, late, adaptive, memory, version)
}


def other_version(folder: Path, package: str, version: str) -> None:
    """Make a folder in which Python finds another version of a package, while its code is found where it was."""
    found = folder / f"{package}-{version}.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")


def shapes(found: dict[str, Any], steps: list[Traffic], hosts: list[Host]) -> list[RoundShape]:
    """Return the rounds of a run on disk as far as their requests depend on them, such as how many hosts made any."""
    rounds, shards = found["rounds"], [shards for shards in found["shards"] if shards]
    return [
        RoundShape(
            shards=shards[k],
            after=shards[k + 1],
            clusters=rounds[k]["clusters"],
            entries=2 * rounds[k]["edges"],
            merges=rounds[k]["merges"],
            left=2 * rounds[k + 1]["edges"],
            processes=sum(host.address in steps[k + 1].clients for host in hosts),
            first=not k,
            weights=4,  # those of a lattice are float32
        )
        for k in range(len(shards) - 1)
    ]


def traffic(steps: list[Traffic], expected: list[RoundShape]) -> Table:
    """Return a table of requests and bytes per round, as counted and as expected."""
    kinds = "GET", "range", "PUT", "LIST", "DELETE", "HEAD"
    table = Table(
        "round", "shards", "workers", *kinds, "MB read", "MB written", title="counted at the server / expected"
    )
    for round_, shape in enumerate(expected):
        step, model = steps[round_ + 1], round_requests(shape)
        told = model.metadata, model.ranges, model.puts, model.lists, model.deletes, model.heads
        counted = [f"{step.requests[kind]} / {number}" for kind, number in zip(kinds, told, strict=True)]
        sizes = [f"{a / 1e6:.1f} / {b / 1e6:.1f}" for a, b in ((step.read, model.read), (step.written, model.written))]
        table.add_row(str(round_ + 1), f"{shape.shards} to {shape.after}", str(shape.processes), *counted, *sizes)
    for name, step in (("intake", steps[0]), ("the rest", steps[len(expected) + 1])):
        sizes = [f"{size / 1e6:.1f}" for size in (step.read, step.written)]
        table.add_row(name, "", "", *(str(step.requests[kind]) for kind in kinds), *sizes)
    return table


@contextmanager
def stage_of(given: dict[str, Any]) -> Iterator[Stage]:
    """Have a cluster with edges on its store during the block; afterwards what its processes printed is in a folder."""
    with host_cluster(given["workers"], PATIENCE) as cluster:
        try:
            graph = {"degree": given["degree"], "store": EDGES}
            cluster.order(call="lattice", arguments=[given["nodes"]], options=graph)
            cluster.outcome()
            cluster.order(call="cluster", arguments=[EDGES], scheduler=None)
            yield Stage(cluster, given["shards"], WorkerKind(given["memory"]), cluster.outcome()["hash"])
        finally:
            Path(given["folder"]).mkdir(parents=True, exist_ok=True)
            for log in cluster.net.folder.glob("*.log"):
                shutil.copy(log, given["folder"])


@click.command(help=__doc__)
@click.option("--nodes", default=10_000, show_default=True, help="Nodes of a lattice.")
@click.option("--degree", default=20, show_default=True, help="Edges of each node.")
@click.option("--shards", default=6, show_default=True, help="Shards of the first state.")
@click.option("--workers", default=4, show_default=True, help="Hosts of workers.")
@click.option("--memory", default="1GB", show_default=True, help="Memory limit of each worker.")
@click.option("--folder", default="hosts-logs", show_default=True, help="Where the logs of all processes are put.")
@click.option("--scene", type=click.Choice(list(SCENES)), multiple=True, help="Play only this scene, or these.")
def main(scene: tuple[str, ...], **given: Any) -> None:
    """Play the scenes, then say what a run has asked of the store."""
    console = Console(width=120, soft_wrap=True)
    if missing := missing_hosts():
        raise click.ClickException(missing)
    with stage_of(given) as stage:
        for name in scene or SCENES:
            started = time.perf_counter()
            for line in SCENES[name](stage):
                console.print(f"{name}: {line}", highlight=False)
            console.print(f"{name}: {time.perf_counter() - started:.0f} s in all", highlight=False)
        if "plain" in stage.rounds:
            steps = stage.cluster.steps("plain")
            console.print(traffic(steps, shapes(stage.rounds["plain"], steps, stage.hosts)))


if __name__ == "__main__":
    main()
