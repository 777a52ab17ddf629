"""A scheduler and workers with nannies, each a process of its own, any of which may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.object_store import await_port, free_port


@dataclass(frozen=True)
class MortalCluster:
    """Processes to connect to, and to kill."""

    address: str
    scheduler: subprocess.Popen[bytes]
    nannies: list[subprocess.Popen[bytes]]

    def kill(self, victim: str, number: int) -> None:
        """Kill the scheduler, a nanny or a worker, as if the machine had; a nanny starts another worker."""
        nanny = self.nannies[number % len(self.nannies)]
        if victim != "worker":
            (self.scheduler if victim == "scheduler" else nanny).kill()
            return
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(nanny.pid).children():
                if "resource_tracker" not in " ".join(child.cmdline()):
                    child.send_signal(signal.SIGKILL)


@contextmanager
def mortal_cluster(folder: Path, workers: int = 2) -> Iterator[MortalCluster]:
    """Run a cluster during the block, with one thread per worker."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            environment = os.environ | {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "spawn"}
            program = [sys.executable, "-m", *arguments]
            process = subprocess.Popen(program, stdout=log, stderr=log, env=environment, start_new_session=True)
            stack.callback(_end, process)
            return process

        scheduler = start("scheduler", "distributed.cli.dask_scheduler", "--host", address, "--no-dashboard")
        await_port(port, scheduler)
        options = ("--nthreads", "1", "--memory-limit", "1GB", "--no-dashboard", "--death-timeout", "60")
        nannies = [
            start(
                f"nanny-{number}",
                *("distributed.cli.dask_worker", address, "--nanny", *options),
                *("--local-directory", str(folder / f"scratch-{number}")),
            )
            for number in range(workers)
        ]
        yield MortalCluster(address, scheduler, nannies)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
