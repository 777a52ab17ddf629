"""New files and folders, which receive their name once they are complete and never replace anything.

`refuse_taken` and `refuse_taken_folder` ask whether a path is free: an output needs one where nothing is, a folder of
edges or a run may fill an empty folder. `written_whole` makes whatever is written to a path appear at once. On a local
disk it is called `path`.partial until it is complete. Renaming on an object store means copying: there files are
written under their final names, each appears when it is complete, and among several an extra file, `_incomplete`, shows
that more are to come. Both are left behind by a process that is killed.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path

from dask_rac.base.errors import InputError
from dask_rac.base.names import HEADER, INCOMPLETE, PARTIAL, STORE_FOLDERS
from dask_rac.files.folder import Folder
from dask_rac.files.full import explain_full
from dask_rac.files.urls import explained


def refuse_inside(path: str | PathLike[str]) -> Folder:
    """Return a location for an output; raise if it is among the files of a run, where it would be deleted."""
    target = Folder(path)
    for parent in Path(target.path).parents if target.local else ():
        if parent.name in STORE_FOLDERS and (parent.parent / HEADER).exists():
            raise InputError(f"{fspath(path)} is among the files of the run in {parent.parent}: choose another path")
    return target


def refuse_taken(path: str | PathLike[str]) -> Folder:
    """Return the location of a new output; raise if it exists."""
    target = refuse_inside(path)
    if target.exists():
        raise InputError(f"{fspath(path)} exists and is never overwritten: choose another name or remove it")
    return target


def _not_empty_text(target: Folder) -> str:
    """Return the message for a folder that holds something."""
    return f"{target.url} exists and is not empty: delete it or choose another path"


def refuse_taken_folder(
    target: Folder,
    kind: type[Exception] = InputError,
    text: Callable[[Folder], str] = _not_empty_text,
    own: Callable[[str], bool] = lambda _: False,
) -> None:
    """Raise if there is a file at the path of a new folder, or a folder with anything but names that are `own`."""
    if target.is_file():
        raise kind(f"{target.url} is a file: give the path of a new folder")
    if not all(map(own, target.names())):
        raise kind(text(target))


def refuse_left_over(target: Folder) -> None:
    """Raise if another run is writing to a path, or has been killed while it did."""
    if unfinished(target).exists() if target.local else target.exists(INCOMPLETE):
        raise InputError(_left_over_text(target))


def _left_over_text(target: Folder) -> str:
    """Return the message for what is not complete."""
    return (
        f"{unfinished(target).url} was left by a run that was killed, or is being written by another run: delete it or "
        "choose another path"
    )


def unfinished(target: Folder) -> Folder:
    """Return where the files of a path are written until they are complete."""
    return Folder(f"{target.path}{PARTIAL}") if target.local else target


@contextmanager
def written_whole(
    target: Folder,
    several: bool = True,
    resume: bool = False,
    keep: Callable[[BaseException], bool] = lambda _: False,
) -> Iterator[Folder]:
    """Yield where to write a file, or a folder of `several`, which gets its name if the block succeeds.

    If it fails, everything is deleted unless `keep` is true for the error. `resume` goes on with what was kept.
    """
    new = unfinished(target)
    with writable(target.url, "folder" if several else "path"):
        (_begin_local if target.local else _begin_remote)(target, new, several, resume)
    try:
        yield new
    except BaseException as error:
        if not keep(error):
            new.remove("")
        raise
    _finish(target, new, several)


def _begin_local(target: Folder, new: Folder, several: bool, resume: bool) -> None:
    """Create the folder that is renamed at the end, or the one in which a file is renamed."""
    if several and target.exists() and (os.path.ismount(target.path) or Path(target.path).samefile(os.curdir)):
        raise InputError(
            f"{target.url} is a mount point or the working directory and cannot be replaced: give a folder in it"
        )
    if several and not resume and new.exists():
        raise InputError(_left_over_text(target))
    os.makedirs(new.path if several else os.path.dirname(new.path), exist_ok=resume or not several)


def _begin_remote(target: Folder, new: Folder, several: bool, resume: bool) -> None:
    """Mark a folder as incomplete."""
    if several and not new.create(INCOMPLETE, uuid.uuid4().bytes) and not resume:
        raise InputError(_left_over_text(target))


def _finish(target: Folder, new: Folder, several: bool) -> None:
    """Give what is complete its name, or remove the mark."""
    if target.local:
        try:
            os.replace(new.path, target.path)
        except OSError as error:
            raise InputError(f"{new.path} is complete but cannot be renamed: {error}; rename it") from error
    elif several:
        new.remove(INCOMPLETE)


@contextmanager
def new_output(path: str | PathLike[str], several: bool = False) -> Iterator[Folder]:
    """Yield where to write a new file, or a folder of `several`; what a killed process has left there is deleted."""
    target = refuse_taken(path)
    with writable(path):
        if target.local:
            unfinished(target).remove("")
        with written_whole(target, several) as new:
            yield new
            if target.local:
                refuse_taken(path)


@contextmanager
def writable(path: str | PathLike[str], what: str = "path") -> Iterator[None]:
    """Explain what to do if an output cannot be written in the block."""
    try:
        with explain_full(fspath(path)), explained(Folder(path).url, InputError):
            yield
    except OSError as error:
        raise InputError(f"{fspath(path)} cannot be written: {error}; give a {what} that can be created") from error
