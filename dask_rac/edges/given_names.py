"""Names that users give to numbered nodes and to vectors: sequences, columns, the index of a DataFrame, or a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dask_rac.base.errors import InputError, refuse_nulls
from dask_rac.base.names import PARQUET_ENDINGS
from dask_rac.edges.numbering import TEXT, check_text, is_text
from dask_rac.edges.text import MARK, line_blocks
from dask_rac.files.node_names import NamesInMemory, NodeNames
from dask_rac.files.reading import readable
from dask_rac.files.urls import locate

NAME_COLUMN = "name"
KNOWN = "a sequence or column of text, or the path of a text file with one name per line or of a Parquet file"
BATCH_NAMES = 2**16
BLOCK_BYTES = 2**22


@dataclass(frozen=True)
class GivenNames:
    """Names for the nodes 0, 1, 2, ..., which may be larger than memory."""

    count: int
    batches: Callable[[], Iterator[Any]]
    """Reads them, some at a time, as Arrow arrays of large strings."""
    what: str = "names="
    """What gave them, for messages."""

    def in_memory(self) -> NamesInMemory:
        """Return all of them."""
        return NamesInMemory(pa.concat_arrays([pa.array([], TEXT), *self.batches()]))

    def check_count(self, nodes: int | None, of: str = "nodes") -> None:
        """Raise if there is not exactly one name for each of some nodes, where their number is known."""
        if nodes is not None and nodes != self.count:
            raise InputError(f"{self.what} has {self.count:,} names for {nodes:,} {of}: give one name for each")


class NameList(list[str]):
    """Names among the attributes of a DataFrame, which copies all it has for every operation; these are shared."""

    def __deepcopy__(self, memo: Any) -> NameList:
        return self


def open_names(names: Any) -> GivenNames:
    """Return names in any form that users have them; raise if one is null or not text."""
    if isinstance(names, NodeNames):
        return GivenNames(len(names), names.batches)
    if isinstance(names, str | PathLike):
        return _open_file(fspath(names))
    return _held(_texts(names), "names=")


def index_names(vectors: Any) -> GivenNames | None:
    """Return the names in the index of a DataFrame of vectors, None if it only counts the rows."""
    if not isinstance(vectors, pd.DataFrame):
        return None
    index = vectors.index
    if isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1:
        return None
    if index.nlevels > 1 or index.hasnans or pd.api.types.infer_dtype(index) not in ("string", "integer"):
        index = pd.Index([*map(str, index)], dtype=object)
    return _held(_texts(index), "the index")


def _held(names: Any, what: str) -> GivenNames:
    """Return names that are in memory."""
    return GivenNames(len(names), partial(iter, [names]), what)


def _texts(names: Any) -> Any:
    """Return names as an Arrow array of large strings."""
    column = _arrow(names)
    if column.null_count:
        refuse_nulls(column.is_null().to_numpy(zero_copy_only=False), "names", lambda row: f"place {row}")
    if not (is_text(column.type) or pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise InputError(f"names= are {column.type}, not text: give {KNOWN}")
    found = column.cast(TEXT)
    found = pa.concat_arrays([pa.array([], TEXT), *found.chunks]) if isinstance(found, pa.ChunkedArray) else found
    check_text(found)
    return found


def _arrow(names: Any) -> Any:
    """Return names as Arrow has them."""
    if isinstance(names, pa.Table):
        names = names.column(_name_column(names.schema.names))
    if isinstance(names, pa.Array | pa.ChunkedArray):
        return names
    if hasattr(names, "__arrow_c_stream__") and not isinstance(names, pd.Series | pd.DataFrame):
        return pa.chunked_array(names)
    if isinstance(names, np.ndarray | list | tuple | pd.Series | pd.Index):
        array = np.asarray(names, object if isinstance(names, list | tuple) else None)
        if array.ndim == 1:
            try:
                return pa.array(names if isinstance(names, pd.Series | pd.Index) else array, from_pandas=True)
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                raise InputError(f"names= are not all text: {error}; give {KNOWN}") from error
    raise InputError(f"names= cannot be a {type(names).__name__}: give {KNOWN}")


def _name_column(columns: list[str]) -> str:
    """Return the column that holds names: the one called so, or the first."""
    if not columns:
        raise InputError(f"names= has no column: give {KNOWN}")
    return NAME_COLUMN if NAME_COLUMN in columns else columns[0]


def _open_file(path: str) -> GivenNames:
    """Open names in a file, which is read some at a time."""
    if not path:
        raise InputError(f"names='' is not a path: give {KNOWN}")
    filesystem, root = locate(path)
    with readable(path):
        if not filesystem.exists(root):
            raise InputError(f"names={path!r} does not exist: give {KNOWN}")
        if filesystem.isdir(root):
            raise InputError(f"names={path!r} is a folder: give one file, text or Parquet")
    if not path.endswith(PARQUET_ENDINGS):
        count = sum(len(names) for names in _read_lines(filesystem, root))
        return GivenNames(count, partial(_read_lines, filesystem, root), path)
    with readable(path, "Parquet"), filesystem.open(root, "rb") as file:
        count = pq.ParquetFile(file).metadata.num_rows
    return GivenNames(count, partial(_read_parquet, filesystem, root), path)


def _read_lines(filesystem: Any, path: str) -> Iterator[Any]:
    """Yield the lines of a text file."""
    first = 1
    for number, block in enumerate(line_blocks(filesystem, path, BLOCK_BYTES)):
        text = block.removeprefix(MARK) if not number else block
        try:
            lines = text.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            line = first + text.count(b"\n", 0, error.start)
            raise InputError(f"line {line} of {path} is not UTF-8: write the names as UTF-8") from error
        yield pa.array(lines, TEXT)
        first += len(lines)


def _read_parquet(filesystem: Any, path: str) -> Iterator[Any]:
    """Yield the names in a Parquet file."""
    with readable(path, "Parquet"), filesystem.open(path, "rb") as file:
        parquet = pq.ParquetFile(file, pre_buffer=False, buffer_size=2**20, page_checksum_verification=True)
        column = _name_column(parquet.schema_arrow.names)
        for batch in parquet.iter_batches(BATCH_NAMES, columns=[column], use_threads=False):
            yield _texts(batch.column(0))
