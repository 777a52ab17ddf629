"""A folder on any file system that fsspec knows; local files by plain system calls."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from dask_rac.errors import InputError, StoreError, StoreInUseError

UNFINISHED = ".new"  # ends the name of a file that is still being written


@dataclass(frozen=True)
class FileRecord:
    """What a manifest knows of a file or an array."""

    name: str
    """Relative to the store."""
    bytes: int
    """Size on disk."""
    digest: str
    """sha256, of the contents or of the checksums of its chunks."""


class Folder:
    """A folder by its URL; names are relative to it."""

    def __init__(self, url: str | PathLike[str]) -> None:
        name = fspath(url)
        if not name:
            raise InputError("store='' is no path: give a folder")
        try:
            self.filesystem, path = fsspec.core.url_to_fs(name)
        except (ImportError, ValueError) as error:
            raise InputError(f"{name} cannot be opened: {error}") from error
        self.local = isinstance(self.filesystem, LocalFileSystem)
        self.path: str = path.rstrip("/") or "/"
        self.url = self.path if self.local else name

    def at(self, name: str) -> str:
        """The whole path of a name."""
        return f"{self.path}/{name}" if name else self.path

    def exists(self, name: str = "") -> bool:
        """Whether there is such a file or folder."""
        return bool(self.filesystem.exists(self.at(name)))

    def names(self, name: str = "") -> list[str]:
        """What a folder holds, sorted; nothing if it is not there."""
        try:
            return sorted(
                path.rstrip("/").rpartition("/")[2] for path in self.filesystem.ls(self.at(name), detail=False)
            )
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str) -> bytes:
        """The contents of a file."""
        data: bytes = self.filesystem.cat_file(self.at(name))
        return data

    def write(self, name: str, data: bytes) -> None:
        """Write a file whole or not at all, over one that is there."""
        if not self.local:
            self.filesystem.pipe_file(self.at(name), data)
            return
        temporary = self._written(name, data)
        os.replace(temporary, self.at(name))

    def create(self, name: str, data: bytes) -> bool:
        """Write a file, durably, whole or not at all, unless it is there already; says whether it did."""
        if not self.local:
            try:
                self.filesystem.pipe_file(self.at(name), data, mode="create")
            except FileExistsError:
                return False
            return True
        temporary = self._written(name, data)
        try:
            os.link(temporary, self.at(name))
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary)
        self.sync(os.path.dirname(name))
        return True

    def _written(self, name: str, data: bytes) -> str:
        """A file beside `name` with these contents, on disk."""
        path = self.at(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = f"{path}.{uuid.uuid4().hex[:8]}{UNFINISHED}"
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        return temporary

    def sync(self, name: str) -> None:
        """Have a file, or the names in a folder, survive a power failure."""
        if self.local:
            handle = os.open(self.at(name), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def remove(self, name: str) -> None:
        """Delete a file or a folder with all it holds, if it is there."""
        path = self.at(name)
        if not self.local:
            if self.filesystem.exists(path):
                self.filesystem.rm(path, recursive=True)
        elif os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.exists(path):
            os.unlink(path)

    def free_bytes(self) -> int | None:
        """Room left on the disk; unknown for what is not a local disk."""
        if not self.local:
            return None
        path = self.path
        while not os.path.exists(path):
            path = os.path.dirname(path) or "/"
        return shutil.disk_usage(path).free

    def bytes_of(self, name: str = "") -> int:
        """The size of all files in a folder, which may come and go meanwhile."""
        if not self.local:
            return sum(self.filesystem.du(self.at(name), total=False).values()) if self.exists(name) else 0
        total = 0
        for folder, _, files in os.walk(self.at(name)):
            for file in files:
                with suppress(FileNotFoundError):
                    total += os.path.getsize(f"{folder}/{file}")
        return total

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the lock of a local store while in the block; a process that dies lets go of it.

        Gives whether there is a lock.
        """
        if not self.local:
            yield False
            return
        try:
            handle = os.open(self.at("lock"), os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise StoreError(f"{self.url} cannot be written: {error.strerror}; make it writable") from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):  # a file system without locks
                    yield False
                    return
                owner = os.pread(handle, 100, 0).decode(errors="replace").strip() or "another process"
                raise StoreInUseError(f"{self.url} is in use by {owner}: wait for it, or stop it first") from error
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {os.uname().nodename}\n".encode(), 0)
            yield True
        finally:
            os.close(handle)

    def __reduce__(self) -> tuple[Any, ...]:
        return Folder, (self.url,)
