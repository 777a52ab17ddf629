"""What is at a path: one file, or a folder of files that must be complete."""

from __future__ import annotations

from typing import Any

from dask_rac.base.errors import InputError
from dask_rac.base.names import INCOMPLETE
from dask_rac.files.urls import explained, locate


def list_files(name: str, remedy: str, complete: bool = True) -> tuple[str, dict[str, Any]]:
    """Return the path on its file system, and what that knows of the file there, or of all files below.

    `remedy` states what to do if there is nothing. `complete` refuses a folder that is still being written.
    """
    filesystem, root = locate(name)
    root = root.rstrip("/") or root
    try:
        with explained(name, InputError):
            info = filesystem.info(root)
            infos: dict[str, Any] = filesystem.find(root, detail=True) if _is_folder(filesystem, info) else {root: info}
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{name} does not exist: {remedy}") from None
    if complete and f"{root}/{INCOMPLETE}" in infos:
        raise InputError(
            f"{name} is not complete: it is being written, or was left by a run that was killed; in that case delete it"
        )
    return root, infos


def _is_folder(filesystem: Any, info: dict[str, Any]) -> bool:
    """Whether there is a folder; asked again only about links and pipes, as each question may be a request."""
    return bool(info["type"] == "directory" or (info["type"] != "file" and filesystem.isdir(info["name"])))
