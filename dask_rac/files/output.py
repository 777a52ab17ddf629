"""New files and folders, which receive their name once they are complete and on disk, and never replace anything.

`refuse_taken` and `refuse_taken_folder` ask whether a path is free: an output needs one where nothing is, a folder of
edges or a run may fill an empty folder. `written_whole` makes whatever is written to a path appear at once, after it
was flushed, so that a power cut leaves all of it or nothing. On a local disk it is called `path`.<8 digits>.partial
until then. `continued` does the same for a folder that takes several attempts: it is called `path`.partial, and holds a
file by which the next attempt recognises it. Renaming on an object store means copying: there files are written under
their final names, each appears when it is complete, and among several an extra file, `_incomplete`, shows that more are
to come. A process that is killed leaves what it has written.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from os import PathLike, fspath
from pathlib import Path

from dask_rac.base.errors import InputError
from dask_rac.base.names import (
    GRAPH_FACTS,
    GRAPH_HEADER,
    HEADER,
    INCOMPLETE,
    PARTIAL,
    STORE_FOLDERS,
    is_temporary,
    temporary_name,
)
from dask_rac.files.flushing import flush_folder, flush_tree, make_folders
from dask_rac.files.folder import Folder
from dask_rac.files.full import explain_full
from dask_rac.files.links import refuse_links
from dask_rac.files.trouble import is_trouble
from dask_rac.files.urls import explained

Note = Callable[[Folder, Folder], None]
"""Called with a complete output and the name it is about to get."""

_note: ContextVar[Note] = ContextVar("note", default=lambda new, target: None)


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
    if target.exists() or target.is_link():
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
    """Raise if another run is writing to a folder on an object store, or has been killed while it did."""
    if not target.local and target.exists(INCOMPLETE):
        raise InputError(_left_over_text(target))


def _left_over_text(target: Folder) -> str:
    """Return the message for what is not complete."""
    return (
        f"{target.url} was left by a run that was killed, or is being written by another run: delete it or choose "
        "another path"
    )


@contextmanager
def written_whole(target: Folder, several: bool = True) -> Iterator[Folder]:
    """Yield where to write a file, or a folder of `several`, which gets its name if the block succeeds.

    If it fails, everything is deleted.
    """
    new = Folder(temporary_name(target.path, PARTIAL), target.durable) if target.local else target
    with writable(target.url, "folder" if several else "path"):
        if not target.local:
            _begin_remote(target, several)
        else:
            _refuse_fixed(target, several)
            make_folders(os.path.dirname(target.path))
            if several:
                os.makedirs(new.path)
    try:
        with writable(target.url, "folder" if several else "path"):
            yield new
            _flush(target, new)
        if target.local and not several:
            refuse_taken(target.url)
        if target.local:
            _note.get()(new, target)
    except BaseException:
        new.remove("")
        raise
    _finish(target, new, several)


@contextmanager
def noted(note: Note) -> Iterator[None]:
    """Have a function called with each output that `written_whole` writes on a local disk, before it gets its name."""
    token = _note.set(note)
    try:
        yield
    finally:
        _note.reset(token)


def unfinished(target: Folder) -> Folder:
    """Return where the files of a folder are written that takes several attempts."""
    return Folder(f"{target.path}{PARTIAL}", target.durable) if target.local else target


@contextmanager
def continued(
    target: Folder, mark: Callable[[Folder], None], keep: Callable[[BaseException], bool]
) -> Iterator[Folder]:
    """Yield a folder to write to, new or of an attempt that was stopped, which gets its name if the block succeeds.

    `mark` writes the file by which the next attempt recognises a new folder. If the block fails, a new folder is
    deleted unless `keep` is true for the error.
    """
    new = unfinished(target)
    with writable(target.url, "folder"):
        fresh = (_continue_local if target.local else _continue_remote)(target, new, mark)
    try:
        with writable(target.url, "folder"):
            yield new
            _flush(target, new)
    except BaseException as error:
        if fresh and not keep(error):
            new.remove("")
        raise
    _finish(target, new, several=True)


def is_begun(folder: Folder) -> bool:
    """Whether a folder was begun by `continued`, by this or an earlier version."""
    return not folder.is_link() and any(folder.exists(name) for name in (GRAPH_HEADER, GRAPH_FACTS))


def _continue_local(target: Folder, new: Folder, mark: Callable[[Folder], None]) -> bool:
    """Create a folder with its mark, or go on with one that has it; return whether it is new."""
    _refuse_fixed(target, several=True)
    if not new.exists() and not new.is_link() and _begin_local(target, new, mark):
        return True
    if not is_begun(new):
        raise InputError(_foreign_text(new))
    refuse_links(new, new.names())
    return False


def _begin_local(target: Folder, new: Folder, mark: Callable[[Folder], None]) -> bool:
    """Create a folder that has its mark as soon as it has its name; return False if another process was faster."""
    make_folders(os.path.dirname(target.path))
    first = Folder(temporary_name(target.path, PARTIAL), target.durable)
    os.makedirs(first.path)
    try:
        mark(first)
        _flush(target, first)
        os.rename(first.path, new.path)
    except BaseException as error:
        first.remove("")
        if isinstance(error, OSError) and is_begun(new):
            return False
        raise
    if target.durable:
        flush_folder(os.path.dirname(new.path))
    return True


def _continue_remote(target: Folder, new: Folder, mark: Callable[[Folder], None]) -> bool:
    """Mark a folder as incomplete, or go on with it; return whether it is new."""
    fresh = not set(new.names()) - {INCOMPLETE}
    if not fresh and not is_begun(new):
        raise InputError(_foreign_text(new))
    new.create(INCOMPLETE, uuid.uuid4().bytes)
    if fresh:
        mark(new)
    return fresh


def _foreign_text(new: Folder) -> str:
    """Return the message for a folder that is not ours, where one is needed."""
    return f"{new.url} exists and was not made by dask_rac: move it, or choose another name"


def _refuse_fixed(target: Folder, several: bool) -> None:
    """Raise if there is an empty folder that cannot be replaced by a new one."""
    if several and target.exists() and (os.path.ismount(target.path) or Path(target.path).samefile(os.curdir)):
        raise InputError(
            f"{target.url} is a mount point or the working directory and cannot be replaced: give a folder in it"
        )


def _begin_remote(target: Folder, several: bool) -> None:
    """Mark a folder as incomplete."""
    if several and not target.create(INCOMPLETE, uuid.uuid4().bytes):
        raise InputError(_left_over_text(target))


def _flush(target: Folder, new: Folder) -> None:
    """Have all that was written survive a power cut, before it gets its name."""
    if target.local and target.durable:
        with explain_full(target.url):
            flush_tree(new.path)


def _finish(target: Folder, new: Folder, several: bool) -> None:
    """Give what is complete its name, or remove the mark."""
    if target.local:
        try:
            os.replace(new.path, target.path)
        except OSError as error:
            raise InputError(f"{new.path} is complete but cannot be renamed: {error}; rename it") from error
        if target.durable:
            flush_folder(os.path.dirname(target.path))
    elif several:
        new.remove(INCOMPLETE)


def remove_unfinished(target: Folder) -> None:
    """Delete what attempts to write to a local path have left: nothing but what has names or marks of ours."""
    if not target.local:
        return
    if is_begun(unfinished(target)):
        unfinished(target).remove("")
    parent, _, last = target.path.rpartition("/")
    beside = Folder(parent or "/")
    for name in beside.names():
        if is_temporary(name, last, PARTIAL):
            beside.remove(name)


def replace_file(folder: Folder, name: str, data: bytes) -> None:
    """Write a file, in place of any that is there, so that a power cut leaves one of the two."""
    if folder.local:
        make_folders(os.path.dirname(folder.at(name)))
    folder.write(name, data)
    if folder.local and folder.durable:
        flush_folder(os.path.dirname(folder.at(name)))


@contextmanager
def new_output(path: str | PathLike[str], several: bool = False) -> Iterator[Folder]:
    """Yield where to write a new file, or a folder of `several`."""
    target = refuse_taken(path)
    with writable(path), written_whole(target, several) as new:
        yield new
        if target.local:
            refuse_taken(path)


@contextmanager
def writable(path: str | PathLike[str], what: str = "path") -> Iterator[None]:
    """Explain what to do if an output cannot be written in the block."""
    try:
        far = Folder(path)
        with explain_full(fspath(path)), nullcontext() if far.local else explained(far.url, InputError):
            yield
    except OSError as error:
        if not is_trouble(error):
            raise
        raise InputError(f"{fspath(path)} cannot be written: {error}; give a {what} that can be created") from error
