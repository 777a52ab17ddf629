"""Progress on a terminal, in a notebook, or as lines."""

import sys
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import Event as Signal
from threading import Thread
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from dask_rac.base.errors import InputError
from dask_rac.base.events import Event, Listener
from dask_rac.base.text import at_least
from dask_rac.show.cards import State, bar, in_notebook

TEXTS = {
    "generate": "generating",
    "compile": "compiling kernels (once after installation)",
    "load": "reading edges",
    "scan": "checking edges",
    "ingest": "reading edges into shards",
    "rounds": "round 1",
    "rest": "finishing in memory",
    "finisher": "finisher",
    "verify": "recomputing heights",
    "score": "comparing edges with the tree",
    "vectors": "checking vectors",
    "pairs": "comparing all pairs",
    "neighbours": "searching neighbours",
    "lists": "ranking neighbours",
    "edges": "writing edges",
    "components": "counting components",
}
COUNTED = ("generate", "verify", "score", "vectors", "pairs", "neighbours", "lists", "edges")  # reported piece by piece
EDGE_STAGES = ("load", "scan", "ingest", "edges")  # after which rounds are of edges, not of all pairs
QUIET_SECONDS = 10  # between two lines about tasks
UNSEEN_SECONDS = 0.3  # work that ends sooner shows no bar in a notebook
DRAW_SECONDS = 0.2  # between two updates of a bar


class Describer:
    """Describes events in words."""

    def __init__(self) -> None:
        self._stage = "starting"
        self._edges, self._seconds, self._left = 0, 0.0, ""
        self._things = "edges"
        self._first: tuple[str, int, int, float] = "", 0, 0, 0.0

    def __call__(self, event: Event) -> str:
        """Return one line for an event."""
        if event.stage in ("pairs", *EDGE_STAGES):
            self._things = "pairs" if event.stage == "pairs" else "edges"
        if event.stage == "tasks":
            return f"{self._stage}, task {event.done} of {event.total}{self._left}"
        if event.stage in COUNTED:
            self._stage, self._left = f"{TEXTS[event.stage]}, piece {event.done} of {event.total}", self._pace(event)
            return self._stage + self._left
        if event.stage == "load" and event.done:
            return f"{TEXTS['load']}, {event.done:,} so far"
        record = event.record
        if record is None:
            self._stage, self._left = TEXTS.get(event.stage, event.stage), ""
            return self._stage
        things = f"{record.edges:,} {self._things}"
        text = f"round {record.round}: {record.clusters:,} clusters, {things}, {record.merges:,} merges"
        if event.seconds:
            self._left = self._estimate(record.edges, event.seconds)
            text += f", {event.seconds:.1f} s, {event.bytes / event.seconds / 1e6:,.0f} MB/s"
            self._stage = f"round {record.round + 1}, {record.clusters - record.merges:,} clusters left"
        if event.wanted:
            text += f"; memory='{at_least(event.wanted)}' would end the run in memory"
        return text + self._left

    def _pace(self, event: Event) -> str:
        """Estimate the time that the other pieces take, by those since the first that was seen."""
        stage, total, done, began = self._first
        if (stage, total) != (event.stage, event.total) or event.done <= done:
            self._first = event.stage, event.total, event.done, time.monotonic()
            return ""
        return _to_go((time.monotonic() - began) / (event.done - done) * (event.total - event.done))

    def _estimate(self, edges: int, seconds: float) -> str:
        """Estimate the time left if rounds keep shrinking at the current rate."""
        shrinks = edges / self._edges if self._edges else 0.7
        self._edges, self._seconds = edges, seconds
        return _to_go(seconds * shrinks / (1 - shrinks) if shrinks < 1 else 0.0)


def _to_go(seconds: float) -> str:
    """Return how long something will take, in words; nothing if that is less than a second."""
    return f", about {seconds:.0f} s to go" if seconds >= 1 else ""


class TerminalProgress:
    """A line that shows the stage, the round, and the merges done; it leaves nothing behind."""

    def __init__(self, text: str = "starting") -> None:
        """`text` is shown until the first event."""
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


