"""A terminal of 80 columns in which a command runs, and what its screen shows."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte

from tests.support.command import command_line, environment

COLUMNS, LINES = 80, 200


class Terminal:
    """A command running in a terminal."""

    def __init__(self, *words: str | Path, cwd: Path, **changes: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        ours = environment(TERM="xterm-256color", **changes)
        del ours["COLUMNS"]
        self.process = subprocess.Popen(
            command_line(*words), cwd=cwd, env=ours, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)

    def watch(self, look: Callable[[list[str]], None] = lambda _: None) -> list[str]:
        """Return the screen at the end; `look` is called with the screen whenever it changes."""
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self._ours], [], [], 0.2)
            if ready:
                try:
                    data = os.read(self._ours, 65536)
                except OSError:  # the other end is closed
                    data = b""
                if not data:
                    break
                self.raw += data
                self._stream.feed(data)
                look(self.screen)
        self.process.wait(30)
        os.close(self._ours)
        return self.screen

    def watch_raw(self) -> bytes:
        """Return every byte that was written."""
        self.watch()
        return self.raw

    @property
    def screen(self) -> list[str]:
        """The lines of the screen, without the empty ones at the end."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip().split("\n")
