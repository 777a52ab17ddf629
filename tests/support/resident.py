"""Work in a process of its own, whose resident memory is read from outside."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.folders import no_fsync

PATIENCE = 280  # seconds, on a busy machine

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.support.warm"])


def measured(work: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """Return what the work returned, and the most bytes that its process had in memory, libraries included."""
    ours, theirs = _context.Pipe()
    process = _context.Process(target=_work, args=(theirs, work, arguments))
    process.start()
    theirs.close()
    try:
        assert ours.poll(PATIENCE), "the process has not finished in time"
        answer = ours.recv()
        peak = _peak(process.pid)
        ours.send("read")
    finally:
        ours.close()
        process.join(PATIENCE)
        process.kill()
        process.join()
    if isinstance(answer, BaseException):
        raise answer
    return answer, peak


def _peak(pid: int | None) -> int:
    """Return the peak that the system has recorded for a process, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _work(pipe: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Do the work, report, and stay until the memory has been read."""
    try:
        with no_fsync():
            answer = work(*arguments)
    except BaseException as error:
        answer = error
    pipe.send(answer)
    with suppress(EOFError):
        pipe.recv()
