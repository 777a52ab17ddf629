"""A run in the background: look at it, wait for it, stop it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import copy_context
from dataclasses import dataclass
from threading import Event as Signal
from threading import Thread, current_thread

from dask_rac.cards import State, bar, card, in_notebook
from dask_rac.clustering import Clustering
from dask_rac.config import Event, Progress
from dask_rac.progress import CellOutput, Tracker
from dask_rac.workers import Scheduler

DRAW_SECONDS = 0.25  # between two pictures in a notebook

Work = Callable[[Progress], tuple[Clustering, Sequence[str]]]
"""Does a run; gives its result, and what to warn of."""


class RunStoppedError(RuntimeError):
    """A run that was stopped has no result; the message says how to go on."""


class StopRequest(KeyboardInterrupt):
    """Somebody has called `stop()`."""


@dataclass(frozen=True)
class RunProgress:
    """How far a run is."""

    text: str
    """In words."""
    fraction: float | None
    """From 0 to 1, of the stage under way; None where that is unknown."""
    seconds: float
    """Since it began."""
    event: Event | None
    """What it has told last."""


class RunHandle:
    """A run in the background, as `cluster(..., wait=False)` and `resume(..., wait=False)` return it.

    It runs in a thread of this process, which has the work done by other threads or by the workers of a client, and
    ends with the interpreter; a run with a store can then be resumed, if its edges are on disk or have been read. In a
    notebook a handle shows a bar that moves.

    Attributes
    ----------
    status : {"running", "finished", "stopped", "failed"}
        How it stands.
    progress : RunProgress
        How far it is: `text`, `fraction`, `seconds`, and the last `event`.
    store : str or None
        Where its state is kept.
    """

    def __init__(
        self, work: Work, place: Scheduler, store: str | None, watch: AbstractContextManager[Progress]
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
        """How it stands: "running", "finished", "stopped" or "failed"."""
        return self._status

    @property
    def progress(self) -> RunProgress:
        """How far it is."""
        tracker, status = self._tracker, self._status
        text = tracker.text if status == "running" else self._line()
        return RunProgress(text, 1.0 if status == "finished" else tracker.fraction, tracker.seconds, tracker.event)

    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most. Without it, as long as it takes; Ctrl-C ends the waiting, not the run.

        Returns
        -------
        bool
            Whether it has ended.
        """
        if current_thread() is self._thread:
            raise RuntimeError("a run cannot be waited for by its own progress function: wait elsewhere")
        return self._ended.wait(timeout)

    def result(self, timeout: float | None = None) -> Clustering:
        """The result, when it is there.

        Parameters
        ----------
        timeout : float, optional
            As for `wait`.

        Returns
        -------
        Clustering
            What `cluster` would have returned: with `store=`, a `StoredClustering`.

        Raises
        ------
        TimeoutError
            If it takes longer than `timeout`; the run goes on.
        RunStoppedError
            If it was stopped; the message says how to go on.
        Exception
            What the run failed with.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        told, self._warnings = self._warnings, ()
        for text in told:
            warnings.warn(text, stacklevel=2)
        assert self._result is not None
        return self._result

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the run failed with, when it has ended.

        Parameters
        ----------
        timeout : float, optional
            As for `wait`; `TimeoutError` is raised when it has passed.

        Returns
        -------
        BaseException or None
            None if there is a result. A `RunStoppedError` if it was stopped.
        """
        if not self.wait(timeout):
            raise TimeoutError(f"the run is still on its way after {timeout} s: {self._tracker.text}")
        return self._error

    def stop(self, timeout: float | None = None) -> bool:
        """End it soon, and wait until it has ended and its store is free.

        Tasks and rounds under way are not broken off, unless they are on workers; no other begins. What is committed to
        a store stays: `dask_rac.resume` goes on from there.

        Parameters
        ----------
        timeout : float, optional
            As for `wait`.

        Returns
        -------
        bool
            Whether it has ended. It may have finished just before. Called by the run's own progress function, it does
            not wait, and gives False.
        """
        self._asked.set()
        return current_thread() is not self._thread and self.wait(timeout)

    def _heed(self) -> None:
        """Raise if it shall stop."""
        if self._asked.is_set():
            raise StopRequest

    def _run(self, work: Work, watch: AbstractContextManager[Progress]) -> None:
        """Do the work, in a thread of its own."""
        try:
            with watch as report:
                self._result, self._warnings = work(self._telling(report))
            self._end("finished")
        except KeyboardInterrupt as stopped:
            self._why = self._advice(stopped)
            self._error = RunStoppedError(f"the run was stopped: {self._why}")
            self._end("stopped")
        except BaseException as error:  # whatever it is, result() raises it
            self._why, self._error = str(error) or type(error).__name__, error
            self._end("failed")

    def _telling(self, report: Progress) -> Progress:
        """Takes note of what is told, passes it on, and stops the run if that is wanted.

        A stored result goes on telling by it when it is asked for something.
        """

        def tell(event: Event) -> None:
            if not self.done():
                self._tracker(event)
                self._heed()
            report(event)

        return tell

    def _end(self, status: State) -> None:
        """Say that it has ended."""
        self._tracker.end()
        self._status = status
        self._ended.set()

    def _advice(self, stopped: BaseException) -> str:
        """How to go on."""
        if notes := getattr(stopped, "__notes__", []):
            return "; ".join(notes)
        also = ", with store= to be able to resume it" if self.store is None else ""
        return f"nothing of it is kept; start it again{also}"

    def _line(self) -> str:
        """How it stands, in one line."""
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
        """Show how it stands until it has ended."""
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
