"""Arrays that belong together in one file: what the tasks of a graph leave for each other.

A file is there whole or not at all, and carries checksums: numpy's own .npz.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from dask_rac.errors import DamagedStoreError
from dask_rac.store.files import UNFINISHED, Folder

ENDING = ".npz"


def write_bundle(folder: Folder, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write some arrays; not flushed to the disk, as they can be made again."""
    if not folder.local:
        buffer = BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        folder.write(name + ENDING, buffer.getvalue())
        return
    path = folder.at(name + ENDING)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{uuid.uuid4().hex[:8]}{UNFINISHED}"
    try:
        with open(temporary, "xb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def read_bundle(folder: Folder, name: str, *wanted: str) -> dict[str, NDArray[Any]]:
    """Some of the arrays of a file, or all, checked."""
    with _sound(folder, name + ENDING), _opened(folder, name + ENDING) as file, np.load(file) as arrays:
        return {key: arrays[key] for key in wanted or arrays.files}


def read_json(folder: Folder, name: str) -> dict[str, Any]:
    """What a small file says."""
    with _sound(folder, name):
        told: dict[str, Any] = json.loads(folder.read(name))
        return told


def _opened(folder: Folder, name: str) -> BinaryIO:
    """A file to read."""
    return open(folder.at(name), "rb") if folder.local else BytesIO(folder.read(name))


@contextmanager
def _sound(folder: Folder, name: str) -> Iterator[None]:
    """Say what to do with a file that cannot be read."""
    try:
        yield
    except (OSError, EOFError, ValueError, KeyError, BadZipFile) as error:
        raise DamagedStoreError(
            f"{folder.at(name)} is damaged or missing ({error}): delete it, and start again to have it anew"
        ) from error


def bundles(folder: Folder, name: str) -> set[str]:
    """The files in a folder, by name."""
    return {f"{name}/{file.removesuffix(ENDING)}" for file in folder.names(name) if file.endswith(ENDING)}
