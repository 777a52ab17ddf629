"""Ctrl-C: an answer at once, whatever the main thread is doing, and an end at once if it is pressed again.

Python runs signal handlers in the main thread, between two steps of its own: during a kernel, or while tasks in other
threads end, nothing would be said for as long as they take. So the signal also wakes a thread that does nothing else.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from dask_rac.base.clusters import clusters_to_stop
from dask_rac.cli.translation import as_command

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

    from dask_rac.cli.shell import Shell

INTERRUPTED = 130
PATIENCE = 0.15  # seconds: a command that ends sooner says itself what has come of it
LOST = b"\0"  # among the numbers of signals: an interrupt was raised where it could not be handled
SHOW_CURSOR = "\x1b[?25h"  # progress bars hide it


class Interrupts:
    """Answers Ctrl-C during a block of the main thread; in other threads, which get no signals, it does nothing."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._ended = threading.Event()
        self._listener: threading.Thread | None = None
        self._repeats = 0  # interrupts still to come that nobody pressed
        self.pressed = 0

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._read, self._write = os.pipe()
            os.set_blocking(self._write, False)  # a signal handler must not wait
            self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
            self._hook, sys.unraisablehook = sys.unraisablehook, self._repeat_if_lost
            self._listener = threading.Thread(target=self._listen, name="interrupts", daemon=True)
            self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._listener is not None:
            signal.set_wakeup_fd(self._before)
            sys.unraisablehook = self._hook
            os.close(self._write)
            self._listener.join()
            os.close(self._read)

    def _listen(self) -> None:
        """Read a byte for each signal until the other end is closed; answer those of Ctrl-C."""
        while byte := os.read(self._read, 1):
            if byte == LOST and not self._ended.wait(PATIENCE):
                self._repeats += 1
                os.kill(os.getpid(), signal.SIGINT)  # also ends a wait of the main thread
            elif byte[0] == signal.SIGINT and self._repeats:
                self._repeats -= 1
            elif byte[0] == signal.SIGINT:
                self.pressed += 1
                self._answer()

    def _repeat_if_lost(self, raised: UnraisableHookArgs) -> None:
        """Have an interrupt raised again that came while C called Python, as a compiler does, and was dropped there."""
        if issubclass(raised.exc_type, KeyboardInterrupt):
            os.write(self._write, LOST)
        else:
            self._hook(raised)

    def _answer(self) -> None:
        """Say what Ctrl-C does, or end the process if it was pressed before."""
        if self.pressed == 1:
            if not self._ended.wait(PATIENCE):
                self._shell.answer(self._first_text())
        elif clusters := clusters_to_stop():
            self._shell.answer(f"waiting until {', '.join(clusters)} has been stopped, as nothing else would stop it")
        else:
            self._end_at_once()

    def _first_text(self) -> str:
        """Return the answer to the first Ctrl-C."""
        later = self._later("; afterwards ")
        again = "" if clusters_to_stop() else "; press Ctrl-C again to stop at once"
        return f"stopping as soon as the current step ends{later}{again}"

    def _later(self, joined: str) -> str:
        """Return what the user may do afterwards, if there is anything to say."""
        text = self._shell.continuation()
        return f"{joined}{as_command(text)}" if text else ""

    def _end_at_once(self) -> None:
        """End the process; what it had not committed is lost, as if it had been killed."""
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write(f"{SHOW_CURSOR}\n")
        self._shell.answer(f"stopped at once{self._later('; ')}")
        sys.stdout.flush()
        os._exit(INTERRUPTED)
