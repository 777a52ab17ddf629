"""Folders that cost no disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder in memory where there is one: small runs are all making and deleting of folders."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


@contextmanager
def no_fsync() -> Iterator[None]:
    """Nobody pulls the plug here."""
    with mock.patch.object(os, "fsync"):
        yield


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return all that a folder holds: times and contents."""
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [folder, *folder.rglob("*")]
    }
