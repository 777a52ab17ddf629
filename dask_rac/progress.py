"""Progress on a terminal."""

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dask_rac.config import Event

TEXTS = {
    "compile": "compiling kernels (once after installation)",
    "load": "reading edges",
    "finisher": "finisher",
}


class TerminalProgress:
    """A line that shows the stage, the round, and the merges done; it leaves nothing behind."""

    def __init__(self) -> None:
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
        text = TEXTS.get(event.stage, event.stage)
        if event.record is not None:
            text = f"round {event.record.round}, {event.record.clusters:,} clusters, {event.record.edges:,} edges"
        if event.n_nodes:
            self._bar.update(self._task, total=event.n_nodes - 1, completed=event.merges)
        self._bar.update(self._task, description=text)


def on_terminal() -> bool:
    """Whether somebody watches standard error."""
    return sys.stderr is not None and sys.stderr.isatty()
