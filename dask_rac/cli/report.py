"""The command that shows a run as one page: report."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from dask_rac.cli import options
from dask_rac.cli.shell import Shell

if TYPE_CHECKING:
    from dask_rac.config import Progress
    from dask_rac.overview import Overview

INTERVAL = 5.0  # seconds between two pages
IDLE = 9  # times as long as it took to make a page nothing is done before the next
GOING = "running", "unfinished"
START_SECONDS = 30.0  # for which a run that is to be watched may take to begin
SECOND_LOOK = 1.0  # seconds after which a run that seems to have stopped is looked at again


@options.command("dask-rac report run -o report.html")
@click.argument("run", type=options.PATH)
@click.option("-o", "--output", required=True, type=options.Output(), metavar="FILE", help="A new .html.")
@click.option("--height", type=float, multiple=True, metavar="H", help="A cut to look at; may be repeated.")
@click.option("--watch", is_flag=True, help="Write it again and again while the run goes on.")
@click.option("--interval", type=float, metavar="SECONDS", help="From one page to the next, 5 by default.")
@click.option("--overwrite", is_flag=True, help="Replace an older report.")
@options.common
def report(
    shell: Shell,
    run: str,
    output: str,
    height: tuple[float, ...],
    watch: bool,
    interval: float | None,
    overwrite: bool,
) -> None:
    """Show a RUN as one page, for a browser, without network.

    Pictures, the largest clusters at a height that a slider chooses, warnings. Also while it is under way.
    """
    from dask_rac.report.page import check_report

    if interval is not None and not watch:
        raise click.UsageError("--interval is for --watch: give both, or neither")
    if interval is not None and not 0 < interval < float("inf"):
        raise click.UsageError(f"--interval {interval:g} is no time to wait: give seconds, more than 0")
    if wrong := [value for value in height if not math.isfinite(value)]:
        raise click.UsageError(f"--height {wrong[0]:g} is no height to cut at: give a number")
    check_report(output, overwrite)
    if watch:
        await_run(run, shell.tell)
    with shell.watch("making the report") as progress:
        pages = Pages(run, output, height, progress, overwrite)
        found = pages.follow(INTERVAL if interval is None else interval) if watch else pages.write()
    _tell(shell, run, found, watch)
    click.echo(output)


def await_run(run: str, tell: Callable[[str], None]) -> None:
    """Give a run that was started at the same time a while to begin."""
    from dask_rac.store.files import Folder
    from dask_rac.store.manifest import HEADER

    folder, end = Folder(run), time.monotonic() + START_SECONDS
    if not folder.exists(HEADER):
        tell(f"waiting {START_SECONDS:g} s at most for {run} to begin")
    while not folder.exists(HEADER) and time.monotonic() < end:
        time.sleep(START_SECONDS / 100)


def _tell(shell: Shell, run: str, found: Overview, watch: bool) -> None:
    """What to know of a run that is not finished, or cannot go on."""
    from dask_rac.errors import DamagedStoreError

    if found.damaged is not None:
        raise DamagedStoreError(f"{found.damaged} is damaged: dask_rac.resume({run!r}) goes back to the step before it")
    if found.status == "running":
        shell.warn(f"{run} is on its way: this is how far it has come; --watch follows it to its end")
    elif found.status != "finished":
        stopped = "has stopped" if watch else "is not finished"
        shell.warn(f"{run} {stopped}: these are the merges so far; go on with `dask-rac resume {shlex.quote(run)}`")


@dataclass
class Pages:
    """The page of a run, once or again and again."""

    run: str
    output: str
    heights: Sequence[float]
    progress: Progress
    overwrite: bool

    def follow(self, interval: float) -> Overview:
        """Write a page at every interval until the run has come to its end, or nobody works on it any more."""
        from dask_rac.report import early, subject  # noqa: F401 - or the first page would seem to take long

        try:
            while True:
                began = time.monotonic()
                found = self._write_while_it_changes(interval)
                if found.status not in GOING:
                    return found
                self._rest(max(interval, IDLE * (time.monotonic() - began)), interval)
        except KeyboardInterrupt as stopped:
            stopped.add_note(f"{self.output} is the last page of {self.run}, which is left alone")
            raise

    def _rest(self, seconds: float, interval: float) -> None:
        """Wait, but no longer than the run goes on."""
        from dask_rac.overview import overview

        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, interval))
            if left > interval and overview(self.run).status not in GOING:
                return

    def _write_while_it_changes(self, refresh: float) -> Overview:
        """Write a page, unless the run has just taken away a file that was to be read."""
        from dask_rac.errors import DamagedStoreError
        from dask_rac.overview import overview

        try:
            return self.write(refresh)
        except (DamagedStoreError, FileNotFoundError):
            found = overview(self.run)
            if found.status != "running":
                raise
            return found

    def write(self, refresh: float | None = None) -> Overview:
        """Write a page of the run as it is; one that will be written again says so while the run goes on."""
        found = self._look(refresh is not None)
        again = refresh if found.status in GOING else None
        if found.facts is None or found.damaged is not None:
            self._write_early(found, again)
        else:
            self._write_tree(again)
        self.overwrite = True
        return found

    def _look(self, twice: bool) -> Overview:
        """How far the run is; what seems to have stopped, or to be damaged, may have been caught between two files."""
        from dask_rac.config import Event
        from dask_rac.overview import overview

        found = overview(self.run)
        if twice and (found.status == "stopped" or found.damaged is not None):
            time.sleep(SECOND_LOOK)
            found = overview(self.run)
        if found.facts is not None and found.rounds:
            self.progress(Event("round", found.facts.nodes, found.merges, found.rounds[-1]))
        return found

    def _write_early(self, found: Overview, refresh: float | None) -> None:
        """Write what the manifests tell."""
        from dask_rac.report.early import early_page
        from dask_rac.report.page import write_report

        write_report(self.output, replace(early_page(found), refresh=refresh), self.overwrite)

    def _write_tree(self, refresh: float | None) -> None:
        """Write a page of all that is there."""
        from dask_rac.api import open_run

        result = open_run(self.run, progress=self.progress)
        result.report(self.output, height=list(self.heights) or None, overwrite=self.overwrite, refresh=refresh)


COMMANDS = (report,)
