"""Columns of rows, clusters and merges as they are on disk: packed when written, unpacked when read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.names import merges_name
from dask_rac.base.spans import batches
from dask_rac.engines.rows.receipts import Job
from dask_rac.files.arrays import array_dtype, read_array
from dask_rac.files.buffers import REQUEST
from dask_rac.files.folder import Folder
from dask_rac.files.readers import Read
from dask_rac.files.tables import TableRecord, write_merges
from dask_rac.kernels.arrays import Ends, Ids, Merges, Rows
from dask_rac.kernels.rows import pack
from dask_rac.store.manifest import ShardRecord
from dask_rac.tasks.cache import kept

UNPACKED = 2**20  # weights joined at a time
ENTRY_COLUMNS = "neighbour", "weight", "weight_high", "weight_middle", "tie", "edges"


def store_rows(job: Job, rows: Rows, entries: int, spare: Rows) -> dict[str, NDArray[Any]]:
    """Return the first entries of folded rows as stored on disk: weights packed, counts in as few bytes as possible.

    `spare` is what they were folded from, and is overwritten.
    """
    columns = {name: getattr(rows, name)[:entries] for name in job.columns(1)}
    if "edges" in columns:
        columns["edges"] = columns["edges"].astype(np.min_scalar_type(columns["edges"].max(initial=0)))
    return columns | pack_weights(columns.pop("weight"), spare.neighbour.view(np.uint32), spare.tie)


def pack_weights(
    weight: NDArray[np.float64], high: NDArray[np.uint32], middle: NDArray[np.uint16]
) -> dict[str, NDArray[Any]]:
    """Return weights as stored on disk: split in two, in the given arrays, if the lowest bits of all are zero."""
    bits = weight.view(np.uint64)
    if pack.low_bits(bits):
        return {"weight": weight}
    high, middle = high[: len(weight)], middle[: len(weight)]
    pack.split_weights(bits, high, middle)
    return {"weight_high": high, "weight_middle": middle}


def column_read(
    store: Folder, group: str, column: str, disk: Sequence[str], span: tuple[int, int], out: NDArray[Any]
) -> Read:
    """Return what reads entries of a column of rows."""
    converted = len(out) * array_dtype(store, f"{group}/edges").itemsize if column == "edges" else 0
    return Read(min(out.nbytes, REQUEST) + converted, lambda: load_column(store, group, column, disk, span, out))


def load_column(
    store: Folder, group: str, column: str, disk: Sequence[str], span: tuple[int, int], out: NDArray[Any]
) -> None:
    """Read entries of a column of rows, unpacked; `disk` names the columns that are stored."""
    if column == "edges":
        out[:] = read_array(store, f"{group}/edges", *span)
    elif column in disk:
        read_array(store, f"{group}/{column}", *span, out)
    else:
        for start, stop in batches(*span, UNPACKED):
            high = read_array(store, f"{group}/weight_high", start, stop)
            middle = read_array(store, f"{group}/weight_middle", start, stop)
            pack.join_weights(high, middle, out[start - span[0] : stop - span[0]].view(np.uint64))


def unpack_columns(stored: dict[str, NDArray[Any]], out: dict[str, NDArray[Any]]) -> None:
    """Fill in the columns of entries that are stored in another form."""
    if "weight_high" in stored and len(stored["weight_high"]):
        pack.join_weights(stored["weight_high"], stored["weight_middle"], out["weight"].view(np.uint64))
    for name in stored.keys() & out.keys():
        if stored[name].dtype != out[name].dtype:
            out[name][:] = stored[name]


def write_round(
    job: Job,
    number: int,
    merges: Merges,
    round_: int | NDArray[np.int32],
    ends: Ends | None = None,
    ratio: NDArray[np.float64] | None = None,
) -> TableRecord:
    """Write merges whose heights have been raised, with the sign of the user's weights."""
    height = job.settings.sign * merges.height + 0.0  # no minus zero
    rounds = np.broadcast_to(np.int32(round_) if isinstance(round_, int) else round_, height.shape)
    name = merges_name(job.attempt, number)
    return write_merges(job.store, name, (merges.left, merges.right, height, merges.size, rounds), ends, ratio)


def node_vectors(job: Job) -> tuple[Ids, Ids]:
    """Return the ids and sizes of all nodes; computed once per process."""

    def make() -> tuple[Ids, Ids]:
        return np.arange(job.nodes, dtype=job.ids), np.ones(job.nodes, job.ids)

    return kept("fates", ("nodes", job.nodes, job.ids), make)


def row_lengths(rows: Rows, ids: str) -> Ids:
    """Return the number of entries of each row."""
    length: Ids = np.empty(len(rows.start), ids)
    np.subtract(rows.stop, rows.start, out=length, casting="same_kind")
    return length


def entry_columns(shard: ShardRecord) -> tuple[str, ...]:
    """Return the columns of entries that a shard has on disk."""
    there = {file.name.rpartition("/")[2] for file in shard.files}
    return tuple(name for name in ENTRY_COLUMNS if name in there)
