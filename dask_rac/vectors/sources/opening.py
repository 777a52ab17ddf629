"""Vectors in any form users have them, in memory or on disk; no other code depends on the form.

`open_vectors` turns any of them into a `VectorSource`, which reads ranges of rows. The forms are in `memory`, `flat`
(.npy, .fvecs, .bvecs), `npz_files`, `zarr_files` and `parquet_files`; `writing` writes new files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from dask_rac.base.errors import InputError
from dask_rac.base.names import PARQUET_ENDINGS
from dask_rac.files.arrow_streams import as_table
from dask_rac.files.listing import list_files
from dask_rac.files.reading import readable
from dask_rac.vectors.sources.arrow_tables import open_table
from dask_rac.vectors.sources.flat import FLAT_ENDINGS, open_flat
from dask_rac.vectors.sources.memory import NAME, as_array, open_array, open_frame, open_matrix
from dask_rac.vectors.sources.npz_files import open_npz
from dask_rac.vectors.sources.parquet_files import open_parquet
from dask_rac.vectors.sources.source import VectorSource, check_shape, checked_dtype, in_order
from dask_rac.vectors.sources.writing import open_parts, spool_vectors, write_part, write_vectors
from dask_rac.vectors.sources.zarr_files import ZARR_FILES, open_zarr

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
    """Open vectors of any known form; raise if their shape, dtype or metadata is wrong.

    Arrays in memory are read in place, files by ranges; only a .npz of scipy is loaded whole. `columns` chooses columns
    of Parquet files and tables.
    """
    columns = [columns] if isinstance(columns, str) else columns
    if isinstance(vectors, str | PathLike):
        return _open_path(fspath(vectors), columns)
    if isinstance(vectors, pd.DataFrame):
        return open_frame(vectors, columns)
    if (table := as_table(vectors)) is not None:
        return open_table(table, columns)
    _refuse_columns(columns, NAME)
    if sp.issparse(vectors):
        return open_matrix(vectors)
    if hasattr(vectors, "__dask_graph__"):
        raise InputError(
            "Dask vectors must be an array, which is computed into a store: to_dask_array(lengths=True) turns a "
            "DataFrame into one"
        )
    zarr = sys.modules.get("zarr")
    if zarr is not None and isinstance(vectors, zarr.Array):
        root = getattr(vectors.store, "root", None)  # set for a folder on a local disk
        return open_array(vectors) if root is None else _open_path(f"{root}/{vectors.path}".rstrip("/"), None)
    if not hasattr(vectors, "__array__") and not isinstance(vectors, list | tuple):
        raise InputError(f"vectors cannot be a {type(vectors).__name__}: give an array, a sparse matrix, or {KNOWN}")
    return open_array(as_array(vectors))


def is_dask_array(vectors: Any) -> bool:
    """Whether `vectors` is a Dask array."""
    return hasattr(vectors, "__dask_graph__") and isinstance(getattr(vectors, "chunks", None), tuple)


def whole_rows(array: Any) -> Any:
    """Check a Dask array and return it with blocks of whole rows."""
    if array.ndim == 2 and np.isnan(np.array(array.shape, np.float64)).any():
        raise InputError(f"{NAME} are a Dask array with chunks of unknown size: call compute_chunk_sizes() first")
    check_shape(array.shape, NAME)
    checked_dtype(array.dtype, NAME)
    if sp.issparse(getattr(array, "_meta", None)):
        raise InputError(f"{NAME} are a Dask array of sparse blocks: use map_blocks(lambda block: block.toarray())")
    return array if len(array.chunks[1]) == 1 else array.rechunk({1: -1})


def _open_path(name: str, columns: Sequence[str] | None) -> VectorSource:
    """Open the vectors at a path or URL."""
    if not name:
        raise InputError(f"vectors='' is not a path: give {KNOWN}")
    with readable(name):
        return _open_found(name, columns)


def _open_found(name: str, columns: Sequence[str] | None) -> VectorSource:
    """Open the vectors at a path that exists."""
    root, infos = list_files(name, f"give {KNOWN}")
    parquet = in_order(file for file in infos if file.endswith(PARQUET_ENDINGS))
    zarr = any(f"{root}/{file}" in infos for file in ZARR_FILES)
    if parquet and not zarr:
        if any(file.endswith(".npy") for file in infos):
            raise InputError(f"{name} holds both Parquet ({parquet[0]}) and .npy files: use a separate folder for each")
        return open_parquet(name, parquet, infos, columns)
    _refuse_columns(columns, name)
    if zarr:
        return open_zarr(name, infos)
    if root in infos and root.endswith(".npz"):
        return open_npz(name, root, infos[root])
    endings = FLAT_ENDINGS if root in infos else (".npy",)
    files = in_order(file for file in infos if file.endswith(endings))
    if not files:
        raise InputError(f"{name} holds no vectors in a known format: give {KNOWN}")
    return open_flat(name, files, infos)


def _refuse_columns(columns: Sequence[str] | None, what: str) -> None:
    """Raise if `columns` was given for a form without columns."""
    if columns is not None:
        raise InputError(f"columns= chooses columns of Parquet files and tables: leave it out for {what}")
