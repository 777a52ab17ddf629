"""An object store in memory with bad weather: requests fail, answers of writes get lost, listings are late.

    with flaky_store() as runs, runs.weather(Weather(chance, often=0.05)):
        dask_rac.cluster("flaky://edges", store="flaky://run")

It does what object stores may do and nothing else: an object is written whole or not at all and read as it was last
written, two exclusive writes never both succeed, but a list of names may be as old as the last few writes.
"""

from __future__ import annotations

import errno
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from random import Random
from typing import Any

import fsspec
from aiohttp import ClientPayloadError
from fsspec.spec import AbstractFileSystem

from tests.support.remote_runs import RemoteRuns
from tests.support.weather import Weather, calm

PROTOCOL = "flaky"
HISTORY = 4  # writes that a list may not know of yet

FAULTS: tuple[Exception, ...] = (
    ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
    ConnectionError("the connection was cut"),
    TimeoutError(),
    TimeoutError("no answer in time"),
    OSError(errno.EREMOTEIO, "We encountered an internal error. Please try again."),
    OSError(errno.EBUSY, "Please reduce your request rate."),
    BrokenPipeError(errno.EPIPE, "Broken pipe"),
    OSError(errno.EHOSTUNREACH, "No route to host"),
    ClientPayloadError("Response payload is not completed"),
)


@dataclass
class _Bucket:
    """All objects, what they were before the last few writes, and the weather."""

    objects: dict[str, bytes] = field(default_factory=dict)
    stamps: dict[str, int] = field(default_factory=dict)
    before: deque[dict[str, bytes]] = field(default_factory=lambda: deque(maxlen=HISTORY))
    weather: Weather = field(default_factory=calm)
    lock: threading.RLock = field(default_factory=threading.RLock)
    writes: int = 0

    def change(self) -> None:
        """Remember the names of now, before a write."""
        self.before.append(dict(self.objects))
        self.writes += 1

    def clear(self) -> None:
        """Forget everything."""
        for content in (self.objects, self.stamps, self.before):
            content.clear()


BUCKET = _Bucket()


class FlakyFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The objects of this process under the protocol `flaky`."""

    protocol = PROTOCOL
    cachable = True

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """List an object, or the names below a prefix."""
        with BUCKET.lock:
            _pass(lost=False)
            path = self._strip_protocol(path)
            infos = {path: self._known(path)} if path in BUCKET.objects else self._listed(path)
            if not infos:
                raise FileNotFoundError(path)
            return list(infos.values()) if detail else list(infos)

    def find(self, path: str, maxdepth: int | None = None, withdirs: bool = False, **options: Any) -> Any:
        """List all objects below a prefix in one request, as object stores can."""
        with BUCKET.lock:
            _pass(lost=False)
            path = self._strip_protocol(path)
            infos = {path: self._known(path)} if path in BUCKET.objects else self._listed(path, deep=True)
            return infos if options.get("detail") else list(infos)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """What is known of an object or a prefix, never late."""
        with BUCKET.lock:
            _pass(lost=False)
            path = self._strip_protocol(path)
            if path in BUCKET.objects:
                return self._known(path)
            if any(name.startswith(f"{path}/") for name in BUCKET.objects):
                return {"name": path, "size": 0, "type": "directory"}
            raise FileNotFoundError(path)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Read an object or a range of it."""
        with BUCKET.lock:
            _pass(lost=False)
            path = self._strip_protocol(path)
            if path not in BUCKET.objects:
                raise FileNotFoundError(path)
            return BUCKET.objects[path][start:end]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """Write an object; the answer may get lost."""
        with BUCKET.lock:
            lost = _pass(lost=True)
            path = self._strip_protocol(path)
            if mode == "create" and path in BUCKET.objects:
                raise FileExistsError(path)
            BUCKET.change()
            BUCKET.objects[path] = bytes(value)
            BUCKET.stamps[path] = BUCKET.writes
            if lost is not None:
                raise lost

    def rm_file(self, path: str) -> None:
        """Delete an object; the answer may get lost."""
        with BUCKET.lock:
            lost = _pass(lost=True)
            BUCKET.change()
            BUCKET.objects.pop(self._strip_protocol(path), None)
            if lost is not None:
                raise lost

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return BytesIO(self.cat_file(path)) if mode == "rb" else _NewObject(self, path)

    def _known(self, path: str) -> dict[str, Any]:
        """What is known of an object."""
        return {"name": path, "size": len(BUCKET.objects[path]), "type": "file", "ETag": str(BUCKET.stamps[path])}

    def _listed(self, path: str, deep: bool = False) -> dict[str, dict[str, Any]]:
        """The names below a prefix, or all objects, perhaps as they were some writes ago."""
        late = BUCKET.before and BUCKET.weather.chance.random() < BUCKET.weather.late
        objects = BUCKET.weather.chance.choice(BUCKET.before) if late else BUCKET.objects
        infos: dict[str, dict[str, Any]] = {}
        for name, data in objects.items():
            if name.startswith(f"{path}/" if path else ""):
                below = name[len(path) + bool(path) :]
                child, _, below = (below, "", "") if deep else below.partition("/")
                full = f"{path}/{child}" if path else child
                kind = "directory" if below else "file"
                infos[full] = {"name": full, "size": 0 if below else len(data), "type": kind}
                if not below:
                    infos[full]["ETag"] = str(BUCKET.stamps[name])
        return infos


class _NewObject(BytesIO):
    """An object that is written when it is closed."""

    def __init__(self, filesystem: FlakyFileSystem, path: str) -> None:
        super().__init__()
        self._filesystem, self._path = filesystem, path

    def close(self) -> None:
        """Write the object."""
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._filesystem.pipe_file(self._path, data)


def _pass(lost: bool) -> Exception | None:
    """Raise if the weather is bad; if answers can get lost, return what to raise after the request has taken place."""
    weather = BUCKET.weather
    if not weather.strikes():
        return None
    if lost and weather.chance.random() < 0.5:
        return _fault(weather.chance)
    raise _fault(weather.chance)


def _fault(chance: Random) -> Exception:
    """What a request that fails raises."""
    fault = chance.choice(FAULTS)
    return type(fault)(*fault.args)


class FlakyRuns(RemoteRuns):
    """Runs on this file system."""

    def url(self, name: str) -> str:
        """The URL of a name."""
        return f"{PROTOCOL}://{name}"

    @contextmanager
    def weather(self, given: Weather) -> Iterator[None]:
        """Have this weather during the block."""
        before, BUCKET.weather = BUCKET.weather, given
        try:
            yield
        finally:
            BUCKET.weather = before

    def names(self, prefix: str) -> list[str]:
        """The names of all objects that begin so."""
        return [name for name in BUCKET.objects if name.startswith(prefix)]

    def data(self, name: str) -> bytes:
        """The content of an object."""
        return BUCKET.objects[name]

    def delete(self, prefix: str) -> None:
        """Delete all objects whose names begin so."""
        for name in self.names(prefix):
            del BUCKET.objects[name]


@contextmanager
def flaky_store() -> Iterator[FlakyRuns]:
    """Register the file system during the block, with no objects in it and calm weather."""
    fsspec.register_implementation(PROTOCOL, FlakyFileSystem, clobber=True)
    try:
        yield FlakyRuns()
    finally:
        BUCKET.clear()
