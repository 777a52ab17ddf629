"""Vectors in flat files, .npy, .fvecs and .bvecs, read by ranges."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.files.npy import HEAD, read_header
from dask_rac.files.patience import asked
from dask_rac.files.reading import readable
from dask_rac.files.stamps import stamp
from dask_rac.files.urls import is_local, locate
from dask_rac.vectors.sources.source import FileSource, Part, check_shape, checked_dtype, memory_of, shown_name

RECORD_ENDINGS = {".fvecs": "float32", ".bvecs": "uint8"}
FLAT_ENDINGS = (".npy", *RECORD_ENDINGS)
HEADS = 16  # fetched at a time from an object store


@dataclass(frozen=True, kw_only=True)
class FlatPart(Part):
    """A file of rows of equal size."""

    offset: int
    """Bytes before the first row."""
    dimensions: int
    value: str
    """dtype of the values, with their byte order."""
    counted: bool
    """Whether each row starts with its number of values."""

    @property
    def record(self) -> np.dtype[Any]:
        """The dtype of a whole row."""
        values = ("values", self.value, (self.dimensions,))
        return np.dtype([("count", "<i4"), values] if self.counted else [values])


@dataclass(frozen=True, kw_only=True)
class FlatSource(FileSource):
    """Vectors in flat files: one read or request per range."""

    def _part_rows(self, part: FlatPart, first: int, last: int) -> NDArray[Any]:
        filesystem, _ = locate(self.name)
        start, count = part.offset + first * part.record.itemsize, last - first
        if is_local(filesystem):
            records = np.empty(count, part.record)
            _fill(part, start, memory_of(records))
        else:
            end = start + count * part.record.itemsize
            data = asked(self.name, InputError, filesystem.cat_file, part.path, start=start, end=end)
            records = np.frombuffer(data, part.record, count)
        if part.counted:
            self._check_counts(records["count"], part, first)
        return np.ascontiguousarray(records["values"], self.dtype)

    def _check_counts(self, counts: NDArray[np.int32], part: FlatPart, first: int) -> None:
        """Raise unless every row states the same number of values as the first row of the file."""
        bad = counts != part.dimensions
        if bad.any():
            at = int(bad.argmax())
            raise InputError(
                f"row {first + at} of {part.shown} claims to have {counts[at]} values, row 0 has {part.dimensions}: "
                "all vectors of a file must have the same number; write it again"
            )


def _fill(part: FlatPart, start: int, room: memoryview) -> None:
    """Read from a local file; a memory map would end the process when the disk fails or the file is cut."""
    with open(part.path, "rb", buffering=0) as file:
        file.seek(start)
        while len(room):
            count = file.readinto(room)
            if not count:
                raise InputError(f"{part.shown} cannot be read: it was cut short after it was opened; write it again")
            room = room[count:]


def open_flat(name: str, files: Sequence[str], infos: dict[str, Any]) -> FlatSource:
    """Open the flat files at a path, in the given order."""
    filesystem, root = locate(name)

    def opened(file: str) -> FlatPart:
        return _open_part(filesystem, file, infos[file], shown_name(name, root, file))

    with readable(name):
        if is_local(filesystem) or len(files) == 1:
            parts = tuple(map(opened, files))
        else:
            with ThreadPoolExecutor(HEADS) as pool:
                parts = tuple(pool.map(opened, files))
    _check_alike(parts)
    rows, dimensions = sum(part.rows for part in parts), parts[0].dimensions
    check_shape((rows, dimensions), name)
    return FlatSource(
        name=name,
        origin=None,
        rows=rows,
        dimensions=dimensions,
        dtype=np.dtype(parts[0].value).name,
        sparse=False,
        entries=rows * dimensions,
        bytes=sum(part.bytes for part in parts),
        on_disk=True,
        parts=parts,
    )


def _check_alike(parts: Sequence[FlatPart]) -> None:
    """Raise unless all files have the same dtype and dimensions as the first."""
    first = parts[0]
    for part in parts:
        if part.dimensions != first.dimensions:
            raise InputError(
                f"{part.shown} has {part.dimensions} dimensions, {first.shown} {first.dimensions}: all files must have "
                "the same number"
            )
        if np.dtype(part.value).name != np.dtype(first.value).name:
            dtype, expected = np.dtype(part.value).name, np.dtype(first.value).name
            raise InputError(
                f"{part.shown} is {dtype}, {first.shown} {expected}: store all files in the same dtype, with astype"
            )


def _open_part(filesystem: Any, path: str, info: dict[str, Any], shown: str) -> FlatPart:
    """Return what the first bytes of a flat file state."""
    size = int(info["size"])
    head: bytes = filesystem.cat_file(path, start=0, end=min(size, HEAD)) if size else b""
    if path.endswith(".npy"):
        return _npy_part(path, info, head, shown)
    return _record_part(path, info, head, shown)


def _npy_part(path: str, info: dict[str, Any], head: bytes, shown: str) -> FlatPart:
    """Return what the header of a .npy file states."""
    header, size = read_header(head, shown), int(info["size"])
    shape, dtype, offset = header.shape, header.dtype, header.offset
    name = checked_dtype(dtype, shown)
    if len(shape) != 2 or not shape[1]:
        check_shape(shape, shown)
    if header.fortran:
        raise InputError(
            f"{shown} is in Fortran order, column after column: store rows, with "
            "numpy.save(path, numpy.ascontiguousarray(vectors))"
        )
    value = dtype.newbyteorder("<").str if name == "uint8" else dtype.str
    row = shape[1] * dtype.itemsize
    if size != header.size:
        raise InputError(
            f"{shown} is {size} bytes, not {header.size}: of its {shape[0]} vectors it holds "
            f"{min(shape[0], (size - offset) // row)} whole ones; copy or write it again"
        )
    return FlatPart(
        path=path,
        shown=shown,
        rows=shape[0],
        bytes=size,
        stamp=stamp(info),
        offset=offset,
        dimensions=shape[1],
        value=value,
        counted=False,
    )


def _record_part(path: str, info: dict[str, Any], head: bytes, shown: str) -> FlatPart:
    """Return what the first row and the size of a .fvecs or .bvecs file state."""
    size, ending = int(info["size"]), path[-6:]
    if not size:
        raise InputError(f"{shown} is empty: give one vector or more")
    count = int.from_bytes(head[:4], "little", signed=True)
    if len(head) < 4 or count < 1:
        raise InputError(
            f"{shown} is not a {ending} file: it begins with {head[:4]!r}, not with the number of values of a vector, "
            "int32 in little-endian order"
        )
    value = np.dtype(RECORD_ENDINGS[ending]).newbyteorder("<").str
    record = 4 + count * np.dtype(value).itemsize
    if size % record:
        raise InputError(
            f"{shown} is cut short, or its vectors differ in length: it holds {size // record} whole vectors of "
            f"{count} values and {size % record} extra bytes; copy it again, or cut it to "
            f"{size // record * record} bytes"
        )
    return FlatPart(
        path=path,
        shown=shown,
        rows=size // record,
        bytes=size,
        stamp=stamp(info),
        offset=0,
        dimensions=count,
        value=value,
        counted=True,
    )
