"""Columns of delimited text, many lines at a time."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

from dask_rac.errors import InputError, Where, refuse_nulls, refuse_rows

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None, ".edges": None, ".el": None}
COMPRESSIONS: dict[str, Literal["gzip", "bz2", "zstd"]] = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
TEXT_ENDINGS = tuple(kind + packed for kind in DELIMITERS for packed in ("", *COMPRESSIONS))

SNIFFED = "\t,;| "  # what may divide columns; the first that a line has does
BLANK = " "  # stands for any run of spaces and tabs
COMMENTS = (b"#", b"%")
MARK = b"\xef\xbb\xbf"  # that some programs begin UTF-8 with
BLOCK = 2**22  # bytes read at a time; more would only be slower, as it must come new from the system
PIECE = 2**20  # bytes that a thread parses at a time
NUMBER = r"(?i)^\s*[-+]?(\d+\.?\d*(e[-+]?\d+)?|\.\d+(e[-+]?\d+)?|inf|infinity|nan)\s*$"

Column = str | int
Arrays = list[NDArray[Any]]


@dataclass(frozen=True)
class Layout:
    """Which columns are wanted, and how lines of text are read."""

    columns: tuple[Column, ...]
    """Names, or numbers from 0; source, target, and weight if there is one."""
    delimiter: str | None
    """None for what the name says, or the first line; a space for any run of spaces and tabs."""
    header: bool
    """Whether the first line holds names."""


@dataclass(frozen=True)
class Text:
    """What the first line of a file has shown."""

    path: str
    delimiter: str
    width: int
    """Columns of every line."""
    picked: tuple[int, ...]
    """Those wanted."""
    names: tuple[Column, ...]
    """What the user calls them."""


def read_text(filesystem: Any, path: str, layout: Layout) -> Iterator[tuple[Arrays, Where]]:
    """The wanted columns of a file, many lines at a time, and where each row is."""
    blocks = _blocks(filesystem, path)
    block, line = _skip_comments(blocks)
    head, _, rest = block.partition(b"\n")
    text = _begin(path, head.decode(errors="replace").rstrip("\r"), layout)
    if layout.header:
        block, line = rest, line + 1
    for lines in chain((block,), blocks):
        if lines and not lines.isspace():
            yield _parse(text, lines, line)
        line += lines.count(b"\n")


def _blocks(filesystem: Any, path: str) -> Iterator[bytes]:
    """The contents of a file, some whole lines at a time."""
    compression = next((codec for ending, codec in COMPRESSIONS.items() if path.endswith(ending)), None)
    rest = b""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(filesystem.open(path, "rb"))
            if compression:
                file = stack.enter_context(pa.CompressedInputStream(file, compression))
            while data := file.read(BLOCK):
                stop = data.rfind(b"\n") + 1
                if stop:
                    yield rest + data[:stop]
                    rest = b""
                rest += data[stop:]
                if len(rest) > BLOCK:
                    raise InputError(f"{path} has a line of more than {BLOCK} bytes: it is no edge list, or not text")
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} cannot be read: {error}; write it anew") from error
    if rest:
        yield rest


def _skip_comments(blocks: Iterator[bytes]) -> tuple[bytes, int]:
    """What follows the lines of comment, and the number of its first line; empty lines are skipped, too."""
    line = 1
    for block in blocks:
        start = len(MARK) if line == 1 and block.startswith(MARK) else 0
        while start < len(block):
            stop = block.find(b"\n", start) + 1 or len(block)
            if (content := block[start:stop].strip()) and not content.startswith(COMMENTS):
                return block[start:], line
            start, line = stop, line + 1
    return b"", line


def _begin(path: str, line: str, layout: Layout) -> Text:
    """What the first line shows."""
    if layout.header and not line:
        raise InputError(f"{path} has no header: if it is to have no edges, remove it")
    delimiter = layout.delimiter or _named_delimiter(path) or next((mark for mark in SNIFFED if mark in line), BLANK)
    if delimiter == BLANK:
        fields = line.split()
    else:
        fields = [field.strip() for field in next(csv.reader([line], delimiter=delimiter), [])]
    picked = tuple(_pick(column, fields, path, layout) for column in layout.columns) if line else ()
    return Text(path, delimiter, len(fields), picked, layout.columns)


def _named_delimiter(path: str) -> str | None:
    """The delimiter that a name tells."""
    return next((mark for kind, mark in DELIMITERS.items() for end in ("", *COMPRESSIONS) if path.endswith(kind + end)))


def _pick(column: Column, fields: list[str], path: str, layout: Layout) -> int:
    """The number of a column."""
    if isinstance(column, int):
        if column >= len(fields):
            raise InputError(
                f"{path} has no column {column}: its first line has {len(fields)}, numbered from 0; say which with "
                f"columns=, or delimiter= if they are not divided by {layout.delimiter or 'what its name tells'!r}"
            )
        return column
    if not layout.header:
        raise InputError(
            f"column {column!r} cannot be found without a header: give numbers from 0, as columns=(0, 1, 2)"
        )
    if fields.count(column) != 1:
        some = f"{fields.count(column)} columns" if column in fields else "no column"
        raise InputError(
            f"{path} has {some} {column!r}: its first line is {', '.join(map(repr, fields))}; say which with columns=, "
            "numbers from 0 or names, with header=False if these are no names, and delimiter= if they are not divided; "
            "columns=(..., ..., None) gives all edges the weight 1"
        )
    return fields.index(column)


def _parse(text: Text, block: bytes, line: int) -> tuple[Arrays, Where]:
    """Lines as columns, and where each row is; `line` is the number of the first."""
    if text.delimiter == BLANK:
        block = _squeezed(block)

    def where(row: int) -> str:
        return f"line {line + _filled_lines(block)[row]} of {text.path}"

    for ids in (pa.int64(), pa.float64()):  # some programs write ids as 17.0
        try:
            kinds = dict(zip(map(str, text.picked), (ids, ids, pa.float64()), strict=False))
            table = _convert(text, block, kinds)
        except pa.ArrowInvalid as error:
            fault = error
        else:
            return _filled_columns(text, table, where), where
    _refuse_lines(text, block, where)
    raise InputError(f"{text.path} cannot be read from line {line} on: {fault}") from fault


def _squeezed(block: bytes) -> bytes:
    """Lines with one space wherever there were spaces and tabs, and none at their ends."""
    block = block.replace(b"\t", b" ")
    while b"  " in block:
        block = block.replace(b"  ", b" ")
    return block.replace(b" \r\n", b"\n").replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")


def _convert(text: Text, block: bytes, kinds: Mapping[str, pa.DataType], **options: Any) -> pa.Table:
    """The wanted columns, named by their numbers."""
    reading = {"block_size": PIECE, "use_threads": True} | options.pop("reading", {})
    return read_csv(
        BytesIO(block),
        ReadOptions(column_names=[str(number) for number in range(text.width)], **reading),
        ParseOptions(delimiter=text.delimiter, **options),
        ConvertOptions(include_columns=list(kinds), column_types=dict(kinds)),
    )


def _filled_columns(text: Text, table: pa.Table, where: Where) -> Arrays:
    """Columns as arrays; a null is an error."""
    for name, column in zip(text.names, table.columns, strict=True):
        if column.null_count:
            refuse_nulls(column.is_null().to_numpy(), str(name), where)
    return [column.to_numpy() for column in table.columns]


def _filled_lines(block: bytes) -> NDArray[np.intp]:
    """Which lines of a block are rows; empty ones are not."""
    return np.flatnonzero([bool(line.rstrip(b"\r")) for line in block.split(b"\n")])


def _refuse_lines(text: Text, block: bytes, where: Where) -> None:
    """Raise for the first line of the wrong length, or the first value that is no number."""
    ragged = []

    def note(row: Any) -> str:
        ragged.append(row)
        return "skip"

    whole = {"block_size": len(block) + 1, "use_threads": False}  # or rows would not be numbered
    wanted = dict.fromkeys(map(str, text.picked), pa.binary())
    table = _convert(text, block, wanted, reading=whole, invalid_row_handler=note)
    if ragged:
        raise InputError(
            f"{where(ragged[0].number - 1)} has {ragged[0].actual_columns} columns and the first line has "
            f"{text.width}, divided by {text.delimiter!r}: mend it, or say what divides them with delimiter="
        )
    remedies = ("number the nodes 0, 1, 2, ...",) * 2 + ("mend or drop these edges",)
    for name, column, remedy in zip(text.names, table.columns, remedies, strict=False):
        bad = pc.invert(pc.match_substring_regex(column, NUMBER)).to_numpy()
        value = column[int(bad.argmax())].as_py().decode(errors="replace")
        refuse_rows(bad, str(name), f"{value!r}, no number,", remedy, where)
