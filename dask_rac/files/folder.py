"""A folder on any file system that fsspec supports; local files use plain system calls."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike, fspath
from time import sleep
from typing import Any, TypeVar

from dask_rac.base.errors import InputError, StoreError, StoreInUseError
from dask_rac.base.names import LOCK, temporary_name
from dask_rac.files.deleting import delete_file, delete_files, delete_folder
from dask_rac.files.flushing import flush_all, flush_file, flush_folder
from dask_rac.files.patience import asked, time_limit
from dask_rac.files.urls import is_local, locate

T = TypeVar("T")

PATTERN = frozenset("*?[]")
WHOLE = {"chunksize": 2**32}  # bytes: S3 takes smaller objects in one request, which leaves nothing behind if it fails


TAKEN = errno.EAGAIN, errno.EACCES
LOCK_ATTEMPTS = 5
SHARED_ATTEMPTS = 100  # a second: whoever has the lock of a finished run alone has little to do


@dataclass(frozen=True)
class FileRecord:
    """What a manifest records about a file or an array."""

    name: str
    """Relative to the store."""
    bytes: int
    """Size on disk."""
    digest: str
    """sha256 of the contents, or of the checksums of its chunks."""


class Folder:
    """A folder, given by its URL; names are relative to it."""

    def __init__(self, url: str | PathLike[str], durable: bool = True) -> None:
        """`durable` is False for a folder that is deleted before the process ends: its outputs are not flushed."""
        name = fspath(url)
        self.durable = durable
        if not name:
            raise InputError("store='' is not a path: give a folder")
        self.filesystem, path = locate(name)
        self.local = is_local(self.filesystem)
        if not self.local and set(path) & PATTERN:
            raise InputError(f"{name}: * ? [ ] are wildcards on object stores: choose another name")
        self.path: str = path.rstrip("/") or "/"
        self.url = self.path if self.local else name

    def at(self, name: str) -> str:
        """Return the full path of a name."""
        return f"{self.path}/{name}" if name else self.path

    def exists(self, name: str = "") -> bool:
        """Whether the file or folder exists."""
        return os.path.exists(self.at(name)) if self.local else bool(self._info(name))

    def is_file(self, name: str = "") -> bool:
        """Whether this is a file, not a folder."""
        return os.path.isfile(self.at(name)) if self.local else self._info(name).get("type") == "file"

    def _info(self, name: str) -> dict[str, Any]:
        """Return what a server knows of a file or folder, nothing if it does not exist.

        The `exists` and `isfile` of fsspec return False when the server cannot be reached.
        """
        try:
            info: dict[str, Any] = self._asked(self.filesystem.info, self.at(name))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return info

    def _asked(self, request: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
        """Make a request to the file system, more than once if need be."""
        return asked(self.url, StoreError, request, *arguments, **keywords)

    def is_link(self, name: str = "") -> bool:
        """Whether this is a symbolic link, to whatever it points."""
        return self.local and os.path.islink(self.at(name))

    def names(self, name: str = "") -> list[str]:
        """Return the sorted names in a folder; none if it does not exist."""
        try:
            paths = self._asked(self.filesystem.ls, self.at(name), detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(path.rstrip("/").rpartition("/")[2] for path in paths)

    def read(self, name: str, start: int | None = None, stop: int | None = None) -> bytes:
        """Return the contents of a file, or a range of its bytes."""
        if start is None and not self.local:
            start = 0  # reading a whole object costs two requests, one of them for its size
        return self._asked(self._read, self.at(name), start, stop)

    def _read(self, path: str, start: int | None, stop: int | None) -> bytes:
        """Return a range of the bytes of a file."""
        try:
            data: bytes = self.filesystem.cat_file(path, start=start, end=stop)
        except OSError as error:
            if start or error.errno != errno.EINVAL:
                raise
            data = self.filesystem.cat_file(path)  # an empty object, for which S3 rejects any range
        return data

    def write(self, name: str, data: bytes, flush: bool = True) -> None:
        """Write a file whole or not at all, replacing any existing one.

        Without `flush` a power failure may leave it empty until somebody flushes it.
        """
        if not self.local:
            with self._writing():
                self._put(name, data)
            return
        temporary = self._written(name, data, flush)
        try:
            os.replace(temporary, self.at(name))
        except OSError:
            os.unlink(temporary)
            raise

    @contextmanager
    def new_file(self, name: str) -> Iterator[str]:
        """Yield a path to write a local file to, which appears at its name, whole and durable, if the block succeeds.

        Tasks that run twice write to two paths.
        """
        path = self.at(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = temporary_name(path)
        try:
            yield temporary
            if self.durable:
                flush_file(temporary)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):  # it may not exist, and its disk may not be writable
                os.unlink(temporary)
            raise
        if self.durable:
            flush_folder(os.path.dirname(path))

    def create(self, name: str, data: bytes) -> bool:
        """Write a file durably, whole or not at all, unless it exists; return whether it was written.

        A request whose answer is lost is sent again, so no two callers may write the same data.
        """
        if not self.local:
            with self._writing():
                return self._create_remote(name, data)
        temporary = self._written(name, data)
        try:
            os.link(temporary, self.at(name))
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary)
        flush_all((), map(self.at, _folders_above(name)))
        return True

    def _create_remote(self, name: str, data: bytes) -> bool:
        """Create a file with a conditional request."""
        try:
            self._put(name, data, mode="create")
        except FileExistsError:
            return self.read(name) == data
        return True

    def _put(self, name: str, data: bytes, **options: Any) -> None:
        """Write an object, in bounded time."""
        request = self.filesystem.pipe_file
        options |= self._options | time_limit(request, len(data))
        self._asked(request, self.at(name), data, **options)

    @property
    def _options(self) -> dict[str, Any]:
        """Options with which this file system writes an object in one request."""
        return WHOLE if self.url.startswith(("s3://", "s3a://")) else {}

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Explain what to do when a remote file cannot be written."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise StoreError(f"{self.url} cannot be written: {error}; choose another folder") from None

    def _written(self, name: str, data: bytes, flush: bool = True) -> str:
        """Write a temporary file beside `name`, flush it to disk if asked to, and return its path."""
        path = self.at(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = temporary_name(path)
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                if flush:
                    os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):  # it may not exist, and its disk may not be writable
                os.unlink(temporary)
            raise
        return temporary

    def flush(self, names: Iterable[str]) -> None:
        """Have files survive a power failure, with all names from the folder itself down to them; some may not exist.

        Objects are durable once they are written.
        """
        if self.local:
            files = list(names)
            folders = sorted({above for name in files for above in _folders_above(name)})
            flush_all(map(self.at, files), map(self.at, folders))

    def remove(self, name: str) -> None:
        """Delete a file, or a folder with its contents, if it exists; another run may delete it at the same moment.

        Of a symbolic link only the link is deleted.
        """
        path = self.at(name)
        if not self.local:
            with suppress(FileNotFoundError):
                self._asked(self.filesystem.rm, path, recursive=True)
        elif os.path.isdir(path) and not os.path.islink(path):
            delete_folder(path)
        else:
            delete_file(path)

    def remove_files(self, names: Sequence[str]) -> None:
        """Delete files, not folders, if they exist; on S3 that is one request for a thousand of them."""
        if not self.local:
            with suppress(FileNotFoundError):
                self._asked(self.filesystem.rm, [self.at(name) for name in names])
            return
        delete_files(map(self.at, names))

    def free_bytes(self) -> int | None:
        """Return the free bytes of the disk; None if it is not a local disk."""
        if not self.local:
            return None
        path = self.path
        while not os.path.exists(path):
            path = os.path.dirname(path) or "/"
        return shutil.disk_usage(path).free

    def bytes_of(self, name: str = "") -> int:
        """Return the size of all files in a folder, some of which may come and go meanwhile."""
        if not self.local:
            infos = self._asked(self.filesystem.find, self.at(name), detail=True)
            return sum(int(info["size"] or 0) for info in infos.values())
        total = 0
        for folder, _, files in os.walk(self.at(name)):
            for file in files:
                with suppress(FileNotFoundError):
                    total += os.path.getsize(f"{folder}/{file}")
        return total

    @contextmanager
    def locked(self, shared: bool = False) -> Iterator[bool]:
        """Hold the lock of a local store during the block; it is released if the process dies.

        Processes that read hold it `shared`; who changes the store holds it alone. Yields whether it is held: not every
        file system has locks, and readers need none where nothing can be written.
        """
        handle = self._lock_handle(shared) if self.local else None
        if handle is None:
            yield False
            return
        try:
            try:
                _lock(handle, shared)
            except OSError as error:
                if error.errno not in TAKEN:  # a file system without locks
                    yield False
                    return
                raise StoreInUseError(
                    f"{self.url} is in use by {_owner(handle)}: wait for it to end, or stop it"
                ) from error
            with suppress(OSError):  # says who holds the lock, to whoever asks for it; the lock itself does not need it
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"process {os.getpid()} on {os.uname().nodename}\n".encode(), 0)
            yield True
        finally:
            with suppress(OSError):  # what the block has raised matters more; the lock goes in any case
                os.close(handle)

    def _lock_handle(self, shared: bool) -> int | None:
        """Open the lock of a local store; None if there is none, and none can be made for a reader."""
        try:
            return self.open_lock()
        except OSError as error:
            if not shared:
                raise StoreError(f"{self.url} cannot be written: {error.strerror}; make it writable") from error
        try:
            return os.open(self.at(LOCK), os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return None

    def open_lock(self) -> int:
        """Open the lock of a local store, which is created if it is missing; a link in its place is refused."""
        try:
            return os.open(self.at(LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            if not self.is_link(LOCK):
                raise
            raise StoreError(link_text(self.at(LOCK))) from error

    def in_use(self) -> bool | None:
        """Whether a process holds the lock; None if the file system has no locks."""
        if not self.local:
            return None
        try:
            handle = os.open(self.at(LOCK), os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return True if error.errno in TAKEN else None
        finally:
            os.close(handle)
        return False

    def owner(self) -> str:
        """Return who holds the lock of a local store, as they have written into it."""
        try:
            handle = os.open(self.at(LOCK), os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return _owner(-1)
        try:
            return _owner(handle)
        finally:
            os.close(handle)

    def __reduce__(self) -> tuple[Any, ...]:
        return Folder, (self.url, self.durable)


def link_text(path: str) -> str:
    """Return the message for a symbolic link in place of a file or folder of ours."""
    return (
        f"{path} is a symbolic link, and what it points to could be overwritten or deleted: put the file or folder "
        "itself in its place, or remove the link"
    )


def _folders_above(name: str) -> Iterator[str]:
    """Yield the folders that lead to a name, from the nearest up to the one that names are relative to."""
    while name:
        name = name.rpartition("/")[0]
        yield name


def _owner(handle: int) -> str:
    """Return who has written their name into a lock."""
    with suppress(OSError):
        return os.pread(handle, 100, 0).decode(errors="replace").strip() or "another process"
    return "another process"


def _lock(handle: int, shared: bool) -> None:
    """Take a lock, retrying briefly because `in_use` holds it for a moment."""
    attempts = SHARED_ATTEMPTS if shared else LOCK_ATTEMPTS
    for attempt in range(attempts):
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in TAKEN or attempt == attempts - 1:
                raise
            sleep(0.01)
        else:
            return
