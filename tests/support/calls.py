"""Every call of the file layer below a folder, handed to a test that may delay it, refuse it, or cut it short."""

from __future__ import annotations

import builtins
import fcntl
import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

READS = frozenset({"open", "read", "pread", "preadv", "listdir", "scandir", "stat", "lstat", "close", "flock"})
CREATES = frozenset({"create", "write", "writev", "pwrite", "mkdir", "link", "replace", "rename", "fsync"})
DELETES = frozenset({"unlink", "rmdir", "ftruncate"})
CUT = frozenset({"write", "writev"})
"""Calls that may write less than they were asked to."""

BY_PATH = ("mkdir", "rmdir", "unlink", "listdir", "scandir", "stat", "lstat")
BY_TWO_PATHS = ("link", "replace", "rename")
BY_HANDLE = ("close", "fsync", "ftruncate", "pwrite", "pread", "preadv", "writev")


@dataclass(frozen=True)
class Call:
    """One call, which happens when `go` is called."""

    name: str
    """Of the function; `create` if it opens a file to write it."""
    path: str
    go: Callable[[], Any]
    go_short: Callable[[], int] | None = None
    """Writes half of the bytes, where a call may do that."""


Act = Callable[[Call], Any]
"""Decides what becomes of a call, and returns what the caller gets."""


@contextmanager
def watched(root: Path, act: Act) -> Iterator[None]:
    """Hand every call that concerns a folder, or anything in it, to `act`."""
    layer = _Layer(str(root), act)
    with ExitStack() as stack:
        for name in BY_PATH:
            stack.enter_context(mock.patch.object(os, name, layer.by_path(name, getattr(os, name))))
        for name in BY_TWO_PATHS:
            stack.enter_context(mock.patch.object(os, name, layer.by_two_paths(name, getattr(os, name))))
        for name in BY_HANDLE:
            stack.enter_context(mock.patch.object(os, name, layer.by_handle(name, getattr(os, name))))
        stack.enter_context(mock.patch.object(os, "open", layer.os_open(os.open)))
        stack.enter_context(mock.patch.object(fcntl, "flock", layer.by_handle("flock", fcntl.flock)))
        stack.enter_context(mock.patch.object(builtins, "open", layer.open(builtins.open)))
        yield


class _Layer:
    """Functions of the file layer that ask first."""

    def __init__(self, root: str, act: Act) -> None:
        self._root, self._act = root, act
        self._readlink = os.readlink

    def _inside(self, path: str) -> bool:
        """Whether a path is the folder or in it."""
        return path.startswith(self._root) and path[len(self._root) : len(self._root) + 1] in ("", "/", ".")

    def _path(self, given: Any, folder: int | None = None) -> str:
        """Return the path that a call concerns; empty if that is unknown."""
        if isinstance(given, int):
            try:
                return self._readlink(f"/proc/self/fd/{given}")
            except OSError:
                return ""
        path = os.fsdecode(given)
        return path if folder is None else os.path.join(self._path(folder), path)

    def by_path(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *arguments: Any, dir_fd: int | None = None, **keywords: Any) -> Any:
            if dir_fd is not None:
                keywords["dir_fd"] = dir_fd
            where = self._path(path, dir_fd)
            if not self._inside(where):
                return function(path, *arguments, **keywords)
            return self._act(Call(name, where, lambda: function(path, *arguments, **keywords)))

        return call

    def by_two_paths(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(source: Any, target: Any, **keywords: Any) -> Any:
            where = self._path(target, keywords.get("dst_dir_fd"))
            if not self._inside(where):
                return function(source, target, **keywords)
            return self._act(Call(name, where, lambda: function(source, target, **keywords)))

        return call

    def by_handle(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(handle: Any, *arguments: Any) -> Any:
            number = handle if isinstance(handle, int) else handle.fileno()
            where = self._path(number)
            if not self._inside(where):
                return function(handle, *arguments)
            short = None
            if name == "writev" and sum(map(_bytes, arguments[0])) > 1:
                short = lambda: function(handle, _half(arguments[0]))  # noqa: E731 - as for the whole
            return self._act(Call(name, where, lambda: function(handle, *arguments), short))

        return call

    def os_open(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, flags: int, *arguments: Any, dir_fd: int | None = None, **keywords: Any) -> Any:
            where = self._path(path, dir_fd)
            if not self._inside(where):
                return function(path, flags, *arguments, dir_fd=dir_fd, **keywords)
            name = "create" if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else "open"
            return self._act(Call(name, where, lambda: function(path, flags, *arguments, dir_fd=dir_fd, **keywords)))

        return call

    def open(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, mode: str = "r", buffering: int = -1, *arguments: Any, **keywords: Any) -> Any:
            binary = "b" in mode and not isinstance(path, int)
            if not binary or not self._inside(self._path(path)):
                return function(path, mode, buffering, *arguments, **keywords)
            where, plain = self._path(path), mode.replace("b", "")
            name = "open" if plain == "r" else "create"
            raw = self._act(Call(name, where, lambda: _WatchedFile(path, plain, self._act)))
            if buffering == 0:
                return raw
            kind = io.BufferedRandom if "+" in plain else io.BufferedReader if plain == "r" else io.BufferedWriter
            return kind(raw)

        return call


class _WatchedFile(io.FileIO):
    """A file whose reads and writes ask first."""

    def __init__(self, path: Any, mode: str, act: Act) -> None:
        super().__init__(path, mode)
        self._where, self._act = os.fsdecode(path), act

    def write(self, data: Any) -> int:
        part = memoryview(data).cast("B")
        super_write = super().write
        short = (lambda: super_write(part[: len(part) // 2]) or 0) if len(part) > 1 else None
        return int(self._act(Call("write", self._where, lambda: super_write(part), short)))

    def read(self, size: int | None = -1) -> bytes:
        plain = super().read
        return bytes(self._act(Call("read", self._where, lambda: plain(-1 if size is None else size))))

    def readall(self) -> bytes:
        plain = super().readall
        return bytes(self._act(Call("read", self._where, plain)))

    def readinto(self, buffer: Any) -> int:
        plain = super().readinto
        return int(self._act(Call("read", self._where, lambda: plain(buffer))))

    def close(self) -> None:
        plain = super().close
        if self.closed:
            plain()
        else:
            self._act(Call("close", self._where, plain))


def _bytes(part: Any) -> int:
    return memoryview(part).nbytes


def _half(parts: list[Any]) -> list[Any]:
    """The first half of the bytes of some buffers."""
    left, halves = sum(map(_bytes, parts)) // 2, []
    for part in parts:
        halves.append(memoryview(part).cast("B")[:left])
        left -= len(halves[-1])
        if not left:
            break
    return halves
