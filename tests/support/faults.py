"""Workers that die where a test says, and disks that are full."""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.support import crash


def doom(target: str, after: bool, marker: str) -> None:
    """Have this worker die at a call of a function, unless another has died there already, or the test is over."""

    def die(now: bool) -> None:
        if now == after:
            with contextlib.suppress(OSError):
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)

    crash.patch_calls(target, die).start()


@contextlib.contextmanager
def mounted_disk(path: Path, size: int) -> Iterator[None]:
    """Mount a disk of some bytes on a folder, which takes a right that containers seldom have."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this process may not mount a disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextlib.contextmanager
def counted_disk(path: Path, size: int) -> Iterator[None]:
    """Have a folder look like a disk of some bytes: what is free is counted, and arrays beyond it are refused."""
    disk_usage, writev = shutil.disk_usage, os.writev

    def count(where: Any) -> Any:
        if not Path(where).is_relative_to(path):
            return disk_usage(where)
        used = 0
        for home, _, names in os.walk(path):
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # a run deletes files meanwhile
                    used += os.lstat(os.path.join(home, name)).st_blocks * 512
        return type(disk_usage(path))(size, used, max(0, size - used))

    def write(file: int, views: Any) -> int:
        here = Path(os.readlink(f"/proc/self/fd/{file}")).is_relative_to(path)
        if here and sum(memoryview(view).nbytes for view in views) > count(path).free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return writev(file, views)

    with mock.patch.object(shutil, "disk_usage", count), mock.patch.object(os, "writev", write):
        yield


@contextlib.contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """Let nothing be written to a disk any more: by the system if it is mounted, else by refusing each call."""
    if os.path.ismount(disk):
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        yield
        return
    writes: list[tuple[Any, str, Callable[..., Any]]] = [
        (os, "open", lambda path, flags, *_, **__: path if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else None),
        (builtins, "open", lambda path, mode="r", *_, **__: path if set(mode) & set("wxa+") else None),
        *((os, name, lambda path, *_, **__: path) for name in ("mkdir", "rmdir", "unlink")),
        *((os, name, lambda _, path, **__: path) for name in ("link", "rename", "replace")),
    ]
    with contextlib.ExitStack() as stack:
        for holder, name, written in writes:
            stack.enter_context(mock.patch.object(holder, name, _refusing(getattr(holder, name), written, disk)))
        yield


def _refusing(function: Callable[..., Any], written: Callable[..., Any], disk: Path) -> Callable[..., Any]:
    """A function that writes nothing to a disk; `written` says what a call would write to, if anything."""

    def refuse(*arguments: Any, **keywords: Any) -> Any:
        path = written(*arguments, **keywords)
        if isinstance(path, str | Path) and Path(path).is_relative_to(disk):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return function(*arguments, **keywords)

    return refuse


def fill(disk: Path, left: int) -> Path:
    """Write a file that leaves only the given number of bytes free."""
    file = disk / "filling"
    file.write_bytes(bytes(shutil.disk_usage(disk).free - left))
    return file
