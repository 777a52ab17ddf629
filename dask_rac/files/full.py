"""Full disks: one question, one sentence, and a check before anything is written."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dask_rac.base.errors import ResourceError
from dask_rac.base.text import size_text

if TYPE_CHECKING:  # which imports this module
    from dask_rac.files.folder import Folder

MORE_ROOM = "make room, or use another disk"
"""The remedy for an output that has to be written again from the start."""


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error says that a disk is full, or that the user's share of it is."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def disk_full_text(place: str, remedy: str) -> str:
    """What to say when the disk of a path is full."""
    return f"the disk of {place} is full: {remedy}"


@contextmanager
def explain_full(place: str, remedy: str = MORE_ROOM, kind: type[ResourceError] = ResourceError) -> Iterator[None]:
    """Explain what to do if the disk of a path is full; other errors pass through unchanged."""
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise kind(disk_full_text(place, remedy)) from error


def refuse_small_disk(target: Folder, needed: int, remedy: str) -> None:
    """Raise unless the disk of a path has the given number of bytes free; object stores report no limit."""
    free = target.free_bytes()
    if free is not None and needed > free:
        raise ResourceError(f"{target.url} needs {size_text(needed)} and {size_text(free)} are free: {remedy}")
