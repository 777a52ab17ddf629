"""A log of all that a program does to a folder: what it writes, names, flushes and deletes, in order.

It is taken where Python calls the system, so whoever writes files by other means is not seen: `replayed` against the
folder itself shows whether anything is missing.
"""

from __future__ import annotations

import builtins
import os
import random
import stat
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock


class KilledError(BaseException):
    """The end of a process, after which nothing is put in order: no `except Exception` sees it."""


@dataclass(frozen=True)
class Operation:
    """One thing done to a folder; paths are relative to it."""

    kind: str
    """create, data, mkdir, link, rename, unlink, flush, or mark, which does nothing."""
    path: str
    other: str = ""
    """What a link or a renamed file was called before."""
    data: bytes = b""
    """All that a file holds from now on."""
    facts: Any = None
    """What is known at a mark."""


@dataclass
class DiskLog:
    """All that is done to a folder while it is recorded. Nothing is really flushed."""

    root: Path
    operations: list[Operation] = field(default_factory=list)
    kill_at: int | None = None
    """The process dies when it tries to do this operation; nothing after it has any effect."""
    _known: dict[int, bytes] = field(default_factory=dict, repr=False)
    """What files held when they were last looked at."""
    _lock: Any = field(default_factory=threading.RLock, repr=False)

    def mark(self, facts: Any) -> None:
        """Note in the log what is known at this moment."""
        self.operations.append(Operation("mark", "", facts=facts))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what this process does in the block; random names are the same each time."""
        chance = random.Random(len(self.operations))
        patches: list[tuple[Any, str, Callable[[Any], Any]]] = [
            (uuid, "uuid4", lambda _: lambda: uuid.UUID(int=chance.getrandbits(128))),
            (builtins, "open", self._open),
            (os, "open", self._open_low),
            (os, "writev", self._written),
            (os, "pwrite", self._written),
            (os, "ftruncate", self._written),
            (os, "fsync", self._flush),
            (os, "mkdir", lambda real: self._named("mkdir", real)),
            (os, "unlink", lambda real: self._named("unlink", real)),
            (os, "rmdir", lambda real: self._named("unlink", real)),
            (os, "link", lambda real: self._renamed("link", real)),
            (os, "replace", lambda real: self._renamed("rename", real)),
        ]
        with ExitStack() as stack:
            for owner, name, patch in patches:
                stack.enter_context(mock.patch.object(owner, name, patch(getattr(owner, name))))
            yield

    def _inside(self, path: Any, dir_fd: int | None = None) -> str | None:
        """Return a path relative to the folder; None if it is elsewhere."""
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        elif dir_fd is not None:
            path = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), path)
        path, root = os.path.abspath(os.fspath(path)), str(self.root)
        return path[len(root) + 1 :] if path == root or path.startswith(f"{root}/") else None

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """One operation at a time, and none after the end."""
        with self._lock:
            if self.kill_at is not None and len(self.operations) >= self.kill_at:
                raise KilledError
            yield

    def _open(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Any, mode: str = "r", *arguments: Any, **keywords: Any) -> Any:
            where = self._inside(path) if set(mode) & set("wxa+") and not isinstance(path, int) else None
            return self._create(where, lambda: real(path, mode, *arguments, **keywords))

        return opened

    def _open_low(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Any, flags: int, *arguments: Any, **keywords: Any) -> Any:
            where = self._inside(path, keywords.get("dir_fd")) if flags & os.O_CREAT else None
            return self._create(where, lambda: real(path, flags, *arguments, **keywords))

        return opened

    def _create(self, where: str | None, make: Callable[[], Any]) -> Any:
        if where is None:
            return make()
        with self._alive():
            new = not os.path.lexists(self.root / where)
            made = make()
            if new:
                self.operations.append(Operation("create", where))
            return made

    def _written(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def written(handle: int, *arguments: Any) -> Any:
            if self._inside(handle) is None:
                return real(handle, *arguments)
            with self._alive():
                done = real(handle, *arguments)
                self._look(handle)
                return done

        return written

    def _look(self, handle: int) -> None:
        """Note what a file holds now."""
        where, about = self._inside(handle), os.fstat(handle)
        assert where is not None
        with self._reading(where) as file:
            data = file.read()
        if self._known.get(about.st_ino) != data:
            self._known[about.st_ino] = data
            self.operations.append(Operation("data", where, data=data))

    def _reading(self, where: str) -> Any:
        return (self.root / where).open("rb")

    def _flush(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def flushed(handle: int) -> None:
            where = self._inside(handle)
            if where is None:
                return
            with self._alive():
                if stat.S_ISREG(os.fstat(handle).st_mode):
                    self._look(handle)
                self.operations.append(Operation("flush", where))

        del real
        return flushed

    def _named(self, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def named(path: Any, *arguments: Any, **keywords: Any) -> Any:
            where = self._inside(path, keywords.get("dir_fd"))
            if where is None:
                return real(path, *arguments, **keywords)
            with self._alive():
                done = real(path, *arguments, **keywords)
                self.operations.append(Operation(kind, where))
                return done

        return named

    def _renamed(self, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def renamed(source: Any, target: Any, **keywords: Any) -> Any:
            before, where = self._inside(source), self._inside(target)
            if where is None:
                return real(source, target, **keywords)
            with self._alive():
                assert before is not None
                if (self.root / before).is_file():  # what Python's own files write is seen once it is flushed or named
                    with self._reading(before) as file:
                        self._look(file.fileno())
                done = real(source, target, **keywords)
                self.operations.append(Operation(kind, where, before))
                return done

        return renamed
