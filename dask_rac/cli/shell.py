"""What all commands share: results on standard output, everything else on standard error, and the log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from dask_rac.base.secrets import masked

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from dask_rac.base.events import Event, Listener

PROGRAM = "dask-rac"


class _Discreet(logging.Formatter):
    """Leaves the secrets of URLs out of the log, whoever writes to it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return masked(super().format(record))


class Shell:
    """One invocation: what it prints, and where."""

    def __init__(self) -> None:
        self.quiet = False
        self.continuation: Callable[[], str] = str  # what to do after Ctrl-C, in the words of the library
        self._log = logging.getLogger("dask_rac.cli")
        self._log.propagate = False
        self._logged = False

    def open_log(self, path: str) -> None:
        """Also append everything to a file."""
        try:
            handler = logging.FileHandler(path, encoding="utf-8")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise click.BadParameter(f"{path!r} cannot be written: {reason}") from error
        handler.setFormatter(_Discreet("%(asctime)s %(levelname)s %(message)s"))
        for name in (self._log.name, "distributed"):
            logging.getLogger(name).addHandler(handler)
        self._log.setLevel(logging.INFO)
        self._logged = True
        click.get_current_context().find_root().call_on_close(lambda: self._close_log(handler))

    def _close_log(self, handler: logging.Handler) -> None:
        """Close the log; the process may continue, in tests or in a Python shell."""
        for name in (self._log.name, "distributed"):
            logging.getLogger(name).removeHandler(handler)
        handler.close()

    @property
    def out(self) -> Console:
        """The console for results."""
        from rich.console import Console

        return Console(file=sys.stdout, highlight=False, markup=False)

    def show(self, *pictures: RenderableType) -> None:
        """Print results; in a pipe without trailing blanks."""
        out = self.out
        if out.is_terminal:
            out.print(*pictures, sep="\n")
            return
        with out.capture() as capture:
            out.print(*pictures, sep="\n")
        click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))

    def notify(self, text: str) -> None:
        """Print a notice."""
        self._say(logging.INFO, text, not self.quiet)

    def warn(self, text: str) -> None:
        """Print a warning."""
        self._say(logging.WARNING, f"warning: {text}", not self.quiet)

    def answer(self, text: str) -> None:
        """Print an answer to the user, who is there and waits for it, even if quiet."""
        self._say(logging.INFO, text, True)

    def fail(self, text: str, trace: BaseException | None = None) -> None:
        """Print why the command failed, even if quiet."""
        self._say(logging.ERROR, text, True)
        if trace is not None and self._logged:
            self._log.error("traceback", exc_info=trace)

    @property
    def logged(self) -> bool:
        """Whether there is a log."""
        return self._logged

    def _say(self, level: int, text: str, aloud: bool) -> None:
        if aloud:
            click.echo(masked(f"{PROGRAM}: {text}"), err=True)
        if self._logged:
            self._log.log(level, text)

    @contextmanager
    def watch(self, text: str = "starting") -> Iterator[Listener]:
        """Show progress: a bar on a terminal, which shows `text` at first, and lines in the log."""
        from dask_rac.show.progress import LineProgress, TerminalProgress, on_terminal

        listeners: list[Callable[[Event], None]] = []
        with ExitStack() as stack:
            if not self.quiet and on_terminal():
                listeners.append(stack.enter_context(TerminalProgress(text)))
            if self._logged:
                listeners.append(LineProgress(self._log.info))

            def report(event: Event) -> None:
                for listener in listeners:
                    listener(event)

            yield report

    @contextmanager
    def connected(self, scheduler: str | None, require_tls: bool | None) -> Iterator[Any]:
        """Connect to what `--scheduler` names."""
        from dask_rac.base.defaults import setting
        from dask_rac.deploy import connected

        tls = bool(setting("require-tls", require_tls))
        with connected(setting("scheduler", scheduler), require_tls=tls, notify=self.notify) as client:
            yield client
