"""Names on disk, in parts of about a million nodes: two arrays each, UTF-8 text and where every name begins in it.

1. Names of nodes that were given as text are sorted: a name is looked for in the one part that can have it. Names that
   users give may be in any order: a name is looked for in one part after another.
2. What is read is checked, chunk by chunk, as in all arrays of a store. Whoever asks for some names never holds more
   than those and the part that is being read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dask_rac.base.errors import DamagedStoreError
from dask_rac.base.names import EDGE_NAMES, NAMES, NAMES_RECORD, names_part, refuse_names
from dask_rac.base.records import decoded, parse_json
from dask_rac.base.spans import starts_of
from dask_rac.files.arrays import read_array, write_group
from dask_rac.files.folder import FileRecord, Folder
from dask_rac.files.node_names import BLOCK, NodeNames

GAP = 2**14  # nodes between two wanted ones that are not worth reading


@dataclass(frozen=True)
class NameSizes:
    """How names are cut into parts, which readers do not notice; tests hand over smaller sizes."""

    names: int = 2**20
    """The most names of a part."""
    bytes: int = 2**26
    """Bytes of text after which a part is closed."""
    batch: int = 2**16
    """Names that are added to a part at a time."""


@dataclass(frozen=True)
class NamesPart:
    """The names of successive nodes: a Zarr group."""

    name: str
    nodes: int
    files: tuple[FileRecord, ...]

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class NamesRecord:
    """What a store knows of its names."""

    sorted: bool
    """Whether every name is after the one before it, by UTF-8 bytes, so that each occurs once."""
    parts: tuple[NamesPart, ...]

    @property
    def nodes(self) -> int:
        """Number of names."""
        return sum(part.nodes for part in self.parts)

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return sum(part.bytes for part in self.parts)

    def file_names(self) -> Iterator[str]:
        """Yield all files; an array without items has no file of chunks."""
        for part in self.parts:
            yield f"{part.name}/zarr.json"
            for file in part.files:
                yield f"{file.name}/zarr.json"
                yield f"{file.name}/0"


def decode_names(fields: Any, folder: str = NAMES) -> NamesRecord:
    """Return a record as it was written; raise ValueError if no names in this folder could have it."""
    if not isinstance(fields, dict) or not isinstance(fields.get("parts"), list):
        raise ValueError("a record of names has parts")
    parts = tuple(
        decoded(NamesPart, part | {"files": tuple(decoded(FileRecord, file) for file in part["files"])})
        for part in fields["parts"]
    )
    refuse_names([name for part in parts for name in (part.name, *(file.name for file in part.files))], folder)
    return decoded(NamesRecord, fields | {"parts": parts})


class StoredNames(NodeNames):
    """Names that stay on disk."""

    def __init__(self, folder: Folder, record: NamesRecord) -> None:
        self._folder, self._record = folder, record
        self._starts = starts_of(np.array([part.nodes for part in record.parts], np.int64))

    def __len__(self) -> int:
        return self._record.nodes

    def slice(self, start: int, stop: int) -> Any:
        """Return the names of the nodes from `start` to before `stop`."""
        found = [pa.array([], pa.large_string())]
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        for number in range(max(first, 0), len(self._record.parts)):
            base, end = self._starts[number : number + 2].tolist()
            if base >= stop:
                break
            found.append(self._read(number, max(start, base) - base, min(stop, end) - base))
        return pa.concat_arrays(found)

    def take(self, nodes: NDArray[np.integer]) -> Any:
        """Return the names of some nodes, from as few chunks as hold them."""
        wanted, back = np.unique(np.asarray(nodes, np.int64), return_inverse=True)
        if not len(wanted):
            return pa.array([], pa.large_string())
        if wanted[0] < 0 or wanted[-1] >= len(self):
            raise IndexError(f"nodes are 0 to {len(self) - 1}")
        cuts = np.flatnonzero((np.diff(wanted) > GAP) | (np.diff(wanted // BLOCK) > 0)) + 1
        runs = np.split(wanted, cuts)
        texts = [self.slice(int(run[0]), int(run[-1]) + 1).take(pa.array(run - run[0])) for run in runs]
        return pa.concat_arrays(texts).take(pa.array(back))

    def find(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the first node with each name; -1 where no node has it."""
        given: Any = pa.array(names, pa.large_string()).dictionary_encode()
        wanted, back = given.dictionary, given.indices.to_numpy(zero_copy_only=False)
        found = np.full(len(wanted), -1, np.int64)
        for number in self._parts_of(wanted):
            places: Any = pc.index_in(self._read(number), wanted)
            at = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
            which, first = np.unique(places.take(pa.array(at)).to_numpy(), return_index=True)
            new = found[which] < 0
            found[which[new]] = self._starts[number] + at[first[new]]
        nodes: NDArray[np.int64] = found[back]
        return nodes

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredNames, (self._folder, self._record)

    def _parts_of(self, names: Any) -> list[int]:
        """Return the parts that may have some of these names."""
        if not self._record.sorted:
            return list(range(len(self._record.parts)))
        wanted = np.array([*names.cast(pa.large_binary()).to_pylist(), b""], object)[:-1]
        after = np.searchsorted(self._firsts, wanted, side="right")
        parts: list[int] = np.unique(after[after > 0] - 1).tolist()
        return parts

    @cached_property
    def _firsts(self) -> NDArray[np.object_]:
        """The first name of each part."""
        firsts = [self._read(number, 0, 1)[0].as_py().encode() for number in range(len(self._record.parts))]
        return np.array([*firsts, b""], object)[:-1]

    def _read(self, number: int, start: int = 0, stop: int | None = None) -> Any:
        """Return some names of a part."""
        part = self._record.parts[number]
        stop = part.nodes if stop is None else stop
        offsets = read_array(self._folder, f"{part.name}/offsets", start, stop + 1)
        text = read_array(self._folder, f"{part.name}/bytes", int(offsets[0]), int(offsets[-1]))
        if (np.diff(offsets) < 0).any():
            raise DamagedStoreError(f"{self._folder.at(part.name)}/offsets is not what was written")
        return unpacked(text, offsets - offsets[0])


