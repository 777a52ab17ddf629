"""Progress on a terminal, or as lines."""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from dask_rac.config import Event
from dask_rac.config import Progress as Sink
from dask_rac.errors import InputError

TEXTS = {
    "generate": "generating",
    "compile": "compiling kernels (once after installation)",
    "load": "reading edges",
    "scan": "checking edges",
    "ingest": "reading edges into shards",
    "rounds": "round 1",
    "rest": "the rest in memory",
    "finisher": "finisher",
    "verify": "recomputing heights",
    "vectors": "checking vectors",
    "neighbours": "searching neighbours",
    "lists": "ranking neighbours",
    "edges": "writing edges",
    "components": "counting components",
}
COUNTED = ("generate", "verify", "vectors", "neighbours", "lists", "edges")  # told piece by piece
QUIET_SECONDS = 10  # between two lines about tasks


class Describer:
    """Says in words what events mean."""

    def __init__(self) -> None:
        self._stage = "starting"
        self._edges, self._seconds, self._left = 0, 0.0, ""

    def __call__(self, event: Event) -> str:
        """One line for what is going on."""
        if event.stage == "tasks":
            return f"{self._stage}, task {event.done} of {event.total}{self._left}"
        if event.stage in COUNTED:
            return f"{TEXTS[event.stage]}, piece {event.done} of {event.total}"
        if event.stage == "load" and event.done:
            return f"{TEXTS['load']}, {event.done:,} so far"
        record = event.record
        if record is None:
            self._stage, self._left = TEXTS.get(event.stage, event.stage), ""
            return self._stage
        text = f"round {record.round}: {record.clusters:,} clusters, {record.edges:,} edges, {record.merges:,} merges"
        if event.seconds:
            self._left = self._estimate(record.edges, event.seconds)
            text += f", {event.seconds:.1f} s, {event.bytes / event.seconds / 1e6:,.0f} MB/s"
            self._stage = f"round {record.round + 1}, {record.clusters - record.merges:,} clusters left"
        return text + self._left

    def _estimate(self, edges: int, seconds: float) -> str:
        """How much longer, if rounds go on shrinking as they do."""
        shrinks = edges / self._edges if self._edges else 0.7
        self._edges, self._seconds = edges, seconds
        left = seconds * shrinks / (1 - shrinks) if shrinks < 1 else 0.0
        return f", about {left:.0f} s to go" if left >= 1 else ""


class TerminalProgress:
    """A line that shows the stage, the round, and the merges done; it leaves nothing behind."""

    def __init__(self, text: str = "starting") -> None:
        """`text` is shown until something is told."""
        self._describe = Describer()
        self._bar = Progress(
            TextColumn("dask_rac: {task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
            BarColumn(bar_width=16),
            TimeElapsedColumn(),
            console=Console(file=sys.stderr),
            transient=True,
            expand=True,
        )
        self._task = self._bar.add_task(text, total=None)

    def __enter__(self) -> "TerminalProgress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if event.stage in COUNTED:
            self._bar.update(self._task, total=event.total, completed=event.done)
        elif event.n_nodes:
            self._bar.update(self._task, total=event.n_nodes - 1, completed=event.merges)
        self._bar.update(self._task, description=self._describe(event))


def write_line(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(f"dask_rac: {text}\n")
    sys.stderr.flush()


class LineProgress:
    """A line for each stage and round, and now and then one in between."""

    def __init__(self, write: Callable[[str], None] = write_line) -> None:
        self._describe, self._write = Describer(), write
        self._last = 0.0

    def __call__(self, event: Event) -> None:
        """Write an event."""
        text = self._describe(event)
        often = event.stage in ("tasks", *COUNTED) or (event.stage == "load" and event.done)
        if often and time.monotonic() - self._last < QUIET_SECONDS:
            return
        self._last = time.monotonic()
        self._write(text)


def watcher(progress: Sink | bool | None) -> AbstractContextManager[Sink]:
    """Whom to tell what happens, by what the user gave as `progress`."""
    if callable(progress):
        return nullcontext(progress)
    if progress is not None and not isinstance(progress, bool):
        raise InputError(f"progress={progress!r} is neither True nor False nor a function")
    if progress and not on_terminal():
        return nullcontext(LineProgress())
    if progress or (progress is None and on_terminal()):
        return TerminalProgress()
    return nullcontext(lambda _: None)


def on_terminal() -> bool:
    """Whether somebody watches standard error."""
    return sys.stderr is not None and sys.stderr.isatty()
