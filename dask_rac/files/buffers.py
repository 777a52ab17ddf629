"""Buffers of memory written to a file, and ranges of a file read into them, in single operations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dask_rac.files.folder import Folder

AT_ONCE = 256  # buffers per system call
REQUEST = 2**25  # bytes, about, per request to an object store


def write_buffers(folder: Folder, name: str, parts: Sequence[Any]) -> None:
    """Write several buffers as a new file."""
    if not folder.local:
        folder.write(name, b"".join(memoryview(part).cast("B") for part in parts))
        return
    with open(folder.at(name), "xb", buffering=0) as file:
        for first in range(0, len(parts), AT_ONCE):
            views = [memoryview(part).cast("B") for part in parts[first : first + AT_ONCE]]
            written = os.writev(file.fileno(), views)
            for view in views:  # a full disk or a signal may cut a write short: write the rest, or raise, now
                rest = view[written:]
                while len(rest):
                    rest = rest[file.write(rest) or 0 :]
                written = max(0, written - len(view))


def read_buffers(folder: Folder, name: str, offset: int, parts: Sequence[NDArray[Any]]) -> int:
    """Fill buffers from a file, from this byte on; return the number of bytes that were there."""
    wanted = sum(part.nbytes for part in parts)
    if not folder.local:
        return _fill(parts, folder.read(name, offset, offset + wanted))
    with open(folder.at(name), "rb", buffering=0) as file:
        size = os.preadv(file.fileno(), list[Any](parts), offset)
        if 0 < size < wanted:  # a signal may cut a read short
            size = _fill(parts, os.pread(file.fileno(), wanted, offset))
    return size


def _fill(parts: Sequence[NDArray[Any]], data: bytes) -> int:
    """Copy bytes into buffers; return the number of bytes."""
    at = 0
    for part in parts:
        if at + part.nbytes <= len(data):
            part.view("u1")[:] = np.frombuffer(data, "u1", part.nbytes, at)
        at += part.nbytes
    return len(data)


def checksum(array: NDArray[Any], before: int = 0) -> int:
    """Return the crc32c of an array's bytes, after those with the checksum `before`."""
    view = array.view("u1")
    view.flags.writeable = False  # google_crc32c requires it
    return int(google_crc32c.extend(before, view))
