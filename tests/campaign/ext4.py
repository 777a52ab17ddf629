"""Power failures on a real ext4: the file system of a loop file is shut down while a run writes to it.

The shutdown drops what is only in memory, as a power failure does. The process is killed, the file system is mounted
again, and the run is resumed. A trial is made in a child with a view of its own of what is mounted: a process elsewhere
that copied ours would keep the file system as it is.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import posix
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from dask_rac.engines.contract import Limits
from tests.campaign.campaign import Campaign
from tests.support import crash
from tests.support.limits import cluster_within, resume_within

NEW_MOUNTS = 0x20000  # CLONE_NEWNS
SHUTDOWN = 0x8004587D  # the request to ext4, _IOR('X', 125, __u32)
FLAGS = (0, 1, 2)  # flush everything first, the journal only, nothing
SIZE = 64 * 2**20
NODES = 150
CASES = ("average", "single")


@dataclass(frozen=True)
class Scene:
    """Edges on a disk that stays, and what they come to."""

    folder: Path
    edges: Path
    merges: dict[str, str]


def missing() -> str:
    """Why this machine cannot do it."""
    if os.geteuid() or not shutil.which("mkfs.ext4"):
        return "needs root and mkfs.ext4"
    with tempfile.TemporaryDirectory() as name:
        answer = crash.Child(try_mount, Path(name)).join()
    return "" if answer == "mounted" else f"a file cannot be mounted as a disk: {answer}"


def try_mount(folder: Path) -> str:
    """Mount a new file system."""
    use_own_mounts()
    with mounted(new_disk(folder), folder / "mount"):
        return "mounted"


def use_own_mounts() -> None:
    """Let no other process see what this one mounts, nor keep it."""
    system = ctypes.CDLL(None, use_errno=True)
    if system.unshare(NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True, capture_output=True)


def new_disk(folder: Path) -> Path:
    """Make an empty file system in a file."""
    disk = folder / "disk"
    with disk.open("wb") as file:
        file.truncate(SIZE)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(disk)], check=True, capture_output=True)
    return disk


@contextmanager
def mounted(disk: Path, place: Path) -> Iterator[Path]:
    """Mount a file system for the time of the block; its journal is replayed."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", str(disk), str(place)], check=True, capture_output=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True, capture_output=True)


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Write the edges, and cluster them where nothing stops it."""
    edges = crash.write_edges(folder / "edges", crash.path_edges(NODES)[["source", "target", "weight"]])
    results = {name: crash.begin(edges, folder / name, linkage=name) for name in CASES}
    yield Scene(folder, edges, {name: crash.result_hash(found) for name, found in results.items()})


@dataclass(frozen=True)
class Run:
    """A run on the disk that fails."""

    edges: Path
    linkage: str
    limits: Limits

    def go_on(self, store: Path) -> str:
        """Begin a run or resume it, to the end; children do not flush anything unless they are made to."""
        options: dict[str, Any] = {"shards": crash.SHARDS, "finisher": False}
        with mock.patch.object(os, "fsync", posix.fsync):
            if (store / "rac.json").exists():
                return crash.result_hash(resume_within(self.limits, store))
            return crash.result_hash(cluster_within(self.limits, self.edges, self.linkage, store=store, **options))

    def start(self, store: Path) -> int:
        """Go on in a child of this process; return its id."""
        child = os.fork()
        if not child:
            try:
                self.go_on(store)
            finally:
                os._exit(0)
        return child


def trial(scene: Scene, chance: Random, number: int) -> None:
    """The power fails at some moment of a run, perhaps again while it is resumed."""
    folder = scene.folder / f"trial{number}"
    folder.mkdir()
    linkage = chance.choice(CASES)
    run = Run(scene.edges, linkage, Limits(durable_seconds=chance.choice([0.0, 0.05, 60.0])))
    answer = crash.Child(cut_and_resume, run, folder, chance).join()
    shutil.rmtree(folder)
    assert answer == scene.merges[linkage], (run, answer)


def cut_and_resume(run: Run, folder: Path, chance: Random) -> str:
    """Cut the power of a run, resume it, and return the hash of its merges."""
    use_own_mounts()
    disk, steps = new_disk(folder), list[bytes]()
    for _ in range(chance.choice([1, 1, 2])):
        with mounted(disk, folder / "mount") as place:
            assert not steps or (place / "run/rac.json").exists(), "the run itself was lost"
            steps = cut_short(run, place / "run", chance)
    with mounted(disk, folder / "mount") as place:
        safe = len(steps) if not run.limits.durable_seconds else min(1, len(steps))
        answer = run.go_on(place / "run")
        assert crash.manifests(place / "run")[:safe] == steps[:safe], "a step that had survived was done again"
    return answer


def cut_short(run: Run, store: Path, chance: Random) -> list[bytes]:
    """Let a run go on for a while, then have the power fail; return the manifests of the steps committed before."""
    wanted, child, ended = chance.randrange(7), run.start(store), 0
    while len(crash.manifests(store)) < wanted and not ended:
        time.sleep(0.001)
        ended, _ = os.waitpid(child, os.WNOHANG)
    time.sleep(chance.random() * 0.1)
    steps = crash.manifests(store)[:-1]  # the last one appears a moment before it is safe
    handle = os.open(store.parent, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, SHUTDOWN, chance.choice(FLAGS).to_bytes(4, "little"))
    finally:
        os.close(handle)
    if not ended:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return steps


CAMPAIGN = Campaign(
    name="ext4",
    trial_is="the power fails while a run writes to a real ext4; the disk is mounted again and the run is resumed",
    scene=scene,
    trial=trial,
    goal=100,
    share=1,
    missing=missing,
)
