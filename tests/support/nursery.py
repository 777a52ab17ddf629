"""Work in children of a process that has everything imported: cheap, and a crash or a hang ends a child only."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

CPU_SECONDS = 5  # of a child: more is a hang, however busy the machine
WALL_SECONDS = 60  # for a child that waits for something
ROOM = 2**32  # bytes of addresses beyond those of the nursery, to protect the machine
ACTS = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect")
"""What a file must never make a process do."""

_context = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Outcome:
    """What came of some work."""

    answer: Any
    """What the work returned; None if it failed."""
    error: tuple[str, ...]
    """The name of the exception that it raised, and those of the classes it is made of."""
    text: str
    """The message of the exception."""
    trace: str
    """The traceback of the exception."""
    end: str
    """Empty if the child reported, else how it died."""
    grown: int
    """Bytes of memory that the child used beyond what it was born with."""
    acts: tuple[str, ...]
    """What it did that a file must never make it do."""


class Nursery:
    """A process with one thread; `warm` imports and compiles what its children need."""

    def __init__(self, warm: Callable[[], None]) -> None:
        self._ours, theirs = _context.Pipe()
        self._process = _context.Process(target=_serve, args=(theirs, warm))
        self._process.start()
        theirs.close()

    def run(self, work: Callable[..., Any], *arguments: Any) -> Outcome:
        """Do some work in a new child."""
        self._ours.send((work, arguments))
        outcome = self._ours.recv()
        assert isinstance(outcome, Outcome)
        return outcome

    def close(self) -> None:
        """End the process."""
        self._ours.close()
        self._process.join()


def _serve(pipe: Connection, warm: Callable[[], None]) -> None:
    """Fork a child for each piece of work, until nobody asks any more."""
    warm()
    base = _forked(int, (), 0).grown
    while True:
        try:
            work, arguments = pipe.recv()
        except EOFError:
            return
        pipe.send(_forked(work, arguments, base))


def _forked(work: Callable[..., Any], arguments: tuple[Any, ...], base: int) -> Outcome:
    """Do some work in a child, and wait for it."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _work(writer, work, arguments)
    os.close(writer)
    data = _received(reader)
    if data is None:
        os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    grown = usage.ru_maxrss * 1024 - base
    if data is None:
        return Outcome(None, (), "", "", f"hung for {WALL_SECONDS} seconds", grown, ())
    if not data or os.WIFSIGNALED(status):
        died = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit code {status >> 8}"
        return Outcome(None, (), "", "", f"died of {died}", grown, ())
    answer, error, text, trace, acts = pickle.loads(data)
    return Outcome(answer, error, text, trace, "", grown, acts)


def _work(writer: int, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Do the work, report, and end this process without another word."""
    acts: list[str] = []
    sys.addaudithook(lambda event, _: acts.append(event) if event in ACTS else None)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_addresses() + ROOM, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answer, text, trace = None, "", ""
    error: tuple[str, ...] = ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = work(*arguments)
    except BaseException as fault:
        error = tuple(kind.__name__ for kind in type(fault).__mro__)
        text, trace = str(fault), traceback.format_exc(limit=-8)
    with os.fdopen(writer, "wb") as file:
        file.write(pickle.dumps((answer, error, text, trace, tuple(acts))))
    os._exit(0)


def _received(reader: int) -> bytes | None:
    """Return all that a child sends; None if it takes too long."""
    parts: list[bytes] = []
    with os.fdopen(reader, "rb", buffering=0) as file:
        while select.select([file], [], [], WALL_SECONDS)[0]:
            if not (part := file.read(2**16)):
                return b"".join(parts)
            parts.append(part)
    return None


def _addresses() -> int:
    """Return the bytes of addresses that this process uses."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
