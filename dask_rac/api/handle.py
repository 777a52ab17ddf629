"""A run in the background: watch it, wait for it, stop it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import copy_context
from dataclasses import dataclass
from threading import Event as Signal
from threading import Thread, current_thread

from dask_rac.base.events import Event, Listener
from dask_rac.base.public import public
from dask_rac.results.clustering import Clustering
from dask_rac.show.cards import State, bar, card, in_notebook
from dask_rac.show.progress import CellOutput, Tracker
from dask_rac.tasks.scheduler import Scheduler

DRAW_SECONDS = 0.25  # between two updates in a notebook

Work = Callable[[Listener], tuple[Clustering, Sequence[str]]]
"""Runs, and returns the result and the texts of warnings."""


@public
class RunStoppedError(RuntimeError):
    """Raised when the result of a stopped run is requested. The message states how to continue."""


class StopRequest(KeyboardInterrupt):
    """Raised within the run after a call of `stop()`."""


@dataclass(frozen=True)
class RunProgress:
    """The progress of a run."""

    text: str
    """A description in words."""
    fraction: float | None
    """The completed fraction of the current stage, from 0 to 1; None if unknown."""
    seconds: float
    """Seconds since the run began."""
    event: Event | None
    """The last event that the run has reported."""


@public
class RunHandle:
    """A run in the background, as returned by `cluster(..., wait=False)` and `resume(..., wait=False)`.

    The run is controlled by a thread of this process, which delegates the work to other threads or to the workers of a
    client, and ends with the interpreter. A run with a store can then be resumed, if its edges are on disk or have
    been read. In a notebook, a handle displays a live progress bar.

    Attributes
    ----------
    status : {"running", "finished", "stopped", "failed"}
        The status of the run.
    progress : RunProgress
        The progress of the run: `text`, `fraction`, `seconds`, and the last `event`.
    store : str or None
        The path or URL of the store, if any.
    """

    def __init__(
        self, work: Work, place: Scheduler, store: str | None, watch: AbstractContextManager[Listener]
    ) -> None:
        self.store = store
        self._where = str(place)
        self._status: State = "running"
        self._tracker, self._asked, self._ended = Tracker(), Signal(), Signal()
        self._result: Clustering | None = None
        self._error: BaseException | None = None
        self._why = ""
        self._warnings: Sequence[str] = ()
        place.pulse = self._heed
        self._thread = Thread(target=copy_context().run, args=(self._run, work, watch), name="dask_rac", daemon=True)
        self._thread.start()

    @property
    def status(self) -> State:
        """The status of the run: "running", "finished", "stopped" or "failed"."""
        return self._status

    @property
    def progress(self) -> RunProgress:
        """The progress of the run."""
        tracker, status = self._tracker, self._status
        text = tracker.text if status == "running" else self._line()
        return RunProgress(text, 1.0 if status == "finished" else tracker.fraction, tracker.seconds, tracker.event)

    def done(self) -> bool:
        """Return whether the run has ended: finished, stopped or failed."""
        return self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run has ended.

        Parameters
        ----------
        timeout : float, optional
            The longest time to wait, in seconds. By default there is no limit. Ctrl-C ends the waiting, not the run.

        Returns
        -------
        bool
            Whether the run has ended.
        """
        if current_thread() is self._thread:
            raise RuntimeError("a progress function cannot wait for its own run: wait elsewhere")
        return self._ended.wait(timeout)

    def result(self, timeout: float | None = None) -> Clustering:
        """Wait for the run and return its result.

        Parameters
        ----------
        timeout : float, optional
            As for `wait`.

        Returns
        -------
        Clustering
            The result of `cluster`; with `store=`, a `StoredClustering`.

        Raises
        ------
        TimeoutError
            If the run takes longer than `timeout`. It continues.
        RunStoppedError
            If the run was stopped. The message states how to continue.
        Exception
            Any error that the run failed with.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        texts, self._warnings = self._warnings, ()
        for text in texts:
            warnings.warn(text, stacklevel=2)
        assert self._result is not None
        return self._result

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the run and return the error that it failed with.

        Parameters
        ----------
        timeout : float, optional
            As for `wait`.

        Returns
        -------
        BaseException or None
            None if there is a result. A `RunStoppedError` if the run was stopped.

        Raises
        ------
        TimeoutError
            If the run takes longer than `timeout`. It continues.
        """
        if not self.wait(timeout):
            raise TimeoutError(f"the run is still in progress after {timeout} s: {self._tracker.text}")
        return self._error

    def stop(self, timeout: float | None = None) -> bool:
        """Stop the run soon, and wait until it has ended and its store is free.

        Tasks and rounds in progress are completed, except on workers; no others begin. Whatever is committed to a
        store is kept, and `dask_rac.resume` continues from there.

        Parameters
        ----------
        timeout : float, optional
            As for `wait`.

        Returns
        -------
        bool
            Whether the run has ended. It may have finished just before. If called by the run's own progress function,
            `stop` does not wait and returns False.
        """
        self._asked.set()
        return current_thread() is not self._thread and self.wait(timeout)

    def _heed(self) -> None:
        """Raise if the run is to stop."""
        if self._asked.is_set():
            raise StopRequest

    def _run(self, work: Work, watch: AbstractContextManager[Listener]) -> None:
        """Run in a thread of its own."""
        try:
            with watch as report:
                self._result, self._warnings = work(self._listener(report))
            self._end("finished")
        except KeyboardInterrupt as stopped:
            self._why = self._advice(stopped)
            self._error = RunStoppedError(f"the run was stopped: {self._why}")
            self._end("stopped")
        except BaseException as error:  # whatever it is, result() raises it
            self._why, self._error = str(error) or type(error).__name__, error
            self._end("failed")

    def _listener(self, report: Listener) -> Listener:
        """Return a function that records events, passes them on to `report`, and stops the run if requested.

        A stored result keeps it and reports to it after the run has ended, such as in `verify`.
        """

        def listen(event: Event) -> None:
            if not self.done():
                self._tracker(event)
                self._heed()
            report(event)

        return listen

    def _end(self, status: State) -> None:
        """Record that the run has ended."""
        self._tracker.end()
        self._status = status
        self._ended.set()

    def _advice(self, stopped: BaseException) -> str:
        """Return how to continue."""
        if notes := getattr(stopped, "__notes__", []):
            return "; ".join(notes)
        also = ", with store= to be able to resume it" if self.store is None else ""
        return f"nothing was saved; start it again{also}"

    def _line(self) -> str:
        """Return the state of the run in one line."""
        return self._tracker.line(self._status, self._why)

    def __repr__(self) -> str:
        status = f"{self._status}, " if self._status in ("running", "finished") else ""
        store = "" if self.store is None else f", store={self.store}"
        return f"<RunHandle: {status}{self._line()}{store}>"

    def _repr_html_(self) -> str:
        facts = {"status": self._status, "runs on": self._where}
        if self.store is not None:
            facts["store"] = self.store
        return card("dask_rac.RunHandle", facts) + bar(self._line(), self._tracker.fraction, self._status)

    def _ipython_display_(self) -> None:
        """Show the state of the run until it has ended."""
        if not in_notebook():
            raise NotImplementedError  # IPython shows the text instead
        output = CellOutput()
        output.show(self._repr_html_(), repr(self))
        if not self.done():
            Thread(target=self._follow, args=(output,), daemon=True).start()

    def _follow(self, output: CellOutput) -> None:
        """Keep an output up to date until the run has ended."""
        ended = False
        while not ended:
            ended = self.wait(DRAW_SECONDS)
            output.show(self._repr_html_(), repr(self))
