"""Files of whole trees: scipy's Z, Newick, merges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike, fspath
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dask_rac.config import MERGE_COLUMNS
from dask_rac.errors import InputError
from dask_rac.store.edges import PARQUET_ENDINGS
from dask_rac.store.output import new_output
from dask_rac.store.tables import MERGE_TYPES, ROW_GROUP

NEWICK_ENDINGS = (".nwk", ".newick", ".tree")
BLOCK = 2**16  # nodes whose text is made at once, some 6 MB
TYPED_COLUMNS = tuple((name, np.dtype(kind)) for name, kind in zip(MERGE_COLUMNS, MERGE_TYPES, strict=True))

Kind = Literal["matrix", "newick", "merges"]
Part = Mapping[str, NDArray[Any]]


class Walk(NamedTuple):
    """A forest as Newick writes it; nodes are numbered as in scipy's Z."""

    table: NDArray[np.float64]
    """Z, without merges at infinity."""
    parent: NDArray[np.signedinteger]
    """The merge above each node, -1 above the roots."""
    order: NDArray[np.signedinteger]
    """The nodes, each after those below it."""
    opens: NDArray[np.signedinteger]
    """How many brackets open before each leaf."""


def tree_kind(path: str | PathLike[str]) -> Kind:
    """What the name of a new file says it shall hold; raises if it says nothing."""
    name = fspath(path)
    endings: dict[Kind, tuple[str, ...]] = {"matrix": (".npy",), "newick": NEWICK_ENDINGS, "merges": PARQUET_ENDINGS}
    for kind, known in endings.items():
        if name.endswith(known):
            return kind
    raise InputError(
        f"path={name!r}: the name must say what is written: .npy scipy's Z, {', '.join(NEWICK_ENDINGS)} Newick, "
        f"{', '.join(PARQUET_ENDINGS)} the merges"
    )


def write_matrix(path: str | PathLike[str], table: NDArray[np.float64]) -> str:
    """Write an array for numpy.load."""
    with new_output(path) as partial, partial.filesystem.open(partial.path, "wb") as file:
        np.save(file, table)
    return fspath(path)


def write_newick(path: str | PathLike[str], walk: Walk) -> str:
    """Write a tree a line, some nodes at a time."""
    with new_output(path) as partial, partial.filesystem.open(partial.path, "wb") as file:
        for start in range(0, len(walk.order), BLOCK):
            file.write(_text(walk, walk.order[start : start + BLOCK]))
    return fspath(path)


def _text(walk: Walk, nodes: NDArray[np.signedinteger]) -> memoryview:
    """The text of consecutive nodes: what opens before a leaf and its id, or what closes; length; what divides."""
    n = len(walk.parent) - len(walk.table)
    above = walk.parent[nodes] - n
    leaf, lower = nodes < n, above >= 0
    length, first = np.zeros(len(nodes)), np.zeros(len(nodes), np.bool_)
    length[~leaf] = -walk.table[nodes[~leaf] - n, 2]
    length[lower] += walk.table[above[lower], 2]
    first[lower] = walk.table[above[lower], 0] == nodes[lower]
    opens: Any = pa.array(np.where(leaf, walk.opens[nodes], 0))
    text = pa.large_string()
    pieces = (
        pc.binary_repeat(pa.scalar("(", text), opens),
        pc.if_else(pa.array(leaf), pa.array(nodes).cast(text), pa.scalar(")", text)),
        pc.if_else(pa.array(lower), pa.scalar(":", text), pa.scalar(";\n", text)),
        pc.if_else(pa.array(lower), pa.array(length).cast(text), pa.scalar("", text)),
        pc.if_else(pa.array(first), pa.scalar(",", text), pa.scalar("", text)),
    )
    joined = pc.binary_join_element_wise(*pieces, pa.scalar("", text))
    _, offsets, data = joined.buffers()
    return memoryview(data)[: int(np.frombuffer(offsets, np.int64)[len(nodes)])] if data else memoryview(b"")


def write_merge_file(path: str | PathLike[str], parts: Iterable[Part]) -> str:
    """Write merges as one Parquet file, some at a time."""
    schema = pa.schema([(name, pa.from_numpy_dtype(kind)) for name, kind in TYPED_COLUMNS])
    with (
        new_output(path) as partial,
        partial.filesystem.open(partial.path, "wb") as file,
        pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for tables in _grouped(_slices(parts, schema)):
            writer.write_table(pa.concat_tables(tables), row_group_size=ROW_GROUP)
    return fspath(path)


def _slices(parts: Iterable[Part], schema: pa.Schema) -> Iterator[pa.Table]:
    """The parts as tables, none larger than a row group."""
    for part in parts:
        for start in range(0, len(part["left"]), ROW_GROUP):
            some = (np.asarray(part[name][start : start + ROW_GROUP], kind) for name, kind in TYPED_COLUMNS)
            yield pa.table([pa.array(column) for column in some], schema=schema)


def _grouped(tables: Iterable[pa.Table]) -> Iterator[list[pa.Table]]:
    """Tables until they fill a row group: late rounds have few merges in a file."""
    taken: list[pa.Table] = []
    rows = 0
    for table in tables:
        if rows + len(table) > ROW_GROUP:
            yield taken
            taken, rows = [], 0
        taken.append(table)
        rows += len(table)
    if taken:
        yield taken
