"""A disk after a power failure: what was flushed is there, and of the rest whatever chance leaves.

A file that was not flushed is empty, cut short, full of zeros or there. A name that was created, changed or deleted
since its folder was flushed is as it was before or as it is now, whatever happened to others before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.support.disk_log import Operation


@dataclass(eq=False)
class File:
    """What is in a file, and what was when it was flushed."""

    data: bytes = b""
    flushed: bytes = b""


@dataclass(eq=False)
class Directory:
    """The names in a folder: now, when it was flushed, and the changes since."""

    now: dict[str, File | Directory] = field(default_factory=dict)
    flushed: dict[str, File | Directory] = field(default_factory=dict)
    changes: list[tuple[int, dict[str, File | Directory | None]]] = field(default_factory=list)
    """With the number of the operation, and what each name means after it."""

    def change(self, number: int, names: dict[str, File | Directory | None]) -> None:
        """Create, replace or delete names at once."""
        _apply(self.now, names)
        self.changes.append((number, names))

    def flush(self) -> None:
        """Keep all names as they are now."""
        self.flushed, self.changes = dict(self.now), []

    def after(self, happened: Callable[[int], bool]) -> dict[str, File | Directory]:
        """Return the names that are left of those that were not flushed."""
        names = dict(self.flushed)
        for number, change in self.changes:
            if happened(number):
                _apply(names, change)
        return names


def _apply(names: dict[str, File | Directory], change: dict[str, File | Directory | None]) -> None:
    """Create, replace or delete names."""
    for name, meaning in change.items():
        if meaning is None:
            names.pop(name, None)
        else:
            names[name] = meaning


@dataclass(frozen=True)
class Failure:
    """What becomes of that which was not flushed."""

    names: str
    """none, all, some, or first: all until some moment, as a journal leaves them."""
    data: str
    """lost, torn, zeroed, there, or any."""


FAILURES = [
    Failure(names, data)
    for names in ("none", "all", "some", "some", "first")
    for data in ("lost", "torn", "zeroed", "there", "any", "any")
]


class Disk:
    """A folder that is known by what was done to it."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.root = Directory()
        self.operations = 0
        for operation in operations:
            self._replay(operation)
            self.operations += 1

    def _replay(self, operation: Operation) -> None:
        above, _, name = operation.path.rpartition("/")
        kind = operation.kind
        if kind == "data":
            self._file(operation.path).data = operation.data
        elif kind == "flush":
            self._flush(operation.path)
        elif kind == "rename":
            before = operation.other.rpartition("/")
            assert before[0] == above
            self._folder(above).change(self.operations, {before[2]: None, name: self._file(operation.other)})
        elif kind != "mark":
            self._folder(above).change(self.operations, {name: self._meaning(operation)})

    def _meaning(self, operation: Operation) -> File | Directory | None:
        """Return what a name means after an operation."""
        if operation.kind == "link":
            return self._file(operation.other)
        return {"create": File, "mkdir": Directory}[operation.kind]() if operation.kind != "unlink" else None

    def _flush(self, path: str) -> None:
        """Keep a file, or the names in a folder."""
        above, _, name = path.rpartition("/")
        found = self._folder(above).now[name] if path else self.root
        if isinstance(found, Directory):
            found.flush()
        else:
            found.flushed = found.data

    def _folder(self, path: str) -> Directory:
        """Return a folder by its path."""
        found = self.root
        for name in path.split("/") if path else ():
            inner = found.now[name]
            assert isinstance(inner, Directory)
            found = inner
        return found

    def _file(self, path: str) -> File:
        """Return a file by its path."""
        above, _, name = path.rpartition("/")
        found = self._folder(above).now[name]
        assert isinstance(found, File)
        return found

    def rebuild(self, target: Path, failure: Failure, chance: Random) -> None:
        """Make a folder what a power failure leaves of this one."""
        cut = chance.randrange(self.operations + 1)
        happened: dict[str, Callable[[int], bool]] = {
            "none": lambda _: False,
            "all": lambda _: True,
            "some": lambda _: chance.random() < 0.5,
            "first": lambda number: number < cut,
        }
        _write(self.root, target, happened[failure.names], lambda file: _left(file, failure.data, chance))


def replayed(disk: Disk) -> dict[str, bytes | None]:
    """Return the content of all files of a disk, and None for folders."""
    found: dict[str, bytes | None] = {}
    waiting: list[tuple[str, File | Directory]] = [("", disk.root)]
    for path, node in waiting:
        found[path.lstrip("/")] = node.data if isinstance(node, File) else None
        waiting += (
            [(f"{path}/{name}", inner) for name, inner in node.now.items()] if isinstance(node, Directory) else []
        )
    return found


def _write(folder: Directory, target: Path, happened: Callable[[int], bool], left: Callable[[File], bytes]) -> None:
    """Write what is left of a folder."""
    target.mkdir()
    for name, node in folder.after(happened).items():
        if isinstance(node, File):
            (target / name).write_bytes(left(node))
        else:
            _write(node, target / name, happened, left)


def _left(file: File, kind: str, chance: Random) -> bytes:
    """Return what is left of the content of a file."""
    if file.data == file.flushed:
        return file.data
    kind = chance.choice(["lost", "torn", "zeroed", "there"]) if kind == "any" else kind
    if kind == "torn":
        return file.data[: int(chance.random() * len(file.data))]
    return {"lost": file.flushed, "zeroed": bytes(len(file.data)), "there": file.data}[kind]
