"""What gets its name when it is complete, and never takes one that is there."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path

from dask_rac.errors import InputError, ResourceError
from dask_rac.store.edges import INCOMPLETE
from dask_rac.store.files import Folder
from dask_rac.store.manifest import HEADER, STEPS
from dask_rac.store.urls import explained

FOLDERS = (STEPS, "rounds", "merges", "statistics", "tree", "input")
"""Of a store; what no manifest names is deleted there."""


def refuse_inside(path: str | PathLike[str]) -> Folder:
    """A place for something; raises if it is among the files of a run, where it would not stay."""
    target = Folder(path)
    for parent in Path(target.path).parents if target.local else ():
        if parent.name in FOLDERS and (parent.parent / HEADER).exists():
            raise InputError(f"{fspath(path)} is among the files of the run in {parent.parent}: choose another place")
    return target


def refuse_taken(path: str | PathLike[str]) -> Folder:
    """The place of something new; raises if there is something."""
    target = refuse_inside(path)
    if target.exists():
        raise InputError(f"{fspath(path)} exists: nothing is written over, so choose another name or remove it")
    return target


@contextmanager
def new_output(path: str | PathLike[str], several: bool = False) -> Iterator[Folder]:
    """Where to write a file, or a folder of several, which is there when all went well, and deleted when not.

    On a local disk it is `path`.partial till then. To rename on an object store is to copy: there files are written
    where they stay, each appears when it is whole, and among several one, `_incomplete`, says that more are to come.
    """
    target = refuse_taken(path)
    new = Folder(f"{target.url}.partial") if target.local else target
    try:
        with writable(path):
            if target.local:
                new.remove("")
                os.makedirs(os.path.dirname(target.path), exist_ok=True)
            elif several:
                new.write(INCOMPLETE, b"")
            yield new
            if target.local:
                refuse_taken(path)
                os.rename(new.path, target.path)
            elif several:
                new.remove(INCOMPLETE)
    except BaseException:
        new.remove("")
        raise


@contextmanager
def writable(path: str | PathLike[str]) -> Iterator[None]:
    """Say what to do when an output cannot be written in the block."""
    try:
        with explained(Folder(path).url, InputError):
            yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ResourceError(f"the disk of {fspath(path)} is full: make room, or use another disk") from error
        raise InputError(f"{fspath(path)} cannot be written: {error}; give a path that can be made") from error
