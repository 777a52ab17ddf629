"""What all sources of vectors share: reading ranges of rows, and checks of shape and dtype."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.files.patience import asked
from dask_rac.files.reading import readable
from dask_rac.files.stamps import stamp
from dask_rac.files.urls import locate

DTYPES = ("uint8", "float32", "float64")
"""Supported dtypes; each can be converted to all later ones without loss."""


Block = NDArray[Any] | sp.csr_array
"""Some rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorSource(ABC):
    """Vectors in memory or on disk, one per row; several threads may read at once."""

    name: str
    """The path or URL as given, or what messages call vectors in memory."""
    origin: str | None
    """What `where` names instead of the files: a path, or "" for vectors that did not come from files."""
    rows: int
    dimensions: int
    dtype: str
    """dtype of the values: uint8, float32 or float64, in native byte order."""
    sparse: bool
    entries: int
    """Number of stored values."""
    bytes: int
    """Size on disk or in memory."""
    on_disk: bool
    """Whether another process can read the vectors through a pickled copy that does not contain them."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A digest that identifies these vectors."""

    @abstractmethod
    def reachable(self) -> bool:
        """Whether this process sees the vectors unchanged since the source was opened."""

    @abstractmethod
    def _rows(self, start: int, stop: int) -> Block:
        """Read rows `start` to `stop`, at least one."""

    def read(self, start: int, stop: int) -> Any:
        """Read rows `start` to `stop` as a read-only C-contiguous array, or a canonical `csr_array`."""
        if not 0 <= start <= stop <= self.rows:
            raise IndexError(f"rows {start} to {stop} of {self.name} are not among its {self.rows}")
        if start == stop:
            empty = np.empty((0, self.dimensions), self.dtype)
            return sp.csr_array(empty) if self.sparse else empty
        with readable(self.name):
            return frozen(self._rows(start, stop))

    def where(self, row: int) -> str:
        """Return the location of a row."""
        return f"row {row} of {self.origin}" if self.origin else f"row {row}"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A file of vectors."""

    path: str
    """Path on its file system."""
    shown: str
    """What messages call it."""
    rows: int
    bytes: int
    stamp: str
    """When it was written."""


@dataclass(frozen=True, kw_only=True)
class FileSource(VectorSource):
    """Vectors in one or several files, one after the other."""

    parts: tuple[Part, ...]

    @property
    def fingerprint(self) -> str:
        """A digest that identifies these files: their names, sizes and times."""
        facts = [[part.shown.removeprefix(self.name), part.rows, part.bytes, part.stamp] for part in self.parts]
        return sha256(json.dumps([self.dtype, self.dimensions, facts]).encode()).hexdigest()

    def where(self, row: int) -> str:
        """Return the location of a row; among several files, by its number within its file."""
        if self.origin is not None:
            return super().where(row)
        part, first, _ = next(self._cut(row, row + 1))
        return f"row {first} of {part.shown}"

    def reachable(self) -> bool:
        """Whether this process sees the first and the last file unchanged since the source was opened."""
        filesystem, _ = locate(self.name)
        ends = self.parts[0], self.parts[-1]
        try:
            infos = [asked(self.name, InputError, filesystem.info, part.path) for part in ends]
        except (FileNotFoundError, NotADirectoryError):
            return False
        return [(stamp(info), int(info["size"])) for info in infos] == [(part.stamp, part.bytes) for part in ends]

    def _rows(self, start: int, stop: int) -> Block:
        pieces = [self._part_rows(part, first, last) for part, first, last in self._cut(start, stop)]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    @abstractmethod
    def _part_rows(self, part: Any, first: int, last: int) -> Any:
        """Read rows `first` to `last` of a file, at least one."""

    def _cut(self, start: int, stop: int) -> Iterator[tuple[Part, int, int]]:
        """Yield the files that hold a range of rows, with the range in each."""
        ends = np.cumsum([part.rows for part in self.parts])
        number = int(np.searchsorted(ends, start, side="right"))
        while start < stop:
            part, end = self.parts[number], int(ends[number])
            first = start - (end - part.rows)
            last = min(stop, end) - (end - part.rows)
            if last > first:
                yield part, first, last
            start, number = max(start, end), number + 1


def shown_name(name: str, root: str, path: str) -> str:
    """Return what messages call a file at or below the given path."""
    return name if path == root else f"{name.rstrip('/')}{path.removeprefix(root.rstrip('/'))}"


def in_order(paths: Iterable[str]) -> list[str]:
    """Sort files by name, with numbers by value: part.2 before part.10, as Dask reads them."""
    return sorted(paths, key=lambda path: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path)])


def checked_dtype(dtype: Any, what: str) -> str:
    """Return the name of a dtype; raise if it is not supported."""
    name = np.dtype(dtype).name if isinstance(dtype, np.dtype) else str(dtype)
    if name not in DTYPES:
        raise InputError(
            f"the values of {what} are {name}, not {', '.join(DTYPES[:-1])} or {DTYPES[-1]}: {_dtype_remedy(name)}"
        )
    return name


def _dtype_remedy(name: str) -> str:
    """Return the remedy for an unsupported dtype."""
    if name in ("bool", "float16", "int8", "int16", "uint16"):
        return 'use astype("float32")'
    if name.startswith(("int", "uint", "float", "longdouble", "double")):
        return 'use astype("float64"), or "float32" if that holds them'
    return "convert them to numbers"


def widest(dtypes: Sequence[str]) -> str:
    """Return the dtype that can hold the values of all dtypes."""
    return DTYPES[max(DTYPES.index(dtype) for dtype in dtypes)]


def check_shape(shape: Sequence[int], what: str) -> None:
    """Raise unless there is at least one row and one dimension."""
    if len(shape) != 2:
        remedy = "reshape(-1, 1), if each is a number" if len(shape) == 1 else "reshape(rows, -1)"
        raise InputError(
            f"the shape of {what} is {tuple(shape)}: vectors must be the rows of a 2-dimensional array; use {remedy}"
        )
    if shape[0] < 1:
        raise InputError(f"there are no rows in {what}: give one vector or more")
    if shape[1] < 1:
        raise InputError(f"there are no values in the {shape[0]} rows of {what}: give one dimension or more")


def sparse_block(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], dimensions: int) -> sp.csr_array:
    """Build rows of a sparse matrix from arrays that are copied only if necessary."""
    index = np.int32 if max(dimensions, len(data)) < 2**31 else np.int64
    return sp.csr_array(
        (data, indices.astype(index, copy=False), (indptr - indptr[0]).astype(index, copy=False)),
        shape=(len(indptr) - 1, dimensions),
    )


def canonical(matrix: sp.csr_array, dtype: str, what: str) -> sp.csr_array:
    """Return the matrix with sorted indices and summed duplicates; unchanged if it is already so."""
    if matrix.has_canonical_format and matrix.dtype == dtype:
        return matrix
    wide: Any = matrix.astype(np.int64 if dtype == "uint8" else dtype)
    wide.sum_duplicates()
    if dtype == "uint8" and wide.nnz and wide.data.max() > 255:
        raise InputError(
            f'duplicate entries in {what} add up to {wide.data.max()}, too much for uint8: use astype("float32")'
        )
    summed: sp.csr_array = wide.astype(dtype, copy=False)
    return summed


def frozen(block: Block) -> Block:
    """Make a block read-only and return it."""
    arrays = [block.data, block.indices, block.indptr] if sp.issparse(block) else [block]
    for array in arrays:
        array.flags.writeable = False
    return block


def memory_of(array: NDArray[Any]) -> memoryview:
    """Return the bytes of a contiguous array."""
    data: Any = array.reshape(-1).view(np.uint8)
    return memoryview(data)
