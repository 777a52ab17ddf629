"""What tasks tell of their progress, from wherever they run to whoever waits for them.

A task tells by a token. Where somebody in its own process listens to that token, they are called. On a worker events go
to the client as messages of one topic, some at a time; the client keeps them until the thread that waits reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from queue import Empty, SimpleQueue
from threading import Lock
from time import monotonic
from typing import Any

from distributed import Client, Worker, get_worker

from dask_rac.config import Event, Progress, RoundRecord

TOPIC = "dask_rac"
SEND_SECONDS = 0.1  # between two messages about rounds

_listeners: dict[str, Progress] = {}
_inboxes: dict[str, SimpleQueue[Event]] = {}
_subscribed: Counter[str] = Counter()
_lock = Lock()


class UnwantedError(RuntimeError):
    """A task that nobody waits for any more."""


def current_worker() -> Worker | None:
    """The worker whose task this thread runs."""
    try:
        return get_worker()
    except ValueError:
        return None


@contextmanager
def telling(token: str) -> Iterator[Progress]:
    """Whom a task tells; on a worker telling raises once the task is cancelled."""
    listener, worker = _listeners.get(token), current_worker()
    if listener is not None or worker is None:
        yield listener or _nobody
        return
    line = _Line(worker, token)
    yield line
    line.send()


class _Line:
    """From a task on a worker to its client."""

    def __init__(self, worker: Worker, token: str) -> None:
        self._worker, self._token = worker, token
        self._key = worker.get_current_task()
        self._waiting: list[dict[str, Any]] = []
        self._sent = 0.0

    def __call__(self, event: Event) -> None:
        """Tell of an event, soon."""
        task = self._worker.state.tasks.get(self._key)
        if task is None or task.state == "cancelled":
            raise UnwantedError(f"{self._key} was cancelled")
        self._waiting.append(asdict(event))
        if event.stage != "round" or monotonic() - self._sent > SEND_SECONDS:
            self.send()

    def send(self) -> None:
        """Tell now what has not been told."""
        if self._waiting:
            self._worker.log_event(TOPIC, {"token": self._token, "events": self._waiting})
            self._waiting, self._sent = [], monotonic()


@contextmanager
def listening(token: str, report: Progress) -> Iterator[None]:
    """Have the tasks of this process report while in the block."""
    _listeners[token] = report
    try:
        yield
    finally:
        del _listeners[token]


@contextmanager
def hearing(client: Client, token: str, report: Progress) -> Iterator[Callable[[], None]]:
    """While in the block, a call reports what tasks on the workers of a client have told."""
    inbox = _inboxes[token] = SimpleQueue()
    _subscribe(client)

    def read() -> None:
        while True:
            try:
                event = inbox.get_nowait()
            except Empty:
                return
            report(event)

    try:
        yield read
    finally:
        _unsubscribe(client)
        del _inboxes[token]


def _subscribe(client: Client) -> None:
    """Have messages delivered."""
    with _lock:
        _subscribed[client.id] += 1
        if _subscribed[client.id] == 1:
            client.subscribe_topic(TOPIC, _deliver)


def _unsubscribe(client: Client) -> None:
    """Have them delivered no longer, unless others wait for theirs."""
    with _lock:
        _subscribed[client.id] -= 1
        if not _subscribed[client.id]:
            del _subscribed[client.id]
            if client.status == "running":
                client.unsubscribe_topic(TOPIC)


def _deliver(message: tuple[float, Any]) -> None:
    """Put events where they are waited for; those of other clients are nobody's here."""
    told = message[1]
    inbox = _inboxes.get(told["token"])
    if inbox is not None:
        for event in told["events"]:
            record = event["record"]
            inbox.put(Event(**event | {"record": record and RoundRecord(**record)}))


def _nobody(_event: Event) -> None:
    """Nobody wants to know."""