def packed(names: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the text of an Arrow array of large strings, and where each begins, then where the last ends."""
    _, offsets, data = names.buffers()
    if not len(names):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    at = np.frombuffer(offsets, np.int64)[names.offset : names.offset + len(names) + 1]
    text = np.frombuffer(data, np.uint8)[at[0] : at[-1]] if data is not None else np.empty(0, np.uint8)
    return text, at - at[0]


def unpacked(text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Any:
    """Return what `packed` was given."""
    arrays: list[Any] = [np.ascontiguousarray(offsets), np.ascontiguousarray(text)]
    buffers = [None, *map(pa.py_buffer, arrays)]
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)


def write_names_part(folder: Folder, name: str, names: Any) -> NamesPart:
    """Write the names of successive nodes."""
    text, offsets = packed(names)
    return NamesPart(name, len(names), tuple(write_group(folder, name, {"bytes": text, "offsets": offsets})))


def write_names(folder: Folder, base: str, given: Iterable[Any], sizes: NameSizes | None = None) -> NamesRecord:
    """Write names, which come some at a time, into a new folder of parts."""
    parts: list[NamesPart] = []
    ordered, last = True, pa.array([], pa.large_string())
    for names in cut_names(given, sizes or NameSizes()):
        seen = pa.concat_arrays([last, names])
        ordered = ordered and pc.all(pc.less(seen.slice(0, len(seen) - 1), seen.slice(1))).as_py() is not False
        last = names.slice(len(names) - 1)
        parts.append(write_names_part(folder, names_part(base, len(parts)), names))
    return NamesRecord(ordered, tuple(parts))


def cut_names(given: Iterable[Any], sizes: NameSizes) -> Iterator[Any]:
    """Yield names in parts that are neither long nor large."""
    held: list[Any] = []
    for names in given:
        for start in range(0, len(names), sizes.batch):
            held.append(names.slice(start, sizes.batch))
            if sum(map(len, held)) + sizes.batch > sizes.names or sum(map(text_bytes, held)) >= sizes.bytes:
                yield pa.concat_arrays(held)
                held = []
    if held:
        yield pa.concat_arrays(held)


def text_bytes(names: Any) -> int:
    """Return the bytes of text of some names."""
    return len(packed(names)[0])


def write_names_record(folder: Folder, record: NamesRecord) -> None:
    """Let names in a folder of edges be found; they are complete."""
    folder.write(NAMES_RECORD, json.dumps(asdict(record)).encode())


def names_beside(folder: Folder) -> StoredNames | None:
    """Return the names in a folder of edges, None if it has none."""
    try:
        data = folder.read(NAMES_RECORD)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    try:
        return StoredNames(folder, decode_names(parse_json(data), EDGE_NAMES))
    except (ValueError, LookupError, TypeError):
        raise DamagedStoreError(f"{folder.at(NAMES_RECORD)} is damaged: write the edges again") from None
