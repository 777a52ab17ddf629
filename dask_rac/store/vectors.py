"""Vectors as users have them, in memory or on disk: the only place that knows how they lie there.

`open_vectors` makes a `VectorSource` of any of them, which reads ranges of rows. The forms: `vector_memory`,
`vector_files` (.npy, .fvecs, .bvecs), `vector_zarr`, `vector_parquet`; new files come from `vector_writers`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from hashlib import sha256
from os import PathLike, fspath
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd
import scipy.sparse as sp

from dask_rac.errors import InputError
from dask_rac.store.edges import INCOMPLETE, PARQUET_ENDINGS
from dask_rac.store.urls import explained, locate
from dask_rac.store.vector_files import FLAT_ENDINGS, open_flat
from dask_rac.store.vector_memory import NAME, as_array, open_array, open_frame, open_matrix
from dask_rac.store.vector_parquet import open_parquet
from dask_rac.store.vector_source import VectorSource, check_shape, checked_dtype, in_order, stamp
from dask_rac.store.vector_writers import open_parts, spool_vectors, write_part, write_vectors
from dask_rac.store.vector_zarr import ZARR_FILES, open_zarr

__all__ = [
    "VectorSource",
    "is_dask_array",
    "open_parts",
    "open_vectors",
    "spool_vectors",
    "whole_rows",
    "write_part",
    "write_vectors",
]

KNOWN = (
    f"a file that ends in {', '.join((*FLAT_ENDINGS, '.npz', *PARQUET_ENDINGS))}, a folder of .npy or Parquet files, a "
    "Zarr array, or a Zarr group with the arrays data, indices and indptr of a CSR matrix"
)


def open_vectors(vectors: Any, columns: Sequence[str] | None = None) -> VectorSource:
    """Vectors of any known form, refused here if what they say of themselves is wrong.

    Arrays in memory are read where they lie, files by ranges; only a .npz of scipy is loaded whole. `columns` chooses
    columns of Parquet files and of DataFrames.
    """
    columns = [columns] if isinstance(columns, str) else columns
    if isinstance(vectors, str | PathLike):
        return _open_path(fspath(vectors), columns)
    if isinstance(vectors, pd.DataFrame):
        return open_frame(vectors, columns)
    _refuse_columns(columns, NAME)
    if sp.issparse(vectors):
        return open_matrix(vectors)
    if hasattr(vectors, "__dask_graph__"):
        raise InputError(
            "vectors of Dask must be an array, which is computed into a store: to_dask_array(lengths=True) makes one "
            "of a DataFrame"
        )
    zarr = sys.modules.get("zarr")
    if zarr is not None and isinstance(vectors, zarr.Array):
        root = getattr(vectors.store, "root", None)  # of a folder on a local disk
        return open_array(vectors) if root is None else _open_path(f"{root}/{vectors.path}".rstrip("/"), None)
    if not hasattr(vectors, "__array__") and not isinstance(vectors, list | tuple):
        raise InputError(f"vectors cannot be a {type(vectors).__name__}: give an array, a sparse matrix, or {KNOWN}")
    return open_array(as_array(vectors))


def is_dask_array(vectors: Any) -> bool:
    """Whether `vectors` is a Dask array."""
    return hasattr(vectors, "__dask_graph__") and isinstance(getattr(vectors, "chunks", None), tuple)


def whole_rows(array: Any) -> Any:
    """A Dask array, checked, whose blocks are whole rows."""
    if array.ndim == 2 and np.isnan(np.array(array.shape, np.float64)).any():
        raise InputError(f"{NAME} are a Dask array with chunks of unknown size: call compute_chunk_sizes() first")
    check_shape(array.shape, NAME)
    checked_dtype(array.dtype, NAME)
    if sp.issparse(getattr(array, "_meta", None)):
        raise InputError(f"{NAME} are a Dask array of sparse blocks: use map_blocks(lambda block: block.toarray())")
    return array if len(array.chunks[1]) == 1 else array.rechunk({1: -1})


def _open_path(name: str, columns: Sequence[str] | None) -> VectorSource:
    """The vectors at a path or URL."""
    if not name:
        raise InputError(f"vectors='' is no path: give {KNOWN}")
    try:
        return _open_found(name, columns)
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error}; see that this process may read it") from error


def _open_found(name: str, columns: Sequence[str] | None) -> VectorSource:
    """The vectors in what lies at a path."""
    filesystem, root = locate(name)
    root = root.rstrip("/") or root
    found = _listed(name, filesystem, root)
    if f"{root}/{INCOMPLETE}" in found:
        raise InputError(
            f"{name} is not complete: it is still being written, or left of a run that was killed; delete it then"
        )
    parquet = in_order(file for file in found if file.endswith(PARQUET_ENDINGS))
    zarr = any(f"{root}/{file}" in found for file in ZARR_FILES)
    if parquet and not zarr:
        if any(file.endswith(".npy") for file in found):
            raise InputError(f"{name} holds both Parquet ({parquet[0]}) and .npy files: give one folder of each")
        return open_parquet(name, parquet, found, columns)
    _refuse_columns(columns, name)
    if zarr:
        return open_zarr(name, found)
    if root in found and root.endswith(".npz"):
        return _open_npz(name, filesystem, root, found[root])
    endings = FLAT_ENDINGS if root in found else (".npy",)
    files = in_order(file for file in found if file.endswith(endings))
    if not files:
        raise InputError(f"{name} holds no vectors of a known form: give {KNOWN}")
    return open_flat(name, files, found)


def _open_npz(name: str, filesystem: Any, path: str, info: dict[str, Any]) -> VectorSource:
    """The sparse matrix that scipy saved in a file, loaded whole."""
    try:
        with explained(name, InputError), filesystem.open(path, "rb") as file:
            matrix = sp.load_npz(file)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, BadZipFile, EOFError) as error:
        raise InputError(
            f"{name} holds no matrix of scipy.sparse.save_npz, or is damaged: save sparse vectors so, and dense ones "
            "with numpy.save"
        ) from error
    return open_matrix(matrix, name, sha256(json.dumps([int(info["size"]), stamp(info)]).encode()).hexdigest())


def _refuse_columns(columns: Sequence[str] | None, what: str) -> None:
    """Raise if columns were chosen where there are none to choose from."""
    if columns is not None:
        raise InputError(f"columns= chooses columns of Parquet files and DataFrames: leave it out for {what}")


def _listed(name: str, filesystem: Any, root: str) -> dict[str, Any]:
    """What is known of the file at a path, or of all files below it."""
    try:
        with explained(name, InputError):
            info = filesystem.info(root)
            found: dict[str, Any] = {root: info} if info["type"] == "file" else filesystem.find(root, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{name} does not exist: give {KNOWN}") from None
    return found
