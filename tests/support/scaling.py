"""Scales a cluster on hosts: Dask's own `Adaptive` decides, and whoever started this process starts and stops workers.

python -m tests.support.scaling SCHEDULER MINIMUM MAXIMUM

It prints a line of JSON for each decision, `{"start": "w1"}` or `{"stop": "w1"}`: calls to a cloud, as it were.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from typing import Any

from distributed.deploy.spec import ProcessInterface, SpecCluster

ADAPTIVE = {"interval": "500ms", "wait_count": 6, "target_duration": "200ms"}
"""Decide twice a second, give up a worker that was not needed for three seconds, and have work done in 0.2 s."""


class Running(ProcessInterface):
    """A scheduler that runs already."""

    def __init__(self, address: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.address = address


class Wanted(ProcessInterface):
    """A worker that others start and stop."""

    def __init__(self, scheduler: str, name: str) -> None:
        super().__init__(scheduler, name)  # type: ignore[no-untyped-call]
        self.name = name

    async def start(self) -> None:
        """Ask for it."""
        say(start=self.name)
        await super().start()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """Let it go."""
        say(stop=self.name)
        await super().close()  # type: ignore[no-untyped-call]


class HostsCluster(SpecCluster):
    """Workers that others start and stop, of a scheduler that runs already."""

    _numbers = itertools.count()

    def _new_worker_name(self, worker_number: int) -> str:
        """Return a name that no worker has had: for 15 s, a worker that has left is looked for by its name."""
        return f"w{next(self._numbers)}"


def say(**fields: Any) -> None:
    """Print a line."""
    print(json.dumps(fields), flush=True)  # noqa: T201 - whoever started this process reads it


async def main() -> None:
    """Scale until the process is killed."""
    address, minimum, maximum = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    scheduler = {"cls": Running, "options": {"address": address}}
    options = {"worker": {"cls": Wanted}, "asynchronous": True, "shutdown_scheduler": False}
    async with HostsCluster(scheduler=scheduler, **options) as cluster:  # type: ignore[no-untyped-call]
        cluster.adapt(minimum=minimum, maximum=maximum, **ADAPTIVE)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
