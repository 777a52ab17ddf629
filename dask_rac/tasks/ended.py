"""Tasks on workers that have ended, and their results, in the order in which they end.

A process that asks the scheduler every few milliseconds takes a third of a core from workers on the same machine, so
tasks report that they have ended, and the results of those that have are fetched in one request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from distributed import Client, Future

WAIT_SECONDS = 0.05  # for a task to end, before others get a turn
FETCH_SECONDS = 5  # to fetch results; doubled whenever that was too short
MOST_FETCH_SECONDS = 600
AT_ONCE = 256  # results


class Ended:
    """The tasks of a graph that have ended and whose results are not fetched yet."""

    def __init__(self, client: Client, futures: Sequence[Future[Any]]) -> None:
        self._client, self._futures = client, futures
        self._queue: SimpleQueue[int] = SimpleQueue()
        self._patience: float = FETCH_SECONDS
        self._most = AT_ONCE
        for number, future in enumerate(futures):
            future.add_done_callback(partial(self._add, number))

    def fetch(self) -> Iterator[tuple[int, Any]]:
        """Wait a moment for tasks to end; yield the number and the result of each that has, or raise its error."""
        numbers = self._take()
        if not numbers:
            return
        gather = partial(self._client.gather, [self._futures[k] for k in numbers], asynchronous=True)
        try:
            results = self._client.sync(gather, callback_timeout=self._patience)
        except TimeoutError:
            if any(self._futures[k].status == "error" for k in numbers):  # it is a task's own
                raise
            # A worker is gone and its task runs again, or a result is large: others are not to wait for it.
            self._patience, self._most = min(2 * self._patience, MOST_FETCH_SECONDS), 1
            for k in numbers:
                self._queue.put(k)
            return
        self._most = min(2 * self._most, AT_ONCE)
        yield from zip(numbers, results, strict=True)

    def _add(self, number: int, _future: Future[Any]) -> None:
        """Record that a task has ended."""
        self._queue.put(number)

    def _take(self) -> list[int]:
        """Return tasks that have ended, at most so many that they can be fetched together."""
        numbers: list[int] = []
        try:
            numbers.append(self._queue.get(timeout=WAIT_SECONDS))
            while len(numbers) < self._most:
                numbers.append(self._queue.get_nowait())
        except Empty:
            pass
        return numbers
