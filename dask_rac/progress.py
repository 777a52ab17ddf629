"""Progress on a terminal, or as lines."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dask_rac.config import Event

TEXTS = {
    "compile": "compiling kernels (once after installation)",
    "load": "reading edges",
    "scan": "checking edges",
    "ingest": "reading edges into shards",
    "rounds": "round 1",
    "rest": "the rest in memory",
    "finisher": "finisher",
    "verify": "recomputing heights",
}
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
        if event.stage == "verify":
            return f"{TEXTS['verify']}, piece {event.done} of {event.total}"
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

    def __init__(self) -> None:
        self._describe = Describer()
        self._bar = Progress(
            TextColumn("dask_rac: {task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=Console(file=sys.stderr),
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> "TerminalProgress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if event.stage == "verify":
            self._bar.update(self._task, total=event.total, completed=event.done)
        elif event.n_nodes:
            self._bar.update(self._task, total=event.n_nodes - 1, completed=event.merges)
        self._bar.update(self._task, description=self._describe(event))


class LineProgress:
    """A line for each stage and round, and now and then one in between."""

    def __init__(self) -> None:
        self._describe = Describer()
        self._last = 0.0

    def __enter__(self) -> "LineProgress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.stderr.flush()

    def __call__(self, event: Event) -> None:
        """Write an event."""
        text = self._describe(event)
        often = event.stage in ("tasks", "verify")
        if often and time.monotonic() - self._last < QUIET_SECONDS:
            return
        self._last = time.monotonic()
        sys.stderr.write(f"dask_rac: {text}\n")


def on_terminal() -> bool:
    """Whether somebody watches standard error."""
    return sys.stderr is not None and sys.stderr.isatty()
