"""Runs on hosts of their own, which share an object store alone; `pipelines/hosts.py` is what people run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hosts import missing_hosts, network
from tests.support.needs import need
from tests.support.root import ROOT

MISSING = missing_hosts()
need(not MISSING, MISSING)


def played(folder: Path, *options: str) -> str:
    """Return what the recipe prints; that every run had the merges of the run in memory is for it to check."""
    command = [sys.executable, str(ROOT / "pipelines/hosts.py"), "--folder", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    return done.stdout


def finished(printed: str) -> list[str]:
    """Return the scenes whose run has come to its end, all in as many rounds."""
    found = re.findall(r"^(\w+): .*?(\d+) rounds in \d+ s, the merges of the run in memory$", printed, re.MULTILINE)
    assert len({rounds for _, rounds in found}) == 1
    return [name for name, _ in found]


def test_hosts_have_disks_of_their_own() -> None:
    with network() as net:
        one, other = net.host("one"), net.host("other")
        write = one.start("write", ["sh", "-c", "echo mine > file; cat file"], {}, talks=True)
        assert write.communicate(timeout=60)[0] == "mine\n"
        assert other.start("read", ["sh", "-c", "test ! -e file"], {}).wait(60) == 0
        assert not (net.home / "file").exists()


def test_runs_on_hosts(tmp_path: Path) -> None:
    """A host that joins late, a run, a host that is lost, one with another version."""
    scenes = "late", "plain", "lost", "version"
    words = [word for scene in scenes for word in ("--scene", scene)]
    printed = played(tmp_path, "--nodes", "900", "--shards", "3", "--workers", "2", *words)
    assert finished(printed) == list(scenes)
    assert re.search(r"late: a worker joined after round 1 and made [1-9]\d* requests", printed)
    other = r"worker tcp://\S+ has numpy 0\.0\.1, this process has \S+: install the same versions everywhere"
    assert re.search(rf"version: refused: ResourceError: {other}$", printed, re.MULTILINE)
    assert re.search(rf"version: joined .*: StoppedError: a worker joined that cannot take part: {other}", printed)
    counted = [row for row in printed.splitlines() if " 3 to " in row]
    assert counted
    assert all(int(got) <= int(told) for row in counted for got, told in re.findall(r"(\d+) / (\d+)\b(?!\.)", row))
    assert len(list(tmp_path.glob("*-worker.log"))) == 2


@pytest.mark.soak
def test_workers_of_different_size(tmp_path: Path) -> None:
    printed = played(tmp_path, "--nodes", "900", "--shards", "3", "--workers", "2", "--scene", "memory")
    assert finished(printed) == ["memory"]
    assert "memory: all workers alike: 1 GB for 2 workers" in printed
    assert "memory: one with half the memory: 500 MB for 2 workers" in printed


@pytest.mark.soak
def test_adaptive_scaling(tmp_path: Path) -> None:
    printed = played(tmp_path, "--nodes", "10000", "--scene", "adaptive")
    assert finished(printed) == ["adaptive"]
    counts = re.search(r"adaptive: workers during the run, one decision after the other: ([\d ]+):", printed)
    assert counts
    numbers = [int(count) for count in counts[1].split()]
    assert numbers[0] == 1
    assert max(numbers) == 4
    assert numbers[-1] == 1
