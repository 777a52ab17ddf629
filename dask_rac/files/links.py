"""Symbolic links in folders of ours: refused, so that nothing outside of a folder is written or deleted through it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from dask_rac.base.errors import StoreError
from dask_rac.files.folder import Folder, link_text


def refuse_links(folder: Folder, names: Iterable[str]) -> None:
    """Raise if one of some names in a folder, or anything below, is a symbolic link; the folder itself may be one.

    Another process that puts a link there afterwards is not noticed.
    """
    for name in names if folder.local else ():
        for path in _links(folder.at(name)):
            raise StoreError(link_text(path))


def _links(path: str) -> Iterator[str]:
    """Yield the links at a path and below it."""
    if os.path.islink(path):
        yield path
        return
    for folder, folders, files in os.walk(path):
        yield from (name for name in (f"{folder}/{name}" for name in (*folders, *files)) if os.path.islink(name))
