"""Several arrays in one file, through which the tasks of a graph pass data to each other.

A file appears whole or not at all, and has checksums: it is numpy's own .npz.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import Any, BinaryIO, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import DamagedStoreError
from dask_rac.base.records import parse_json
from dask_rac.files.folder import Folder
from dask_rac.files.trouble import is_trouble

ENDING = ".npz"

T = TypeVar("T")


def write_bundle(folder: Folder, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to one file."""
    if not folder.local:
        buffer = BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        folder.write(name + ENDING, buffer.getvalue())
        return
    with folder.new_file(name + ENDING) as path, open(path, "xb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_bundle(folder: Folder, name: str, *wanted: str) -> dict[str, NDArray[Any]]:
    """Read the wanted arrays of a file, or all of them, and check them."""
    with _sound(folder, name + ENDING), _opened(folder, name + ENDING) as file, np.load(file) as arrays:
        return {key: arrays[key] for key in wanted or arrays.files}


def read_json(folder: Folder, name: str, decode: Callable[[Any], T]) -> T:
    """Read a small JSON file; `decode` makes something of it, or raises if it is not what was written."""
    with _sound(folder, name):
        return decode(parse_json(folder.read(name)))


def _opened(folder: Folder, name: str) -> BinaryIO:
    """Open a file for reading."""
    return open(folder.at(name), "rb") if folder.local else BytesIO(folder.read(name))


@contextmanager
def _sound(folder: Folder, name: str) -> Iterator[None]:
    """Explain what to do about a file that cannot be read."""
    try:
        yield
    except (OSError, EOFError, ValueError, TypeError, KeyError, BadZipFile) as error:
        if is_trouble(error) and not isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
            raise  # of the disk, not of the file
        raise DamagedStoreError(
            f"{folder.at(name)} is damaged or missing ({error}): delete it and start again, which writes it again"
        ) from error


def bundles(folder: Folder, name: str) -> set[str]:
    """Return the names of all bundles in a folder."""
    return {f"{name}/{file.removesuffix(ENDING)}" for file in folder.names(name) if file.endswith(ENDING)}
