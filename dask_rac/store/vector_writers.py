"""New files of vectors, written block after block."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from os import PathLike, fspath
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.errors import InputError
from dask_rac.store.files import Folder
from dask_rac.store.output import new_output
from dask_rac.store.urls import explained
from dask_rac.store.vector_files import FLAT_ENDINGS, RECORD_ENDINGS, FlatSource, open_flat
from dask_rac.store.vector_source import Block, VectorSource, canonical, check_shape, checked_dtype, memory_of
from dask_rac.store.vector_zarr import open_zarr, write_array, write_csr

BLOCK_BYTES = 2**26  # spooled at a time


def write_vectors(path: str | PathLike[str], blocks: Iterable[Block], rows: int, dimensions: int, dtype: str) -> None:
    """Write rows, block after block, in the form that the ending of a new path names; equal rows give equal files.

    Dense blocks as .npy, .fvecs (float32) or .bvecs (uint8), on a local disk, or as a Zarr array (.zarr); sparse blocks
    as a Zarr group of the arrays of a CSR matrix, as anndata has it (.zarr), in canonical form.
    """
    name = fspath(path).rstrip("/")
    check_shape((rows, dimensions), name)
    checked_dtype(dtype, name)
    iterator = _checked_blocks(blocks, (rows, dimensions), dtype, name)
    if name.endswith(".zarr"):
        with new_output(name, several=True) as place:
            first = next(iterator, None)
            all_blocks: Any = chain([] if first is None else [first], iterator)
            (write_csr if sp.issparse(first) else write_array)(place.url, all_blocks, (rows, dimensions), dtype)
        return
    if not name.endswith(FLAT_ENDINGS):
        raise InputError(f"{name} has no ending known: it must be one of {', '.join((*FLAT_ENDINGS, '.zarr'))}")
    ending = name[name.rindex(".") :]
    if RECORD_ENDINGS.get(ending, dtype) != dtype:
        raise InputError(f"{name} cannot hold {dtype}: {ending} files are {RECORD_ENDINGS[ending]}")
    with new_output(name) as place:
        if not place.local:
            raise InputError(f"{name} is not local: write it to a disk and copy it, or write a .zarr there")
        with open(place.path, "xb") as file:
            if ending == ".npy":
                file.write(_npy_header((rows, dimensions), dtype))
            for block in iterator:
                if sp.issparse(block):
                    raise InputError(f"{name} cannot hold sparse rows: choose a name that ends in .zarr")
                file.write(memory_of(block) if ending == ".npy" else memory_of(_records(block)))


def write_part(block: NDArray[Any], folder: Folder, name: str, number: int) -> None:
    """Write some rows, part `number` of those called `name`; a task that runs twice writes the same."""
    block = np.asarray(block)
    dtype = checked_dtype(block.dtype, f"part {number} of the vectors")
    rows = np.ascontiguousarray(block, np.dtype(dtype).newbyteorder("<"))
    data = b"".join([_npy_header(block.shape, dtype), memory_of(rows)])
    folder.write(f"{name}/part-{number:08d}.npy", data)


def open_parts(folder: Folder, name: str) -> FlatSource:
    """The vectors of all parts called `name`, whose rows messages number from the first part on."""
    with explained(folder.url):
        found = folder.filesystem.find(folder.at(name), detail=True)
    parts = sorted(path for path in found if path.endswith(".npy"))
    if not parts:
        raise InputError(f"{_url(folder, name)} holds no part of vectors: write them first")
    return replace(open_flat(_url(folder, name), parts, found), origin="")


def spool_vectors(source: VectorSource, folder: Folder, name: str) -> VectorSource:
    """Write vectors from anywhere into a folder, where workers read them; messages name rows as before."""
    folder.remove(name)
    step = max(1, int(BLOCK_BYTES * source.rows / max(1, source.bytes)))
    blocks = (source.read(start, min(start + step, source.rows)) for start in range(0, source.rows, step))
    if source.sparse:
        url = _url(folder, name)
        with explained(folder.url):
            write_csr(url, blocks, (source.rows, source.dimensions), source.dtype)
            found = folder.filesystem.find(folder.at(name), detail=True)
        return replace(open_zarr(url, found), origin=source.origin)
    for number, block in enumerate(blocks):
        write_part(block, folder, name, number)
    return replace(open_parts(folder, name), origin=source.origin)


def _url(folder: Folder, name: str) -> str:
    """The path or URL of a name in a folder."""
    return f"{folder.url.rstrip('/')}/{name}"


def _checked_blocks(blocks: Iterable[Block], shape: tuple[int, int], dtype: str, name: str) -> Iterator[Any]:
    """Blocks as they are written, which must be of one kind and hold as many rows as was said."""
    written, kind = 0, None
    for block in blocks:
        sparse = sp.issparse(block)
        if kind not in (None, sparse):
            raise InputError(f"the blocks of {name} are partly sparse: make all of one kind")
        if block.ndim != 2 or block.shape[1] != shape[1] or block.dtype.name != dtype:
            raise InputError(
                f"a block of {name} is {block.dtype.name} of shape {block.shape}, not {dtype} of {shape[1]} dimensions"
            )
        kind, written = sparse, written + block.shape[0]
        little = np.dtype(dtype).newbyteorder("<")
        yield canonical(sp.csr_array(block), dtype, name) if sparse else np.ascontiguousarray(block, little)
    if written != shape[0]:
        raise InputError(f"the blocks of {name} hold {written} rows, not {shape[0]}: give as many as was said")


def _npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    """What a .npy file begins with."""
    file = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype).newbyteorder("<"))
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


def _records(block: NDArray[Any]) -> NDArray[Any]:
    """Rows with the number of their values before each."""
    records = np.empty(len(block), [("count", "<i4"), ("values", block.dtype, (block.shape[1],))])
    records["count"], records["values"] = block.shape[1], block
    return records
