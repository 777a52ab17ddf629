"""Watches what is flushed to the disk, and says what a power cut could take from a finished output."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

State = tuple[int, int]
"""When a file or folder was changed, and its size."""


@dataclass
class Flushes:
    """What has been flushed, and what each rename gave a name to."""

    flushed: dict[int, State] = field(default_factory=dict)
    """The state in which each inode was flushed last."""
    at_risk: dict[str, list[str]] = field(default_factory=dict)
    """For each path that something was renamed to: what of it had not been flushed as it was."""

    def missing(self, output: Path, top: Path) -> list[str]:
        """Return what a power cut could take from an output: contents, and the names that lead to it from `top`."""
        assert str(output) in self.at_risk, f"{output} was not renamed"
        above = [folder for folder in output.parents if folder.is_relative_to(top)]
        names = [text for text in map(self._stale, above) if text]
        return [*self.at_risk[str(output)], *self._unflushed(output), *names]

    def _unflushed(self, path: Path) -> list[str]:
        """Return what is at a path and is not on disk as it is."""
        found = [path, *path.rglob("*")] if path.is_dir() else [path]
        return [text for text in map(self._stale, found) if text]

    def _stale(self, path: Path) -> str:
        """Return the path unless it is on disk as it is."""
        return "" if self.flushed.get(path.stat().st_ino) == _state(path.stat()) else str(path)

    def renamed(self, old: str, new: str) -> None:
        """Note what is at risk when something gets its name."""
        self.at_risk[new] = self._unflushed(Path(old))

    def touched(self, path: str) -> None:
        """Note that the names in the folder above a path have changed; clocks are too coarse to show it."""
        self.flushed.pop(os.stat(os.path.dirname(path)).st_ino, None)


def _state(info: os.stat_result) -> State:
    return info.st_mtime_ns, info.st_size


@contextmanager
def watched() -> Iterator[Flushes]:
    """Watch all flushes and renames of this process."""
    seen, fsync, mkdir = Flushes(), os.fsync, os.mkdir

    def flush(handle: Any) -> None:
        fsync(handle)
        info = os.fstat(handle)
        seen.flushed[info.st_ino] = _state(info)

    def make(path: Any, *more: Any, **options: Any) -> None:
        mkdir(path, *more, **options)
        if "dir_fd" not in options:
            seen.touched(os.fspath(path))

    def renaming(function: Any) -> Any:
        def rename(old: Any, new: Any) -> None:
            seen.renamed(os.fspath(old), os.fspath(new))
            function(old, new)
            seen.touched(os.fspath(new))

        return rename

    with (
        mock.patch.object(os, "fsync", flush),
        mock.patch.object(os, "mkdir", make),
        mock.patch.object(os, "replace", renaming(os.replace)),
        mock.patch.object(os, "rename", renaming(os.rename)),
    ):
        yield seen
