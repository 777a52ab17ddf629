"""Write whole trees to files: scipy's Z, Newick, or merges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.names import PARQUET_ENDINGS
from dask_rac.base.settings import MERGE_COLUMNS
from dask_rac.files.node_names import NamesInMemory, NodeNames
from dask_rac.files.output import new_output
from dask_rac.files.tables import ROW_GROUP, merge_schema

NAME_COLUMNS = ("left_name", "right_name")
NEWICK_ENDINGS = (".nwk", ".newick", ".tree")

Kind = Literal["matrix", "newick", "merges"]
Part = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class TreeSizes:
    """How much of a tree is written at a time, which readers do not notice; tests hand over smaller sizes."""

    newick_nodes: int = 2**16
    """Nodes whose text is built at a time, about 6 MB."""
    group_merges: int = ROW_GROUP
    """The most merges per row group."""


class Walk(NamedTuple):
    """A forest in the order of Newick; nodes are numbered as in scipy's Z."""

    table: NDArray[np.float64]
    """Z, without merges at infinity."""
    parent: NDArray[np.signedinteger]
    """The merge above each node; -1 for roots."""
    order: NDArray[np.signedinteger]
    """The nodes, children before parents."""
    opens: NDArray[np.signedinteger]
    """Number of brackets that open before each leaf."""


def tree_kind(path: str | PathLike[str]) -> Kind:
    """Return what a new file is to hold, by its ending; raise if the ending is unknown."""
    name = fspath(path)
    endings: dict[Kind, tuple[str, ...]] = {"matrix": (".npy",), "newick": NEWICK_ENDINGS, "merges": PARQUET_ENDINGS}
    for kind, known in endings.items():
        if name.endswith(known):
            return kind
    raise InputError(
        f"path={name!r}: the ending must state what to write: .npy for scipy's Z, {', '.join(NEWICK_ENDINGS)} for "
        f"Newick, {', '.join(PARQUET_ENDINGS)} for the merges"
    )


def write_matrix(path: str | PathLike[str], table: NDArray[np.float64]) -> str:
    """Write an array as .npy."""
    with new_output(path) as partial, partial.filesystem.open(partial.path, "wb") as file:
        np.save(file, table)
    return fspath(path)


def write_newick(
    path: str | PathLike[str], walk: Walk, sizes: TreeSizes | None = None, names: NodeNames | None = None
) -> str:
    """Write one tree per line, some nodes at a time; leaves are nodes, or their names if there are some.

    The names are read into memory, where the tree is as well: leaves that follow each other may be anywhere among them.
    """
    step = (sizes or TreeSizes()).newick_nodes
    held = None if names is None else NamesInMemory(names.slice(0, len(names)))
    with new_output(path) as partial, partial.filesystem.open(partial.path, "wb") as file:
        for start in range(0, len(walk.order), step):
            file.write(_text(walk, walk.order[start : start + step], held))
    return fspath(path)


def _text(walk: Walk, nodes: NDArray[np.signedinteger], names: NodeNames | None) -> memoryview:
    """Return the text of consecutive nodes: opening brackets and leaf, or a closing bracket; length; separator."""
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
        pc.if_else(pa.array(leaf), _leaves(np.where(leaf, nodes, 0), names), pa.scalar(")", text)),
        pc.if_else(pa.array(lower), pa.scalar(":", text), pa.scalar(";\n", text)),
        pc.if_else(pa.array(lower), pa.array(length).cast(text), pa.scalar("", text)),
        pc.if_else(pa.array(first), pa.scalar(",", text), pa.scalar("", text)),
    )
    joined = pc.binary_join_element_wise(*pieces, pa.scalar("", text))
    _, offsets, data = joined.buffers()
    return memoryview(data)[: int(np.frombuffer(offsets, np.int64)[len(nodes)])] if data else memoryview(b"")


def _leaves(nodes: NDArray[np.signedinteger], names: NodeNames | None) -> Any:
    """Return what Newick calls nodes: their numbers, or their names in quotes, in which a quote is written twice."""
    text = pa.large_string()
    if names is None:
        return pa.array(nodes).cast(text)
    quote: Any = pa.scalar("'", text)
    doubled = pc.replace_substring(names.take(nodes), "'", "''")
    return pc.binary_join_element_wise(quote, doubled, quote, pa.scalar("", text))


def write_merge_file(
    path: str | PathLike[str],
    parts: Iterable[Part],
    sizes: TreeSizes | None = None,
    names: NodeNames | None = None,
    columns: Iterable[str] = MERGE_COLUMNS,
) -> str:
    """Write columns of merges as one Parquet file, some at a time; with `names`, these are two more columns."""
    most = (sizes or TreeSizes()).group_merges
    schema = merge_schema(columns)
    if names is not None:
        schema = pa.schema([*schema, *(pa.field(name, pa.large_string()) for name in NAME_COLUMNS)])
    with (
        new_output(path) as partial,
        partial.filesystem.open(partial.path, "wb") as file,
        pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for tables in _grouped(_slices(parts, schema, most, names), most):
            writer.write_table(pa.concat_tables(tables), row_group_size=most)
    return fspath(path)


def _slices(parts: Iterable[Part], schema: pa.Schema, most: int, names: NodeNames | None) -> Iterator[pa.Table]:
    """Yield the parts as tables of at most `most` rows, a row group."""
    for part in parts:
        for start in range(0, len(part["left"]), most):
            given = [kind for kind in schema if kind.name not in NAME_COLUMNS]
            columns = [np.asarray(part[kind.name][start : start + most], kind.type.to_pandas_dtype()) for kind in given]
            texts = [] if names is None else merged_names(columns[0], columns[1], names)
            yield pa.table([*map(pa.array, columns), *texts], schema=schema)


def merged_names(left: NDArray[Any], right: NDArray[Any], names: NodeNames) -> list[Any]:
    """Return the names of the two clusters of merges: those of their smallest nodes; both are read at once."""
    both = names.take(np.concatenate((left, right)))
    return [both.slice(0, len(left)), both.slice(len(left))]


def name_columns(left: NDArray[Any], right: NDArray[Any], names: NodeNames) -> dict[str, Any]:
    """Return the names of the two clusters of merges, as columns for pandas."""
    return {name: text.to_pandas() for name, text in zip(NAME_COLUMNS, merged_names(left, right, names), strict=True)}


def _grouped(tables: Iterable[pa.Table], most: int) -> Iterator[list[pa.Table]]:
    """Group tables until they fill a row group of `most` rows, because late rounds have few merges per file."""
    taken: list[pa.Table] = []
    rows = 0
    for table in tables:
        if rows + len(table) > most:
            yield taken
            taken, rows = [], 0
        taken.append(table)
        rows += len(table)
    if taken:
        yield taken
