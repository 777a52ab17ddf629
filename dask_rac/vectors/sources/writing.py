"""Write new files of vectors, block by block."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from os import PathLike, fspath
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.files.folder import Folder
from dask_rac.files.output import new_output
from dask_rac.files.urls import explained
from dask_rac.vectors.sources.flat import FLAT_ENDINGS, RECORD_ENDINGS, FlatSource, open_flat
from dask_rac.vectors.sources.source import Block, VectorSource, canonical, check_shape, checked_dtype, memory_of
from dask_rac.vectors.sources.zarr_files import ZarrSizes, open_zarr, write_array, write_csr


@dataclass(frozen=True)
class SpoolSizes:
    """How much of a source is copied at a time, which readers do not notice; tests hand over smaller sizes."""

    block_bytes: int = 2**26
    """Bytes of the source in a block; each block of dense vectors becomes a part."""


def write_vectors(
    path: str | PathLike[str],
    blocks: Iterable[Block],
    rows: int,
    dimensions: int,
    dtype: str,
    sizes: ZarrSizes | None = None,
) -> None:
    """Write rows, block by block, in the format given by the ending of a new path; equal rows give equal files.

    Dense blocks become .npy, .fvecs (float32) or .bvecs (uint8) on a local disk, or a Zarr array (.zarr). Sparse blocks
    become a Zarr group (.zarr) with the arrays of a CSR matrix in canonical form, as anndata stores it.
    """
    name = fspath(path).rstrip("/")
    check_shape((rows, dimensions), name)
    checked_dtype(dtype, name)
    iterator = _checked_blocks(blocks, (rows, dimensions), dtype, name)
    if name.endswith(".zarr"):
        with new_output(name, several=True) as place:
            first = next(iterator, None)
            all_blocks: Any = chain([] if first is None else [first], iterator)
            write = write_csr if sp.issparse(first) else write_array
            write(place.url, all_blocks, (rows, dimensions), dtype, sizes)
        return
    if not name.endswith(FLAT_ENDINGS):
        raise InputError(f"{name} has an unknown ending: it must be one of {', '.join((*FLAT_ENDINGS, '.zarr'))}")
    ending = name[name.rindex(".") :]
    if RECORD_ENDINGS.get(ending, dtype) != dtype:
        raise InputError(f"{name} cannot hold {dtype}: {ending} files are {RECORD_ENDINGS[ending]}")
    with new_output(name) as place:
        if not place.local:
            raise InputError(f"{name} is not on a local disk: write it to one and copy it, or write a .zarr there")
        with open(place.path, "xb") as file:
            if ending == ".npy":
                file.write(_npy_header((rows, dimensions), dtype))
            for block in iterator:
                if sp.issparse(block):
                    raise InputError(f"{name} cannot hold sparse rows: choose a name that ends in .zarr")
                file.write(memory_of(block) if ending == ".npy" else memory_of(_records(block)))


def write_part(block: NDArray[Any], folder: Folder, name: str, number: int) -> None:
    """Write rows as part `number` of the vectors called `name`; a task that runs twice writes the same file."""
    block = np.asarray(block)
    dtype = checked_dtype(block.dtype, f"part {number} of the vectors")
    rows = np.ascontiguousarray(block, np.dtype(dtype).newbyteorder("<"))
    data = b"".join([_npy_header(block.shape, dtype), memory_of(rows)])
    folder.write(f"{name}/part-{number:08d}.npy", data)


def open_parts(folder: Folder, name: str) -> FlatSource:
    """Open all parts of the vectors called `name`; messages number rows across all parts."""
    with explained(folder.url):
        infos = folder.filesystem.find(folder.at(name), detail=True)
    parts = sorted(path for path in infos if path.endswith(".npy"))
    if not parts:
        raise InputError(f"{_url(folder, name)} holds no parts of vectors: write them first")
    return replace(open_flat(_url(folder, name), parts, infos), origin="")


def spool_vectors(source: VectorSource, folder: Folder, name: str, sizes: SpoolSizes | None = None) -> VectorSource:
    """Write vectors of any source into a folder that workers can read; messages name rows as before."""
    folder.remove(name)
    sizes = sizes or SpoolSizes()
    step = max(1, int(sizes.block_bytes * source.rows / max(1, source.bytes)))
    blocks = (source.read(start, min(start + step, source.rows)) for start in range(0, source.rows, step))
    if source.sparse:
        url = _url(folder, name)
        with explained(folder.url):
            write_csr(url, blocks, (source.rows, source.dimensions), source.dtype)
            infos = folder.filesystem.find(folder.at(name), detail=True)
        return replace(open_zarr(url, infos), origin=source.origin)
    for number, block in enumerate(blocks):
        write_part(block, folder, name, number)
    return replace(open_parts(folder, name), origin=source.origin)


def _url(folder: Folder, name: str) -> str:
    """Return the path or URL of a name in a folder."""
    return f"{folder.url.rstrip('/')}/{name}"


def _checked_blocks(blocks: Iterable[Block], shape: tuple[int, int], dtype: str, name: str) -> Iterator[Any]:
    """Yield blocks ready to be written; raise unless all are of one kind and together hold the stated rows."""
    written, kind = 0, None
    for block in blocks:
        sparse = sp.issparse(block)
        if kind not in (None, sparse):
            raise InputError(f"the blocks of {name} are partly sparse, partly dense: make them all the same kind")
        if block.ndim != 2 or block.shape[1] != shape[1] or block.dtype.name != dtype:
            raise InputError(
                f"a block of {name} is {block.dtype.name} of shape {block.shape}, not {dtype} of {shape[1]} dimensions"
            )
        kind, written = sparse, written + block.shape[0]
        little = np.dtype(dtype).newbyteorder("<")
        yield canonical(sp.csr_array(block), dtype, name) if sparse else np.ascontiguousarray(block, little)
    if written != shape[0]:
        raise InputError(f"the blocks of {name} hold {written} rows, not {shape[0]}: give as many as stated")


def _npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    """Return the header of a .npy file."""
    file = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype).newbyteorder("<"))
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


def _records(block: NDArray[Any]) -> NDArray[Any]:
    """Return rows, each preceded by its number of values."""
    records = np.empty(len(block), [("count", "<i4"), ("values", block.dtype, (block.shape[1],))])
    records["count"], records["values"] = block.shape[1], block
    return records
