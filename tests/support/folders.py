"""Folders that cost no disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

MEMORY = Path("/dev/shm")
"""A file system in memory, where there is one."""
ROOM = 2**32  # bytes: ten times what all tests together have in their folders


def has_room() -> bool:
    """Whether the folders of all tests can be in memory, where flushing a file takes no time."""
    return os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder in memory where there is one: small runs are all making and deleting of folders."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as name:
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
