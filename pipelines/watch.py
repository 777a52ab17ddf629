"""Time and memory of a process and its children, for the benchmarks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import perf_counter, sleep

import psutil


@dataclass
class Usage:
    """Time and memory of one block."""

    seconds: float = 0.0
    rss: int = 0
    """Peak resident bytes of this process and its children together."""


@contextmanager
def watched(pause: float = 0.05) -> Iterator[Usage]:
    """Measure the block."""
    usage, over = Usage(), threading.Event()

    def look() -> None:
        while not over.is_set():
            usage.rss = max(usage.rss, resident_bytes())
            sleep(pause)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    started = perf_counter()
    try:
        yield usage
    finally:
        usage.seconds = perf_counter() - started
        over.set()
        watcher.join()


def resident_bytes() -> int:
    """Return the resident memory of this process and its children."""
    me = psutil.Process()
    total = 0
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return total
