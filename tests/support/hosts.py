"""Hosts that are network namespaces of this machine: each has an address, processes and a disk of its own.

    with network() as net:
        store, worker = net.host("store"), net.host("worker")
        store.start("server", [sys.executable, "-m", "moto.server", "-H", store.address, "-p", "9000"], {})
        worker.unplug()     # no packet passes any more
        worker.plug_in()
        worker.lose()       # all its processes die

The switch between them is a namespace as well: nothing is changed outside, and no packet leaves. What is private to a
host is the folder `Network.home`, where every host finds a disk of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

PREFIX = "rac-"
PATIENCE = 120  # seconds, on a busy machine
BLOCK = "10.213.7"
MORTAL = ("setpriv", "--pdeathsig", "KILL")  # whatever becomes of the tests, no process stays behind
DISK = 'mount -t tmpfs tmpfs "$HOME_OF_HOST" && cd "$HOME_OF_HOST" && exec "$@"'
PROBE = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)"


def missing_hosts() -> str:
    """Why this machine cannot have such hosts; empty if it can."""
    if os.geteuid():
        return "network namespaces need root"
    lacking = [tool for tool in ("ip", "unshare", "mount", "setpriv") if shutil.which(tool) is None]
    if lacking:
        return f"{', '.join(lacking)} is not installed: install Debian's iproute2, util-linux and mount"
    name = f"{PREFIX}{os.getpid()}-{uuid.uuid4().hex[:6]}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False, text=True)
    if made.returncode:
        return f"this machine does not allow network namespaces: {made.stderr.strip()}"
    try:
        bridged = _try("ip", "-n", name, "link", "add", "bridge0", "type", "bridge")
        mounted = _try("ip", "netns", "exec", name, "unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt")
    finally:
        _try("ip", "netns", "delete", name)
    return "" if bridged and mounted else "this machine does not allow bridges, or mounts in namespaces"


@dataclass
class Host:
    """One machine of the network."""

    name: str
    """Of its namespace."""
    address: str
    port: str
    """Its end of the cable, in the switch."""
    network: Network
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], talks: bool = False
    ) -> subprocess.Popen[str]:
        """Start a process here; with `talks` through pipes, otherwise what it prints is in a file of its name."""
        inside = [*MORTAL, "ip", "netns", "exec", self.name, "unshare", "--mount", "sh", "-c", DISK, "sh", *command]
        home = str(self.network.home)
        variables = os.environ | dict(environment) | {"HOME_OF_HOST": home, "TMPDIR": home}
        log = self.network.log(f"{self.name}-{name}")
        pipe: int | IO[str] = subprocess.PIPE if talks else log
        # A group of its own, so that Ctrl-C in the terminal reaches the tests alone.
        process = subprocess.Popen(
            inside,
            stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
            stdout=pipe,
            stderr=log,
            env=variables,
            text=True,
            process_group=0,
        )
        self.processes[name] = process
        return process

    def listens(self, port: int, process: subprocess.Popen[str]) -> None:
        """Wait until a process here listens on a port."""
        end = time.monotonic() + PATIENCE
        probe = ["ip", "netns", "exec", self.name, sys.executable, "-S", "-c", PROBE, self.address, str(port)]
        while not _try(*probe):
            assert process.poll() is None, f"{process.args!r} has ended, see {self.network.folder}"
            assert time.monotonic() < end, f"{process.args!r} does not listen on port {port}"

    def unplug(self) -> None:
        """Pull the cable out of the switch."""
        _run("ip", "-n", self.network.switch, "link", "set", self.port, "down")

    def plug_in(self) -> None:
        """Put the cable back."""
        _run("ip", "-n", self.network.switch, "link", "set", self.port, "up")

    def lose(self) -> None:
        """Kill every process of the host, as when its power fails."""
        listed = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, check=True, text=True)
        for pid in map(int, listed.stdout.split()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes.values():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
        self.processes.clear()


@dataclass
class Network:
    """A switch, and the hosts whose cables are in it."""

    switch: str
    folder: Path
    """For the logs, outside of all hosts."""
    home: Path
    """The path of the disk that each host has for itself."""
    hosts: list[Host] = field(default_factory=list)
    _logs: list[IO[str]] = field(default_factory=list)

    def host(self, name: str) -> Host:
        """Add a host."""
        number = len(self.hosts) + 1
        made = Host(f"{self.switch}-{name}", f"{BLOCK}.{number}", f"port{number}", self)
        self.hosts.append(made)
        _run("ip", "netns", "add", made.name)
        cable = ["link", "add", "eth0", "netns", made.name, "type", "veth", "peer", "name", made.port]
        _run("ip", "-n", self.switch, *cable)
        _run("ip", "-n", self.switch, "link", "set", made.port, "master", "bridge0", "up")
        _run("ip", "-n", made.name, "address", "add", f"{made.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _run("ip", "-n", made.name, "link", "set", device, "up")
        return made

    def log(self, name: str) -> IO[str]:
        """Open a file for what a process prints."""
        self._logs.append((self.folder / f"{name}.log").open("a"))
        return self._logs[-1]

    def end(self) -> None:
        """Kill all processes and delete all namespaces, with whatever is in them."""
        for host in self.hosts:
            with suppress(subprocess.CalledProcessError):
                host.lose()
            _try("ip", "netns", "delete", host.name)
        _try("ip", "netns", "delete", self.switch)
        for log in self._logs:
            log.close()


@contextmanager
def network() -> Iterator[Network]:
    """Have a network without hosts during the block; afterwards nothing of it is left."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        _sweep()
        made = Network(f"{PREFIX}{os.getpid()}-{uuid.uuid4().hex[:6]}", Path(folder), home)
        try:
            _run("ip", "netns", "add", made.switch)
            _run("ip", "-n", made.switch, "link", "add", "bridge0", "type", "bridge")
            _run("ip", "-n", made.switch, "link", "set", "bridge0", "up")
            yield made
        finally:
            made.end()


def _sweep() -> None:
    """Delete the namespaces of tests that were killed."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, check=True, text=True).stdout
    for line in listed.splitlines():
        name = line.split()[0]
        owner = name.removeprefix(PREFIX).partition("-")[0]
        if name.startswith(PREFIX) and owner.isdigit() and not Path(f"/proc/{owner}").exists():
            _try("ip", "netns", "delete", name)


def _run(*command: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True, capture_output=True)


def _try(*command: str) -> bool:
    """Run a command; return whether it succeeded."""
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
