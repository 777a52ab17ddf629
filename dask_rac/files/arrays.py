"""Arrays as Zarr v3, each written and read in a single operation.

Each array is one Zarr shard, a single file, made of inner chunks with a crc32c each: exactly what zarr itself writes
for `sharding_indexed` over `bytes` and `crc32c`, and what any Zarr library reads. The writer is our own because a run
writes hundreds of gigabytes in arrays of any length: zarr takes 8 ms and a copy per array, this code 0.1 ms and no
copy. A range of an array is one read; damage is detected in everything that is read.

On an object store every file is a request. There the metadata of all arrays is stored in that of their group, which
Zarr calls consolidated. A store that is copied from or to a local disk can still be read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import DamagedStoreError
from dask_rac.base.records import parse_json
from dask_rac.files.buffers import REQUEST, checksum, read_buffers, write_buffers
from dask_rac.files.folder import FileRecord, Folder

CHUNK = 65_536  # items per inner chunk; ranges are rounded to this when read
CHECKSUM = 4  # bytes
BATCH = 128  # chunks per system call
GROUPS = 1_024  # remote groups whose metadata each process keeps

_LITTLE: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
_CHECKED = [_LITTLE, {"name": "crc32c"}]
_UNREADABLE = ValueError, LookupError, TypeError, ArithmeticError, AttributeError
_GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}


@dataclass(frozen=True)
class ArrayLayout:
    """What the metadata of an array states."""

    items: int
    chunk: int
    dtype: np.dtype[Any]

    @property
    def chunks(self) -> int:
        """Number of inner chunks; the last one is padded."""
        return -(-self.items // self.chunk)

    @property
    def stride(self) -> int:
        """Bytes from the start of one chunk to the next."""
        return self.chunk * self.dtype.itemsize + CHECKSUM

    def batch(self, local: bool) -> int:
        """Return the number of chunks to read at a time."""
        return BATCH if local else max(1, REQUEST // self.stride)


def write_group(folder: Folder, name: str, arrays: Mapping[str, NDArray[Any]], chunk: int = CHUNK) -> list[FileRecord]:
    """Write arrays as a new Zarr group."""
    layouts = {key: _new_layout(array, chunk) for key, array in arrays.items()}
    if not folder.local:
        folder.write(f"{name}/zarr.json", _consolidated(layouts))
        return [_write_array(folder, f"{name}/{key}", arrays[key], layout) for key, layout in layouts.items()]
    metadata = {f"{name}/zarr.json": json.dumps(_GROUP).encode()}
    metadata |= {f"{name}/{key}/zarr.json": _metadata(layout) for key, layout in layouts.items()}
    os.makedirs(os.path.dirname(folder.at(name)), exist_ok=True)
    for file, data in metadata.items():
        os.mkdir(os.path.dirname(folder.at(file)))
        write_buffers(folder, file, [data])
    return [_write_array(folder, f"{name}/{key}", arrays[key], layout) for key, layout in layouts.items()]


def read_array(
    folder: Folder, name: str, start: int = 0, stop: int | None = None, out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Read items `start` to `stop` of an array and check them; into `out` if given."""
    layout = _known_layout(folder, name)
    stop = layout.items if stop is None else stop
    if out is None:
        out = np.empty(stop - start, layout.dtype)
    if out.dtype != layout.dtype or len(out) != stop - start or stop > layout.items:
        raise DamagedStoreError(
            f"{folder.at(name)} holds {layout.items} items of {layout.dtype}: another file was put in its place"
        )
    _read_chunks(folder, name, layout, start, out)
    return out


def array_dtype(folder: Folder, name: str) -> np.dtype[Any]:
    """Return the dtype of an array."""
    return _known_layout(folder, name).dtype


def check_group(folder: Folder, name: str) -> None:
    """Raise unless the metadata of a group is exactly what was written."""
    layouts = _group_layouts(folder, name)
    try:
        data = folder.read(f"{name}/zarr.json")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        data = b""
    if data != (_consolidated(layouts) if layouts else json.dumps(_GROUP).encode()):
        raise DamagedStoreError(f"{folder.at(name)}/zarr.json is damaged or missing")


