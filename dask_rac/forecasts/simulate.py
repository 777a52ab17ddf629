"""Tasks on many workers, event by event, without data: who runs what when, with barriers between layers.

A worker without work gets the next task of the layer, as lists of tasks are scheduled. The scheduler hands out one task
after the other. A task first waits for its requests, then moves its bytes through a link that all workers share evenly,
then computes. A layer begins when all tasks of the layer before it have ended.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush


@dataclass(frozen=True)
class Task:
    """What one task does."""

    seconds: float
    """Of computing."""
    bytes: float = 0.0
    """Moved through the link that all workers share."""
    requests: float = 0.0
    """One after the other."""


@dataclass(frozen=True)
class Place:
    """Where tasks run."""

    workers: int
    dispatch: float = 0.0
    """Seconds of the scheduler for each task."""
    latency: float = 0.0
    """Seconds of a request."""
    bandwidth: float = math.inf
    """Bytes per second of all workers together."""
    connection: float = math.inf
    """Bytes per second of one worker at most."""


@dataclass
class _Link:
    """A link whose users share it evenly; time on it is counted in bytes that each of them has got."""

    place: Place
    served: float = 0.0
    now: float = 0.0

    def __post_init__(self) -> None:
        self._ends: list[tuple[float, int, Task]] = []

    @property
    def rate(self) -> float:
        """Bytes per second of each user."""
        return min(self.place.connection, self.place.bandwidth / max(1, len(self._ends)))

    @property
    def next_end(self) -> float:
        """When the next of its users is done."""
        if not self._ends:
            return math.inf
        left = max(0.0, self._ends[0][0] - self.served)
        return self.now + (left / self.rate if left else 0.0)

    def advance(self, now: float) -> None:
        """Serve its users until now."""
        if self._ends and now > self.now:
            self.served += (now - self.now) * self.rate
        self.now = now

    def begin(self, task: Task, number: int) -> None:
        """Serve one more."""
        heappush(self._ends, (self.served + task.bytes, number, task))

    def end(self) -> Task:
        """Return the task that is done."""
        target, _, task = heappop(self._ends)
        self.served = max(self.served, target)
        return task


def simulate(layers: Sequence[Sequence[Task]], place: Place) -> list[float]:
    """Return when each layer ends, in seconds from the beginning."""
    now, ends = 0.0, []
    for layer in layers:
        now = _run(layer, place, now)
        ends.append(now)
    return ends


def _run(tasks: Sequence[Task], place: Place, began: float) -> float:
    """Run the tasks of a layer; return when the last one ends."""
    free = [began] * min(place.workers, len(tasks))
    heapify(free)
    link = _Link(place, now=began)
    asking: list[tuple[float, int, Task]] = []
    waiting, handed, last, number = list(reversed(tasks)), began, began, 0
    while waiting or asking or link.next_end < math.inf:
        start = max(free[0], handed + place.dispatch) if waiting and free else math.inf
        asked = asking[0][0] if asking else math.inf
        served = link.next_end
        if start <= min(asked, served):
            heappop(free)
            task, handed, number = waiting.pop(), start, number + 1
            heappush(asking, (start + task.requests * place.latency, number, task))
        elif asked <= served:
            now, order, task = heappop(asking)
            link.advance(now)
            if task.bytes and min(place.bandwidth, place.connection) < math.inf:
                link.begin(task, order)
            else:
                heappush(free, now + task.seconds)
                last = max(last, now + task.seconds)
        else:
            link.advance(served)
            end = served + link.end().seconds
            heappush(free, end)
            last = max(last, end)
    return last
