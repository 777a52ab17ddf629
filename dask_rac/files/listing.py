"""What is at a path: one file, or a folder of files that must be complete."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from fsspec.spec import AbstractFileSystem

from dask_rac.base.errors import InputError
from dask_rac.base.names import INCOMPLETE, PARQUET_ENDINGS
from dask_rac.files.patience import asked
from dask_rac.files.reading import readable
from dask_rac.files.stamps import stamp
from dask_rac.files.urls import NO_BUCKET, locate

FILE_ENDINGS = (*PARQUET_ENDINGS, ".npy")


def list_files(name: str, remedy: str, complete: bool = True) -> tuple[str, dict[str, Any]]:
    """Return the path on its file system, and what that knows of the file there, or of all files below.

    `remedy` states what to do if there is nothing. `complete` refuses a folder that is still being written.
    """
    filesystem, root = locate(name)
    root = root.rstrip("/") or root
    with readable(name):
        try:
            info = asked(name, InputError, filesystem.info, root)
            folder = _is_folder(filesystem, info)
            infos = asked(name, InputError, find_files, filesystem, root) if folder else {root: info}
        except (FileNotFoundError, NotADirectoryError) as error:
            if NO_BUCKET in str(error):
                raise
            raise InputError(f"{name} does not exist: {remedy}") from None
    if complete and f"{root}/{INCOMPLETE}" in infos:
        raise InputError(
            f"{name} is not complete: it is being written, or was left by a run that was killed; in that case delete it"
        )
    return root, infos


def files_fingerprint(name: str) -> str:
    """Return a digest that identifies the files at a path, by their names, sizes and times."""
    root, infos = list_files(name, "restore it, or start a new run")
    facts = sorted((path.removeprefix(root), int(info["size"] or 0), stamp(info)) for path, info in infos.items())
    return sha256(json.dumps(facts).encode()).hexdigest()


def find_files(filesystem: Any, root: str) -> dict[str, Any]:
    """Return what a file system knows of all files below a path; raise if a folder cannot be listed.

    The `find` that most file systems inherit leaves out the files of such a folder, as if there were none.
    """
    infos: dict[str, Any] = {}
    if type(filesystem).find is not AbstractFileSystem.find:
        infos = filesystem.find(root, detail=True)
        return infos
    folders = [root]
    while folders:
        folder = folders.pop()
        entries = filesystem.ls(folder, detail=True)
        if not entries and folder != root and folder.endswith(FILE_ENDINGS):
            raise InputError(f"{folder} is an empty folder in place of a file: restore the file, or remove the folder")
        for info in entries:
            if info["type"] != "directory":
                infos[info["name"]] = info
            elif info["name"].rstrip("/") != folder:
                folders.append(info["name"].rstrip("/"))
    return dict(sorted(infos.items()))


def _is_folder(filesystem: Any, info: dict[str, Any]) -> bool:
    """Whether there is a folder; asked again only about links and pipes, as each question may be a request."""
    return bool(info["type"] == "directory" or (info["type"] != "file" and filesystem.isdir(info["name"])))
