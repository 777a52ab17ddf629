"""Sparse vectors in the .npz of scipy, which is loaded whole; every size in it is checked before memory is taken."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import scipy.sparse as sp

from dask_rac.base.errors import InputError, ResourceError
from dask_rac.base.text import size_text
from dask_rac.files.npy import HEAD, read_header
from dask_rac.files.reading import readable
from dask_rac.files.stamps import stamp
from dask_rac.files.urls import locate
from dask_rac.tasks.machine import memory_limit
from dask_rac.vectors.sources.memory import MatrixSource, open_matrix

AGAIN = "write it again, sparse vectors with scipy.sparse.save_npz, dense ones as .npy with numpy.save"
RATIO = 1032  # bytes per compressed byte: deflate gives no more
SLACK = 2**10
WHOLE = frozenset({"row.npy", "col.npy", "indices.npy", "indptr.npy", "offsets.npy", "shape.npy"})
"""Arrays of integers: scipy would round other numbers down."""


def open_npz(name: str, path: str, info: dict[str, Any]) -> MatrixSource:
    """Load the sparse matrix that scipy saved in a file."""
    with readable(name, ".npz of scipy", remedy=AGAIN), locate(name)[0].open(path, "rb") as file:
        with ZipFile(file) as bundle:
            _check_members(bundle, name)
        file.seek(0)
        matrix = sp.load_npz(file)
    return open_matrix(matrix, name, sha256(json.dumps([int(info["size"]), stamp(info)]).encode()).hexdigest())


def _check_members(bundle: ZipFile, name: str) -> None:
    """Raise unless every array in the file has the size that its header states, and all fit into memory."""
    members = bundle.infolist()
    if len({member.filename for member in members}) < len(members):
        raise InputError(f"{name} has two arrays of the same name: {AGAIN}")
    total = sum(member.file_size for member in members)
    for member in members:
        _check_member(bundle, member, f"{member.filename} in {name}")
    if total > memory_limit():
        raise ResourceError(
            f"{name} takes {size_text(total)} of memory, and there are {size_text(memory_limit())}: store the matrix "
            "as a Zarr group of data, indices and indptr, which is read in pieces"
        )


def _check_member(bundle: ZipFile, member: ZipInfo, shown: str) -> None:
    """Raise unless an array has the size that its header states."""
    possible = {ZIP_STORED: member.compress_size, ZIP_DEFLATED: RATIO * member.compress_size + SLACK}
    if member.file_size > possible.get(member.compress_type, 0):
        raise InputError(
            f"{shown} claims to have {member.file_size} bytes, more than its {member.compress_size} compressed bytes "
            f"can hold: {AGAIN}"
        )
    with bundle.open(member) as file:
        header = read_header(file.read(HEAD), shown)
    if header.dtype.hasobject:
        raise InputError(f"{shown} holds Python objects, which are never loaded: {AGAIN}")
    if member.filename in WHOLE and header.dtype.kind not in "iu":
        raise InputError(f"{shown} holds {header.dtype} instead of integers: {AGAIN}")
    if header.size != member.file_size:
        raise InputError(f"{shown} has {member.file_size} bytes, and its header states {header.size}: {AGAIN}")
