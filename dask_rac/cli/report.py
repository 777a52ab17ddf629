"""The command that shows a run as one page: report."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import click

from dask_rac.cli import options
from dask_rac.cli.shell import Shell

if TYPE_CHECKING:
    from dask_rac.base.events import Listener
    from dask_rac.store.overview import Overview

INTERVAL = 5.0  # seconds between two pages
GOING = "running", "unfinished"
START_SECONDS = 30.0  # how long --watch waits for a run to start


@dataclass(frozen=True)
class Pace:
    """How long a command that watches a run pauses; tests hand over shorter pauses."""

    idle: float = 9
    """Pause at least this many times as long as a page took to make."""
    second_look: float = 1.0
    """Seconds after which a run that seems to have stopped is checked again."""


@options.command("dask-rac report run -o report.html")
@click.argument("run", type=options.PATH)
@click.option("-o", "--output", required=True, type=options.Output(), metavar="FILE", help="New .html file.")
@click.option("--height", type=float, multiple=True, metavar="H", help="A cut to show; may be repeated.")
@click.option("--title", metavar="TEXT", help="Title of the page.")
@click.option("--watch", is_flag=True, help="Update the page until the run ends.")
@click.option("--interval", type=float, metavar="SECONDS", help="Between two updates, default 5.")
@click.option("--overwrite", is_flag=True, help="Replace an existing report.")
@options.common
def report(
    shell: Shell,
    run: str,
    output: str,
    height: tuple[float, ...],
    title: str | None,
    watch: bool,
    interval: float | None,
    overwrite: bool,
) -> None:
    """Write a report of a RUN as one HTML page that works offline.

    Pictures, the largest clusters at a height chosen with a slider, the tree to walk and search, warnings. The run may
    be unfinished.
    """
    from dask_rac.show.report.page import check_report, check_title

    if interval is not None and not watch:
        raise click.UsageError("--interval only works with --watch: pass both, or neither")
    if interval is not None and not 0 < interval < float("inf"):
        raise click.UsageError(f"--interval {interval:g} is not a valid interval: pass a number of seconds above 0")
    if wrong := [value for value in height if not math.isfinite(value)]:
        raise click.UsageError(f"--height {wrong[0]:g} is not a height to cut at: pass a finite number")
    check_title(title)
    check_report(output, overwrite)
    if watch:
        await_run(run, shell.notify)
    with shell.watch("making the report") as progress:
        pages = Pages(run, output, height, progress, overwrite, title=title)
        state = pages.follow(INTERVAL if interval is None else interval) if watch else pages.write()
    _warn(shell, run, state, watch)
    click.echo(output)


def await_run(run: str, notify: Callable[[str], None]) -> None:
    """Wait a while for a run that was started at the same time."""
    from dask_rac.base.names import HEADER
    from dask_rac.files.folder import Folder

    folder, end = Folder(run), time.monotonic() + START_SECONDS
    if not folder.exists(HEADER):
        notify(f"waiting up to {START_SECONDS:g} s for {run} to start")
    while not folder.exists(HEADER) and time.monotonic() < end:
        time.sleep(START_SECONDS / 100)


def _warn(shell: Shell, run: str, state: Overview, watch: bool) -> None:
    """Warn if the run is unfinished; raise if it is damaged."""
    from dask_rac.base.errors import DamagedStoreError
    from dask_rac.store.advice import lost_text

    if state.damaged is not None:
        raise DamagedStoreError(lost_text(state.damaged, run))
    if state.status == "running":
        shell.warn(f"{run} is in progress: the report shows the merges so far; --watch updates it until the run ends")
    elif state.status != "finished":
        stopped = "has stopped" if watch else "is not finished"
        shell.warn(
            f"{run} {stopped}: the report shows the merges so far; resume it with `dask-rac resume {shlex.quote(run)}`"
        )


@dataclass
class Pages:
    """The page of a run, written once or repeatedly."""

    run: str
    output: str
    heights: Sequence[float]
    progress: Listener
    overwrite: bool
    pace: Pace = field(default_factory=Pace)
    title: str | None = None

    def follow(self, interval: float) -> Overview:
        """Write a page at every interval until the run has finished, or no process works on it any more."""
        from dask_rac.show.report import (
            early,  # noqa: F401 - else the first page would include their import time
            subject,  # noqa: F401 - else the first page would include their import time
        )

        try:
            while True:
                began = time.monotonic()
                state = self._write_while_it_changes(interval)
                if state.status not in GOING:
                    return state
                self._rest(max(interval, self.pace.idle * (time.monotonic() - began)), interval)
        except KeyboardInterrupt as stopped:
            stopped.add_note(f"{self.output} is the last page of {self.run}; the run itself was not touched")
            raise

    def _rest(self, seconds: float, interval: float) -> None:
        """Wait, but not beyond the end of the run."""
        from dask_rac.store.overview import overview

        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, interval))
            if left > interval and overview(self.run).status not in GOING:
                return

    def _write_while_it_changes(self, refresh: float) -> Overview:
        """Write a page, unless the run has just deleted a file that was to be read."""
        from dask_rac.base.errors import DamagedStoreError
        from dask_rac.store.overview import overview

        try:
            return self.write(refresh)
        except (DamagedStoreError, FileNotFoundError):
            state = overview(self.run)
            if state.status != "running":
                raise
            return state

    def write(self, refresh: float | None = None) -> Overview:
        """Write a page of the run as it is; a page that will be updated reloads itself while the run is in progress."""
        state = self._look(refresh is not None)
        again = refresh if state.status in GOING else None
        if state.facts is None or state.damaged is not None:
            self._write_early(state, again)
        else:
            self._write_tree(again)
        self.overwrite = True
        return state

    def _look(self, twice: bool) -> Overview:
        """Return the state of the run; check twice if it seems stopped or damaged: it may be between two files."""
        from dask_rac.base.events import Event
        from dask_rac.store.overview import overview

        state = overview(self.run)
        if twice and (state.status == "stopped" or state.damaged is not None):
            time.sleep(self.pace.second_look)
            state = overview(self.run)
        if state.facts is not None and state.rounds:
            self.progress(Event("round", state.facts.nodes, state.merges, state.rounds[-1]))
        return state

    def _write_early(self, state: Overview, refresh: float | None) -> None:
        """Write a page from the manifests alone."""
        from dask_rac.show.report.early import early_page
        from dask_rac.show.report.page import write_report

        write_report(self.output, replace(early_page(state), refresh=refresh, title=self.title), self.overwrite)

    def _write_tree(self, refresh: float | None) -> None:
        """Write a page with the tree so far."""
        from dask_rac.api.cluster import open_run

        result = open_run(self.run, progress=self.progress)
        result.report(
            self.output,
            height=list(self.heights) or None,
            overwrite=self.overwrite,
            refresh=refresh,
            title=self.title,
        )


COMMANDS = (report,)
