"""Vectors in Zarr: a two-dimensional array, or a group with the three arrays of a CSR matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.text import listed
from dask_rac.files.reading import readable
from dask_rac.files.stamps import listing_stamp
from dask_rac.files.urls import explained, is_local, locate
from dask_rac.vectors.sources.source import Block, FileSource, Part, canonical, check_shape, checked_dtype, sparse_block

ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")
CSR_ARRAYS = ("data", "indices", "indptr")


@dataclass(frozen=True)
class ZarrSizes:
    """How a new array is cut into chunks, which readers do not notice; tests hand over smaller sizes."""

    chunk_items: int = 2**19
    """Items per chunk."""
    flush_chunks: int = 8
    """Chunks written at a time."""


@dataclass(frozen=True, kw_only=True)
class ZarrSource(FileSource):
    """Vectors in a Zarr array."""

    def reachable(self) -> bool:
        """Whether this process sees the files unchanged since the source was opened."""
        filesystem, root = locate(self.parts[0].path)
        with explained(self.name, InputError):
            infos = filesystem.find(root, detail=True)
        return listing_stamp(root, infos) == self.parts[0].stamp

    def _part_rows(self, part: Part, first: int, last: int) -> Block:
        return np.ascontiguousarray(_node(part.path, part.stamp)[first:last], self.dtype)


@dataclass(frozen=True, kw_only=True)
class ZarrSparseSource(ZarrSource):
    """Vectors in a Zarr group that stores a CSR matrix: `data`, `indices`, `indptr`, and the attribute `shape`."""

    def _part_rows(self, part: Part, first: int, last: int) -> sp.csr_array:
        group = _csr_arrays(part.path, part.stamp)
        indptr = np.asarray(group["indptr"][first : last + 1]).astype(np.int64)
        lengths = np.diff(indptr)
        wrong = (lengths < 0) | (indptr[1:] > self.entries) | (indptr[:-1] < 0)
        if wrong.any():
            raise InputError(
                f"array 'indptr' of {self.name} is wrong at row {first + int(wrong.argmax())}: it must increase from 0 "
                f"to {self.entries}; write the matrix again"
            )
        start, stop = int(indptr[0]), int(indptr[-1])
        indices = np.asarray(group["indices"][start:stop])
        wrong = (indices < 0) | (indices >= self.dimensions)
        if wrong.any():
            at = int(wrong.argmax())
            row = first + int(np.searchsorted(indptr - start, at, side="right")) - 1
            raise InputError(
                f"row {row} of {self.name} has a value in column {indices[at]}, beyond the {self.dimensions} "
                "dimensions of the attribute 'shape': write the matrix again"
            )
        data = np.asarray(group["data"][start:stop]).astype(self.dtype, copy=False)
        return canonical(sparse_block(data, indices, indptr, self.dimensions), self.dtype, self.name)


def open_zarr(name: str, infos: dict[str, Any]) -> ZarrSource:
    """Open the Zarr array or group at a path."""
    filesystem, root = locate(name)
    place = root if is_local(filesystem) else name
    listing = listing_stamp(root, infos)
    node = _node(place, listing)
    with readable(name, "Zarr"):
        sparse = hasattr(node, "array_keys")
        shape, dtype, entries = _csr_facts(node, name) if sparse else _array_facts(node, name)
        _check_chunks(_csr_arrays(place, listing).values() if sparse else [node], root, infos, name)
    size = sum(int(info["size"] or 0) for info in infos.values())
    return (ZarrSparseSource if sparse else ZarrSource)(
        name=name,
        origin=None,
        rows=shape[0],
        dimensions=shape[1],
        dtype=dtype,
        sparse=sparse,
        entries=entries,
        bytes=size,
        on_disk=True,
        parts=(Part(path=place, shown=name, rows=shape[0], bytes=size, stamp=listing),),
    )


def open_zarr_array(name: str, infos: dict[str, Any]) -> Any:
    """Open the Zarr array of any number of dimensions at a path, all of whose chunks must be there."""
    filesystem, root = locate(name)
    node = _node(root if is_local(filesystem) else name, listing_stamp(root, infos))
    if hasattr(node, "array_keys"):
        raise InputError(f"{name} is a Zarr group of {listed(sorted(node.keys())) or 'nothing'}: give an array in it")
    _check_chunks([node], root, infos, name)
    return node


def write_array(
    place: str, blocks: Iterable[NDArray[Any]], shape: tuple[int, int], dtype: str, sizes: ZarrSizes | None = None
) -> None:
    """Write rows as a new two-dimensional Zarr array."""
    sizes = sizes or ZarrSizes()
    chunk = min(shape[0], max(1, sizes.chunk_items // shape[1]))
    rows = _Growing(_new_array(place, None, (0, shape[1]), (chunk, shape[1]), dtype), sizes.flush_chunks)
    for block in blocks:
        rows.add(block)
    rows.finish()


def write_csr(
    place: str, blocks: Iterable[sp.csr_array], shape: tuple[int, int], dtype: str, sizes: ZarrSizes | None = None
) -> None:
    """Write sparse rows as a new Zarr group, in anndata's format."""
    import zarr  # noqa: PLC0415 - takes a third of a second, and most vectors are dense

    sizes = sizes or ZarrSizes()
    attributes = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(shape)}
    zarr.create_group(place, attributes=attributes)
    index = "int32" if shape[1] < 2**31 else "int64"
    new = {
        name: _Growing(_new_array(place, name, (0,), (min(sizes.chunk_items, most),), kind), sizes.flush_chunks)
        for name, kind, most in zip(
            CSR_ARRAYS, (dtype, index, "int64"), (shape[0] * shape[1],) * 2 + (shape[0] + 1,), strict=True
        )
    }
    new["indptr"].add(np.zeros(1, np.int64))
    entries = 0
    for block in blocks:
        new["data"].add(block.data)
        new["indices"].add(block.indices.astype(index, copy=False))
        new["indptr"].add(block.indptr[1:].astype(np.int64) + entries)
        entries += block.nnz
    for array in new.values():
        array.finish()


