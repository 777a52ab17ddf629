"""What to do about a store: resume it, choose another folder, make it writable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dask_rac.base.errors import StoreError, StoreInUseError
from dask_rac.base.names import HEADER, LOCK, NAMES, is_given, is_ours, is_temporary
from dask_rac.files.folder import Folder
from dask_rac.files.output import refuse_taken_folder
from dask_rac.store.header import read_header
from dask_rac.store.manifest import count_manifests


def refuse_taken_store(store: Folder) -> None:
    """Raise if no run can begin in a folder because of what it holds, or because a run is at work in it."""
    if store.exists(HEADER) and store.in_use():
        raise StoreInUseError(
            f"{store.url} holds a run and is in use by {store.owner()}: choose another folder, or inspect it with "
            f"dask_rac.open({store.url!r})"
        )
    refuse_taken_folder(store, StoreError, _content_text, lambda name: name == LOCK or _is_left(store, name))


def _is_left(store: Folder, name: str) -> bool:
    """Whether a run that was killed as it began can have left this name in its folder."""
    if name == NAMES:
        return not store.exists(HEADER) and all(map(is_given, store.names(NAMES)))
    return is_temporary(name) and is_ours("", name)


def _content_text(store: Folder) -> str:
    """Return the message for a folder that is not empty."""
    return taken_text(store) if store.exists(HEADER) else foreign_text(store)


def taken_text(store: Folder) -> str:
    """Return the message for a store that holds a run."""
    if not can_resume(store):
        return f"{store.url} holds a run whose edges were in memory and had not been saved in it: choose another folder"
    return (
        f"{store.url} already holds a run: resume with dask_rac.resume({store.url!r}), inspect it with "
        f"dask_rac.open({store.url!r}), or choose another folder"
    )


def not_writable_text(store: Folder, error: OSError) -> str:
    """Return the message for a folder that cannot be written."""
    return f"{store.url} cannot be written: {error.strerror or error}; choose another folder"


def foreign_text(store: Folder) -> str:
    """Return the message for a folder that holds something else."""
    return f"{store.url} is not empty and does not hold a run, and was left untouched: choose another folder"


@contextmanager
def resumable(store: Folder) -> Iterator[None]:
    """State how to continue if the user interrupts the run."""
    try:
        yield
    except BaseException as error:
        if not _interrupted(error):
            raise
        stopped = KeyboardInterrupt()
        stopped.add_note(resume_advice(store))
        raise stopped from error


def resume_advice(store: Folder) -> str:
    """Return what to do about a run that was stopped."""
    if can_resume(store):
        return f"resume with dask_rac.resume({store.url!r})"
    return f"its edges were in memory and had not been saved in {store.url}: start a new run in another folder"


def lost_text(manifest: str, run: str) -> str:
    """Return the message for a run of which a manifest is lost; what was merged after it is not known."""
    return (
        f"{manifest} is damaged or missing: restore a copy of it, or resume with dask_rac.resume({run!r}), which goes "
        "back to the newest intact step"
    )


def can_resume(store: Folder) -> bool:
    """Return whether a run has what it needs, in its store or elsewhere on disk; `resume` reports any damage."""
    with suppress(StoreError):
        return count_manifests(store) > 0 or read_header(store).source is not None
    return True


def _interrupted(error: BaseException | None) -> bool:
    """Return whether an error is an interrupt by the user, or a consequence of one."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
