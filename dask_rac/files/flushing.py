"""What survives a power cut: contents are flushed before they get their name, and the folder with the name after.

A disk may keep a new name and lose the contents that were written before it. So whatever is to be found complete is
flushed, file by file and folder by folder, then renamed, and then the folder that holds the name is flushed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

FLUSHERS = 8  # threads: a disk writes what several wait for at once; one by one takes 20 times as long
UNFLUSHED = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM)
"""Answers of file systems that cannot flush a folder, and of folders that may be written but not read."""


def flush_file(path: str) -> None:
    """Flush the contents of a file."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_folder(path: str) -> None:
    """Flush the names in a folder, where that is possible."""
    try:
        flush_file(path)
    except OSError as error:
        if error.errno not in UNFLUSHED:
            raise


def flush_tree(path: str) -> None:
    """Flush a file, or all files in a folder and then its folders."""
    if not os.path.isdir(path):
        flush_file(path)
        return
    found = list(os.walk(path, topdown=False))
    flush_all([f"{folder}/{name}" for folder, _, names in found for name in names], [folder for folder, _, _ in found])


def flush_all(files: Iterable[str], folders: Iterable[str]) -> None:
    """Flush files, then the names in folders; some may not exist."""
    with ThreadPoolExecutor(FLUSHERS) as threads:
        for paths in (files, folders):
            list(threads.map(_flush_any, paths))


def _flush_any(path: str) -> None:
    """Flush a file, or the names in a folder, if anything is there."""
    with suppress(FileNotFoundError):
        (flush_folder if os.path.isdir(path) else flush_file)(path)


def move(old: str, new: str) -> None:
    """Give something that is on disk another name, in place of any file or empty folder there."""
    os.replace(old, new)
    flush_folder(os.path.dirname(new))
    if os.path.dirname(old) != os.path.dirname(new):
        flush_folder(os.path.dirname(old))


def make_folders(path: str) -> None:
    """Create a folder, and the folders above it that are missing, level by level."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    flush_folder(os.path.dirname(path))  # a process that was killed may have made it, and no more
    for new in reversed(missing):
        os.makedirs(new, exist_ok=True)
        flush_folder(os.path.dirname(new))
