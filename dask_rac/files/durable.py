"""What survives a power failure: files and the names that lead to them, flushed to a local disk.

Flushing a file keeps its content, and says nothing of its name, which is kept by flushing the folder it is in; the name
of a new folder is in the folder above it. Objects are durable once they are written, so nothing is done for them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from dask_rac.files.folder import Folder, folders_above

FLUSHERS = 8  # threads: what they wait for is written together; one by one takes 20 times as long


def flush(folder: Folder, names: Iterable[str]) -> None:
    """Have files survive a power failure, with all names from the folder itself down to them; some may not exist."""
    if not folder.local:
        return
    files = list(names)
    folders = sorted({above for name in files for above in folders_above(name)})
    with ThreadPoolExecutor(FLUSHERS) as threads:
        for kind in (files, folders):
            list(threads.map(lambda name: _sync(folder, name), kind))


def _sync(folder: Folder, name: str) -> None:
    """Flush a file, or the names in a folder, if there is one."""
    with suppress(FileNotFoundError):
        folder.sync(name)


def make_folder(path: str) -> None:
    """Create a folder, and those above it, whose names survive a power failure."""
    missing, there = [], path
    while not os.path.lexists(there):
        missing.append(there)
        there = os.path.dirname(there)
    _sync_names(os.path.dirname(there))  # a process that was killed may have made it, and no more
    for new in reversed(missing):
        os.makedirs(new, exist_ok=True)
        _sync_names(os.path.dirname(new))


def _sync_names(path: str) -> None:
    """Flush the names in a folder, if this process may read it: it may be another user's."""
    with suppress(PermissionError):
        Folder(path).sync("")