class Tracker:
    """The progress of a task: in words, as a fraction where known, and in seconds."""

    def __init__(self) -> None:
        self.text = "starting"
        self.fraction: float | None = None
        self.event: Event | None = None
        self._describe, self._rounds, self._began = Describer(), 0, time.monotonic()
        self._ended: float | None = None

    def __call__(self, event: Event) -> None:
        """Record an event."""
        self.text, self.event = self._describe(event), event
        if event.record is not None:
            self._rounds = max(self._rounds, event.record.round)
        if event.stage in COUNTED:
            self.fraction = event.done / event.total if event.total else None
        elif event.n_nodes:
            self.fraction = event.merges / max(1, event.n_nodes - 1)

    def end(self) -> None:
        """Stop the clock."""
        self._ended = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds from the start until the end, or until now."""
        return (self._ended or time.monotonic()) - self._began

    def line(self, state: State, why: str = "") -> str:
        """Return the progress as one line, with the reason if it failed."""
        seconds = self.seconds
        if state == "running":
            return f"{int(seconds) // 60}:{int(seconds) % 60:02d} · {self.text}"
        took = f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"
        if state != "finished":
            return f"{state} after {took}: {why or self.text}"
        event = self.event
        if event is None or event.stage != "done":
            return f"done in {took}"
        rounds = f" in {self._rounds} round{'s' * (self._rounds != 1)}" if self._rounds else ""
        return f"{event.n_nodes:,} nodes, {event.merges:,} merges{rounds}, {took}"


class CellOutput:
    """HTML in the output of a notebook cell, replaced in place when shown again."""

    def __init__(self) -> None:
        self._name, self._html = f"dask_rac-{uuid.uuid4().hex}", ""

    @property
    def seen(self) -> bool:
        """Whether anything has been shown yet."""
        return bool(self._html)

    def show(self, html: str, text: str) -> None:
        """Show HTML in place of what was shown before; `text` is for frontends without HTML."""
        from IPython.display import display  # noqa: PLC0415 - only where there is a notebook

        if html != self._html:
            bundle = {"text/html": html, "text/plain": text}
            display(bundle, raw=True, display_id=self._name, update=self.seen)  # type: ignore[no-untyped-call]
            self._html = html


class NotebookProgress:
    """A bar below a notebook cell, which becomes one line at the end; short work shows none."""

    def __init__(self) -> None:
        self._tracker, self._output, self._ended = Tracker(), CellOutput(), Signal()
        self._artist = Thread(target=self._draw, daemon=True)

    def __enter__(self) -> "NotebookProgress":
        self._artist.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tracker.end()
        self._ended.set()
        self._artist.join()
        if self._output.seen:
            self._show("finished" if kind is None else "stopped" if issubclass(kind, KeyboardInterrupt) else "failed")

    def __call__(self, event: Event) -> None:
        """Record an event; the drawing thread shows it soon."""
        self._tracker(event)

    def _draw(self) -> None:
        """Redraw the bar until the work ends."""
        ended = self._ended.wait(UNSEEN_SECONDS)
        while not ended:
            self._show("running")
            ended = self._ended.wait(DRAW_SECONDS)

    def _show(self, state: State) -> None:
        line = self._tracker.line(state)
        self._output.show(bar(line, self._tracker.fraction, state), line)


def write_line(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"dask_rac: {text}\n")
    sys.stderr.flush()


class LineProgress:
    """One line per stage and round, and occasional lines in between."""

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


def listener_for(progress: Listener | bool | None) -> AbstractContextManager[Listener]:
    """Return the listener that the user chose with `progress`."""
    if callable(progress):
        return nullcontext(progress)
    if progress is not None and not isinstance(progress, bool):
        raise InputError(f"progress={progress!r} is neither True nor False nor a function")
    if progress is not False and in_notebook():
        return NotebookProgress()
    if progress and not on_terminal():
        return nullcontext(LineProgress())
    if progress or (progress is None and on_terminal()):
        return TerminalProgress()
    return nullcontext(lambda _: None)


def on_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()
