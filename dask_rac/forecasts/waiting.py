"""How much longer a run has taken because other programs had the processors: what the system counts for each thread."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Self

LOOK_SECONDS = 0.2  # between two looks: what a thread has waited since the last one is lost when it ends


class Waiting:
    """The seconds that threads of some processes have computed, and waited for a processor; without /proc, nothing."""

    def __init__(self, processes: Sequence[int] = ()) -> None:
        self._processes = processes or (os.getpid(),)
        self._first = dict(self._look())
        self._last = dict(self._first)
        self._done = Event()

    @property
    def busy(self) -> float:
        """Seconds that they have computed."""
        return self._sum(0)

    @property
    def waited(self) -> float:
        """Seconds that they were ready to compute, and another thread did."""
        return self._sum(1)

    @property
    def slowdown(self) -> float:
        """Seconds until something is computed, for each second that it takes to compute it."""
        return 1 + self.waited / self.busy if self.busy > 0 else 1.0

    def _sum(self, which: int) -> float:
        """Add up what all threads have done since the beginning."""
        nothing = (0, 0)
        return sum(last[which] - self._first.get(thread, nothing)[which] for thread, last in self._last.items()) / 1e9

    def _look(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield what the system has counted for each thread that is there, in nanoseconds."""
        for process in self._processes:
            with suppress(OSError):
                for thread in os.listdir(f"/proc/{process}/task"):
                    with suppress(OSError, ValueError), open(f"/proc/{process}/task/{thread}/schedstat") as file:
                        busy, waited, *_ = map(int, file.read().split())
                        yield f"{process}/{thread}", (busy, waited)

    def _watch(self) -> None:
        """Look again and again."""
        while not self._done.wait(LOOK_SECONDS):
            self._last.update(self._look())

    @contextmanager
    def watching(self) -> Iterator[Self]:
        """Count during the block."""
        watcher = Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield self
        finally:
            self._last.update(self._look())
            self._done.set()
            watcher.join()