class _Growing:
    """A Zarr array that is written from start to end, each chunk once."""

    def __init__(self, array: Any, flush_chunks: int) -> None:
        self._array, self._step = array, array.chunks[0] * flush_chunks
        self._waiting: list[NDArray[Any]] = []
        self._count = 0

    def add(self, rows: NDArray[Any]) -> None:
        """Append rows."""
        for at in range(0, len(rows), self._step):
            piece = rows[at : at + self._step]
            self._waiting.append(piece.copy())  # the source of the blocks may reuse their arrays
            self._count += len(piece)
            if self._count >= self._step:
                joined = np.concatenate(self._waiting)
                self._array.append(joined[: self._step])
                self._waiting, self._count = [joined[self._step :]], self._count - self._step

    def finish(self) -> None:
        """Write the rows that are still waiting."""
        if self._count:
            self._array.append(np.concatenate(self._waiting))


def _new_array(place: str, name: str | None, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str) -> Any:
    """Create an array with checksums but no compression, so that equal values give equal files everywhere."""
    import zarr.codecs  # noqa: PLC0415 - as above

    return zarr.create_array(
        place,
        name=name,
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        compressors=[zarr.codecs.Crc32cCodec()],
        attributes={"encoding-type": "array", "encoding-version": "0.2.0"},
        config={"write_empty_chunks": True},
    )


def _array_facts(array: Any, name: str) -> tuple[tuple[int, int], str, int]:
    """Return the shape, dtype and number of values of a Zarr array."""
    dtype = checked_dtype(array.dtype, name)
    check_shape(array.shape, name)
    rows, dimensions = array.shape
    return (rows, dimensions), dtype, rows * dimensions


def _csr_facts(group: Any, name: str) -> tuple[tuple[int, int], str, int]:
    """Return the shape, dtype and number of stored values of a CSR matrix in a Zarr group."""
    names = sorted(group.keys())
    if not set(CSR_ARRAYS) <= set(group.array_keys()):
        raise InputError(
            f"{name} is a Zarr group of {listed(names) or 'nothing'}, not a CSR matrix of {', '.join(CSR_ARRAYS)}: "
            "give the path of the array or matrix in it"
        )
    form, shape = group.attrs.get("encoding-type", "csr_matrix"), group.attrs.get("shape")
    if form != "csr_matrix":
        raise InputError(f"{name} is a {form}: store it by rows, with tocsr()")
    if not isinstance(shape, list | tuple) or not all(isinstance(size, int) for size in shape):
        raise InputError(f"{name} has no shape: give the group an attribute 'shape', as [rows, dimensions]")
    check_shape(shape, name)
    arrays = {key: group[key] for key in CSR_ARRAYS}
    for key, array in arrays.items():
        if array.ndim != 1 or (key != "data" and array.dtype.kind not in "iu"):
            raise InputError(
                f"array {key!r} of {name} is {array.ndim}-dimensional {array.dtype}: store one dimension"
                + (" of integers" if key != "data" else "")
            )
    dtype = checked_dtype(arrays["data"].dtype, f"array 'data' of {name}")
    lengths = {key: array.shape[0] for key, array in arrays.items()}
    if lengths["data"] != lengths["indices"] or lengths["indptr"] != shape[0] + 1:
        raise InputError(
            f"the arrays of {name} do not fit its shape {list(shape)}: indptr has {lengths['indptr']} items, not "
            f"{shape[0] + 1}, or data ({lengths['data']}) and indices ({lengths['indices']}) differ; write it again"
        )
    return (shape[0], shape[1]), dtype, lengths["data"]


def _check_chunks(arrays: Iterable[Any], root: str, infos: dict[str, Any], name: str) -> None:
    """Raise if a chunk of the arrays is missing or too small."""
    from dask_rac.files.zarr_input import check_chunks  # noqa: PLC0415 - as above

    check_chunks(arrays, root, infos, name)


def _csr_arrays(place: str, listing: str) -> dict[str, Any]:
    """Open the arrays of a CSR matrix."""
    from dask_rac.files.zarr_input import kept_arrays  # noqa: PLC0415 - as above

    return kept_arrays(place, listing, CSR_ARRAYS)


def _node(place: str, listing: str) -> Any:
    """Open a Zarr array or group."""
    from dask_rac.files.zarr_input import kept_node  # noqa: PLC0415 - as above

    return kept_node(place, listing)