def check_array(folder: Folder, record: FileRecord) -> None:
    """Raise unless an array is what was written, bit for bit."""
    layout = _layout(folder, record.name)
    sums = np.empty(layout.chunks, "<u4")
    batch = layout.batch(folder.local)
    scratch = np.empty(min(layout.chunks, batch) * layout.chunk, layout.dtype)
    for first in range(0, layout.chunks, batch):
        last = min(first + batch, layout.chunks)
        views = scratch[: (last - first) * layout.chunk].reshape(-1, layout.chunk)
        sums[first:last] = _read_whole(folder, record.name, layout, first, list(views))
    if layout.chunks and _read_index(folder, record.name, layout) != _index(layout):
        raise DamagedStoreError(f"{folder.at(record.name)}/0 is damaged: its index is not what was written")
    if _digest(_metadata(layout), sums) != record.digest:
        raise DamagedStoreError(f"{folder.at(record.name)} is not what was written: another file was put in its place")


def _new_layout(array: NDArray[Any], chunk: int) -> ArrayLayout:
    """Choose the layout of a new array, with hardly any padding."""
    number = max(1, -(-len(array) // chunk))
    return ArrayLayout(len(array), max(1, -(-len(array) // number)), array.dtype)


def _write_array(folder: Folder, name: str, array: NDArray[Any], layout: ArrayLayout) -> FileRecord:
    """Write the file of an array, its chunks straight from memory."""
    array, metadata = np.ascontiguousarray(array), _metadata(layout)
    whole = len(array) // layout.chunk
    chunks = list(array[: whole * layout.chunk].reshape(-1, layout.chunk))
    if whole < layout.chunks:
        rest = array[whole * layout.chunk :]
        chunks.append(np.concatenate((rest, np.zeros(layout.chunk - len(rest), array.dtype))))
    sums = np.array([checksum(piece) for piece in chunks], "<u4")
    index = _index(layout)
    parts: list[Any] = [part for pair in zip(chunks, sums.reshape(-1, 1), strict=True) for part in pair]
    if chunks:
        write_buffers(folder, f"{name}/0", [*parts, index])
    size = layout.chunks * layout.stride + len(index) * bool(chunks) + len(metadata)
    return FileRecord(name, size, _digest(metadata, sums))


def _index(layout: ArrayLayout) -> bytes:
    """Return the index of the chunks, with its own checksum, as it ends the file."""
    starts = np.arange(layout.chunks, dtype="<u8") * layout.stride
    index = np.column_stack((starts, np.full(layout.chunks, layout.stride, "<u8"))).view("u1").reshape(-1)
    return index.tobytes() + np.array([checksum(index)], "<u4").tobytes()


def _read_index(folder: Folder, name: str, layout: ArrayLayout) -> bytes:
    """Return what follows the chunks of an array; another run may delete the file at the same moment."""
    try:
        return folder.read(f"{name}/0", layout.chunks * layout.stride)
    except FileNotFoundError:
        raise DamagedStoreError(f"{folder.at(name)}/0 is missing") from None


def _read_chunks(folder: Folder, name: str, layout: ArrayLayout, start: int, out: NDArray[Any]) -> None:
    """Fill `out` with the items from `start` on."""
    stop = start + len(out)
    if start == stop:
        return
    chunk, batch = layout.chunk, layout.batch(folder.local)
    for first in range(start // chunk, -(-stop // chunk), batch):
        last = min(first + batch, -(-stop // chunk))
        views, partial = [], []
        for number in range(first, last):
            lo, hi = number * chunk, (number + 1) * chunk
            if start <= lo and hi <= stop:
                views.append(out[lo - start : hi - start])
            else:
                views.append(np.empty(chunk, layout.dtype))
                partial.append((lo, views[-1]))
        _read_whole(folder, name, layout, first, views)
        for lo, view in partial:
            a, b = max(lo, start), min(lo + chunk, stop)
            out[a - start : b - start] = view[a - lo : b - lo]


def _read_whole(folder: Folder, name: str, layout: ArrayLayout, first: int, views: list[NDArray[Any]]) -> NDArray[Any]:
    """Fill each view with a chunk, from chunk `first` on; return the checksums."""
    path, offset = folder.at(f"{name}/0"), first * layout.stride
    sums = np.empty((len(views), 1), "<u4")
    parts = [part for pair in zip(views, sums, strict=True) for part in pair]
    try:
        size = read_buffers(folder, f"{name}/0", offset, parts)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise DamagedStoreError(f"{path} is missing") from None
    if size != len(views) * layout.stride:
        raise DamagedStoreError(f"{path} is cut short")
    for number, (view, stored) in enumerate(zip(views, sums[:, 0], strict=True)):
        if checksum(view) != stored:
            raise DamagedStoreError(f"{path} is damaged: the checksum of chunk {first + number} does not match")
    return sums[:, 0]


def _metadata(layout: ArrayLayout) -> bytes:
    """Return the Zarr v3 metadata of an array."""
    inner = {
        "chunk_shape": [layout.chunk],
        "codecs": _CHECKED,
        "index_codecs": _CHECKED,
        "index_location": "end",
    }
    return json.dumps(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [layout.items],
            "data_type": layout.dtype.name,
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": [max(1, layout.chunks) * layout.chunk]},
            },
            "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}},
            "fill_value": 0.0 if layout.dtype.kind == "f" else 0,
            "codecs": [{"name": "sharding_indexed", "configuration": inner}],
            "attributes": {},
        }
    ).encode()


def _consolidated(layouts: Mapping[str, ArrayLayout]) -> bytes:
    """Return the metadata of a group, including that of its arrays."""
    arrays = {key: json.loads(_metadata(layout)) for key, layout in layouts.items()}
    inline = {"kind": "inline", "must_understand": False, "metadata": arrays}
    return json.dumps(_GROUP | {"consolidated_metadata": inline}).encode()


def _known_layout(folder: Folder, name: str) -> ArrayLayout:
    """Return the layout of an array; a process reads a remote group's only once, as files never change."""
    if not folder.local:
        group, _, key = name.rpartition("/")
        layout = _kept_layouts(folder.url, group).get(key)
        if layout is not None:
            return layout
    return _layout(folder, name)


@lru_cache(GROUPS)
def _kept_layouts(url: str, group: str) -> Mapping[str, ArrayLayout]:
    """Return the layouts of all arrays in a remote group."""
    return _group_layouts(Folder(url), group)


def _group_layouts(folder: Folder, group: str) -> Mapping[str, ArrayLayout]:
    """Return the layouts in the metadata of a group; empty if it holds none."""
    try:
        arrays = parse_json(folder.read(f"{group}/zarr.json"))["consolidated_metadata"]["metadata"]
        return {key: _parsed(json.dumps(metadata).encode()) for key, metadata in arrays.items()}
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, *_UNREADABLE):
        return {}


def _layout(folder: Folder, name: str) -> ArrayLayout:
    """Return the layout of an array."""
    group, _, key = name.rpartition("/")
    try:
        return _parsed(folder.read(f"{name}/zarr.json"))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        layout = _group_layouts(folder, group).get(key)
    except _UNREADABLE:
        raise DamagedStoreError(f"{folder.at(name)}/zarr.json is damaged") from None
    if layout is None:
        raise DamagedStoreError(f"{folder.at(name)}/zarr.json is missing")
    return layout


def _parsed(data: bytes) -> ArrayLayout:
    """Return the layout that the metadata of an array states."""
    metadata = parse_json(data)
    chunk = metadata["codecs"][0]["configuration"]["chunk_shape"][0]
    layout = ArrayLayout(int(metadata["shape"][0]), int(chunk), np.dtype(metadata["data_type"]))
    if _metadata(layout) != data:  # nothing else is ever written
        raise ValueError("not as it was written")
    return layout


def _digest(metadata: bytes, sums: NDArray[Any]) -> str:
    """Return a digest that identifies an array: of its metadata and the checksums of its chunks."""
    return sha256(metadata + sums.tobytes()).hexdigest()
