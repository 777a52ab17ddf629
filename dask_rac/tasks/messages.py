"""Pass progress events from tasks, wherever they run, to the process that waits for them.

A task sends events under a token. If a listener in its own process is registered for that token, it is called. On a
worker, events are sent to the client as messages of one topic, several at a time; the client queues them until the
waiting thread reads them.
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

from dask_rac.base.events import Event, Listener, RoundRecord

TOPIC = "dask_rac"
SEND_SECONDS = 0.1  # between two messages about rounds

_listeners: dict[str, Listener] = {}
_inboxes: dict[str, SimpleQueue[Event]] = {}
_subscribed: Counter[str] = Counter()
_lock = Lock()


class CancelledTaskError(RuntimeError):
    """Raised in a task that has been cancelled."""


def current_worker() -> Worker | None:
    """Return the worker whose task this thread runs, if any."""
    try:
        return get_worker()
    except ValueError:
        return None


@contextmanager
def sending(token: str) -> Iterator[Listener]:
    """Yield a function to which a task passes its events; on a worker it raises once the task is cancelled."""
    listener, worker = _listeners.get(token), current_worker()
    if listener is not None or worker is None:
        yield listener or _ignore
        return
    line = _Line(worker, token)
    yield line
    line.send()


class _Line:
    """Sends events from a task on a worker to its client."""

    def __init__(self, worker: Worker, token: str) -> None:
        self._worker, self._token = worker, token
        self._key = worker.get_current_task()
        self._waiting: list[dict[str, Any]] = []
        self._sent = 0.0

    def __call__(self, event: Event) -> None:
        """Queue an event, which is sent soon."""
        task = self._worker.state.tasks.get(self._key)
        if task is None or task.state == "cancelled":
            raise CancelledTaskError(f"{self._key} was cancelled")
        self._waiting.append(asdict(event))
        if event.stage != "round" or monotonic() - self._sent > SEND_SECONDS:
            self.send()

    def send(self) -> None:
        """Send the queued events now."""
        if self._waiting:
            self._worker.log_event(TOPIC, {"token": self._token, "events": self._waiting})
            self._waiting, self._sent = [], monotonic()


@contextmanager
def listening(token: str, report: Listener) -> Iterator[None]:
    """Report the events of tasks in this process during the block."""
    _listeners[token] = report
    try:
        yield
    finally:
        del _listeners[token]


@contextmanager
def receiving(client: Client, token: str, report: Listener) -> Iterator[Callable[[], None]]:
    """Yield a function that reports the events received so far from tasks on the workers of a client."""
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
    """Subscribe a client to the topic, unless it already is."""
    with _lock:
        _subscribed[client.id] += 1
        if _subscribed[client.id] == 1:
            client.subscribe_topic(TOPIC, _deliver)


def _unsubscribe(client: Client) -> None:
    """Unsubscribe a client, unless other runs still wait for messages."""
    with _lock:
        _subscribed[client.id] -= 1
        if not _subscribed[client.id]:
            del _subscribed[client.id]
            if client.status == "running":
                client.unsubscribe_topic(TOPIC)


def _deliver(message: tuple[float, Any]) -> None:
    """Queue the events of a message for the thread that waits; ignore those meant for other clients."""
    body = message[1]
    inbox = _inboxes.get(body["token"])
    if inbox is not None:
        for event in body["events"]:
            record = event["record"]
            inbox.put(Event(**event | {"record": record and RoundRecord(**record)}))


def _ignore(_event: Event) -> None:
    """Discard an event that has no listener."""
