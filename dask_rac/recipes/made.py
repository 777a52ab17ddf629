"""What a step made: sizes, times and digests of the files of its output, to see later whether it is still the same.

Every file is compared by its size. On a local disk also by a digest: of all bytes up to `WHOLE`, else of `BLOCKS`
blocks from the first to the last, so that a folder of 100 GB costs no more than a look into each file. A large file
whose size and time are as they were is not read, nor is any file on an object store, where the version tells. Of a run
only the header, the manifests and the merges count, as the rest comes and goes. Files that were added are no change.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from dask_rac.base.errors import StoreError
from dask_rac.base.names import HEADER, LOCK, MANIFESTS, MERGES
from dask_rac.files.folder import Folder
from dask_rac.files.listing import find_files
from dask_rac.files.patience import asked
from dask_rac.files.stamps import stamp

WHOLE = 2**20  # bytes of a file that is digested whole
BLOCK = 2**16  # bytes that are digested together of a larger one
BLOCKS = 4  # of such blocks

Made = Mapping[str, tuple[int, str, str]]
"""Size, time or version, and digest of each file; the name of an output that is one file is empty."""


@dataclass(frozen=True)
class Difference:
    """How an output differs from what a step made."""

    text: str
    lost: bool
    """Whether files are missing or empty, and nothing else has changed or was added: then nothing can be overwritten
    that a user made."""


def made_files(output: str) -> Made:
    """Return what identifies the files of an output."""
    folder = Folder(output)
    infos = _listed(folder)
    return {
        name: (int(info["size"] or 0), stamp(info), _digest(folder.at(name)) if folder.local else "")
        for name, info in infos.items()
    }


def is_whole(output: str, made: Made) -> bool:
    """Whether an output is all that was made, and nothing else, not even changed and restored."""
    times = {name: stamp(info) for name, info in _listed(Folder(output)).items()}
    return bool(made) and times == {name: time for name, (_, time, _) in made.items()} and not difference(output, made)


def difference(output: str, made: Made) -> Difference | None:
    """Compare an output with what was made; None if it is the same."""
    folder = Folder(output)
    infos = _listed(folder)
    found = {name: _changed(folder, name, infos.get(name), before) for name, before in made.items()}
    changes = {name: text for name, text in found.items() if text}
    if not changes:
        return None
    lost = set(changes.values()) <= {"is missing", "is empty"} and infos.keys() <= made.keys()
    name, text = next(iter(changes.items()))
    more = f", and {len(changes) - 1:,} more of its files differ" if len(changes) > 1 else ""
    return Difference(f"{folder.at(name)} {text}{more}", lost)


def _listed(folder: Folder) -> dict[str, dict[str, Any]]:
    """Return what the file system knows of each file of an output that counts, by its name in the output."""
    try:
        infos = asked(folder.url, StoreError, find_files, folder.filesystem, folder.path)
    except (FileNotFoundError, NotADirectoryError):
        infos = {}
    names = {path.removeprefix(folder.path).lstrip("/"): info for path, info in sorted(infos.items())}
    if HEADER in names:
        return {name: info for name, info in names.items() if name.partition("/")[0] in (HEADER, MANIFESTS, MERGES)}
    return {name: info for name, info in names.items() if name != LOCK}


def _changed(folder: Folder, name: str, info: dict[str, Any] | None, before: tuple[int, str, str]) -> str:
    """Return how a file has changed; nothing if it has not."""
    size, version, digest = before
    if info is None:
        return "is missing"
    now = int(info["size"] or 0)
    if now != size:
        return f"has {now:,} bytes instead of {size:,}" if now else "is empty"
    if (size > WHOLE or not folder.local) and stamp(info) == version:
        return ""
    return "" if folder.local and _digest(folder.at(name)) == digest else "has other contents"


def _digest(path: str) -> str:
    """Return the digest of a local file, of all of it or of some blocks."""
    hashed = sha256()
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= WHOLE:
            hashed.update(file.read())
        for number in range(BLOCKS if size > WHOLE else 0):
            file.seek(number * (size - BLOCK) // (BLOCKS - 1))
            hashed.update(file.read(BLOCK))
    return hashed.hexdigest()
