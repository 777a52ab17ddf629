"""Read columns of delimited text, many lines at a time."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import chain
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

from dask_rac.base.errors import InputError, Where, refuse_nulls, refuse_rows
from dask_rac.base.text import listed, short
from dask_rac.edges.numbering import TEXT, as_text
from dask_rac.files.reading import readable

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None, ".edges": None, ".el": None}
COMPRESSIONS: dict[str, Literal["gzip", "bz2", "zstd"]] = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
TEXT_ENDINGS = tuple(kind + packed for kind in DELIMITERS for packed in ("", *COMPRESSIONS))

SNIFFED = "\t,;| "  # possible delimiters; the first one that occurs in the line is used
BLANK = " "  # stands for any run of spaces and tabs
COMMENTS = (b"#", b"%")
MARK = b"\xef\xbb\xbf"  # the byte order mark with which some programs begin UTF-8
UNKNOWN = "\ufffd"  # what stands for bytes that are not UTF-8
NUMBER = r"(?i)^\s*[-+]?(\d+\.?\d*(e[-+]?\d+)?|\.\d+(e[-+]?\d+)?|inf|infinity|nan)\s*$"

Column = str | int
Arrays = list[Any]
"""Columns: arrays of numpy, and Arrow arrays of large strings for ids that are text."""
Part = Callable[[], tuple[Arrays, Where]]
"""Reads some rows: their columns, and a function that locates a row."""


class TextIdsError(InputError):
    """An id is not a number, so that all are names."""

    mixed: bool = False
    """Whether others are numbers."""


@dataclass(frozen=True)
class TextLayout:
    """Which columns to read, and how lines of text are parsed."""

    columns: tuple[Column, ...]
    """Names, or numbers from 0: source, target, and weight if there is one."""
    delimiter: str | None
    """None to detect it from the file name or the first line; a space for any run of spaces and tabs."""
    header: bool
    """Whether the first line holds names."""


@dataclass(frozen=True)
class TextLimits:
    """Numbers that decide how text is read and never what is read; tests hand over smaller ones."""

    block: int = 2**22
    """Bytes read at a time; larger blocks are slower, as their memory must come fresh from the system."""
    piece: int = 2**20
    """Bytes that a thread parses at a time."""


@dataclass(frozen=True)
class Text:
    """What the first line of a file shows."""

    path: str
    delimiter: str
    width: int
    """Number of columns in every line."""
    picked: tuple[int, ...]
    """Numbers of the columns to read."""
    names: tuple[Column, ...]
    """The user's names for them."""
    named: bool
    """Whether ids are text."""


def read_text(
    filesystem: Any, path: str, layout: TextLayout, limits: TextLimits, named: bool = False
) -> Iterator[Part]:
    """Yield the columns of a file, many lines at a time; `named` if ids are text, otherwise they are numbers."""
    blocks = line_blocks(filesystem, path, limits.block)
    block, line = _skip_comments(blocks)
    head, _, rest = block.partition(b"\n")
    with readable(path, "text"):
        text = _begin(path, head.decode(errors="replace").rstrip("\r"), layout, named)
    if layout.header:
        block, line = rest, line + 1
    for lines in chain((block,), blocks):
        if lines and not lines.isspace():
            yield partial(_parse, text, lines, line, limits.piece)
        line += lines.count(b"\n")


def line_blocks(filesystem: Any, path: str, size: int) -> Iterator[bytes]:
    """Yield the contents of a file in blocks of whole lines, of about `size` bytes."""
    compression = next((codec for ending, codec in COMPRESSIONS.items() if path.endswith(ending)), None)
    rest = b""
    with readable(path), ExitStack() as stack:
        file = stack.enter_context(filesystem.open(path, "rb"))
        if compression:
            file = stack.enter_context(pa.CompressedInputStream(file, compression))
        while data := file.read(size):
            stop = data.rfind(b"\n") + 1
            if stop:
                yield _plain_lines(rest + data[:stop], path)
                rest = b""
            rest += data[stop:]
            if len(rest) > size:
                raise InputError(f"{path} has a line of more than {size} bytes: it is not an edge list, or not text")
    if rest:
        yield _plain_lines(rest, path)


def _plain_lines(block: bytes, path: str) -> bytes:
    """Return a block; raise if it has lines that end in a carriage return alone."""
    if block.count(b"\r") != block.count(b"\r\n"):
        raise InputError(
            f"{path} has a carriage return (CR) that does not end a line together with a newline (LF): end all lines "
            "in LF or CR LF, for example with tr '\\r' '\\n'"
        )
    return block


def _skip_comments(blocks: Iterator[bytes]) -> tuple[bytes, int]:
    """Skip comments and empty lines; return what follows, with the number of its first line."""
    line = 1
    for block in blocks:
        start = len(MARK) if line == 1 and block.startswith(MARK) else 0
        while start < len(block):
            stop = block.find(b"\n", start) + 1 or len(block)
            if (content := block[start:stop].strip()) and not content.startswith(COMMENTS):
                return block[start:], line
            start, line = stop, line + 1
    return b"", line


def _begin(path: str, line: str, layout: TextLayout, named: bool) -> Text:
    """Work out delimiter and columns from the first line."""
    if layout.header and not line:
        raise InputError(f"{path} has no header: if it holds no edges, remove it")
    delimiter = layout.delimiter or _named_delimiter(path) or next((mark for mark in SNIFFED if mark in line), BLANK)
    if delimiter == BLANK:
        fields = line.split()
    else:
        fields = [field.strip() for field in next(csv.reader([line], delimiter=delimiter), [])]
    picked = tuple(_pick(column, fields, path, layout) for column in layout.columns) if line else ()
    return Text(path, delimiter, len(fields), picked, layout.columns, named)


def _named_delimiter(path: str) -> str | None:
    """Return the delimiter implied by a file name."""
    return next((mark for kind, mark in DELIMITERS.items() for end in ("", *COMPRESSIONS) if path.endswith(kind + end)))


def _pick(column: Column, fields: list[str], path: str, layout: TextLayout) -> int:
    """Return the number of a column."""
    if isinstance(column, int):
        if column >= len(fields):
            delimiter = repr(layout.delimiter) if layout.delimiter else "the one that its name or first line implies"
            raise InputError(
                f"{path} has no column {column}: its first line has {len(fields)}, numbered from 0; choose them with "
                f"columns=, or set delimiter= if it is not {delimiter}"
            )
        return column
    if not layout.header:
        raise InputError(
            f"column {column!r} cannot be found without a header: give numbers from 0, as columns=(0, 1, 2)"
        )
    if fields.count(column) != 1:
        count = f"{fields.count(column)} columns" if column in fields else "no column"
        raise InputError(
            f"{path} has {count} {column!r}: its first line is {listed([*map(repr, fields)])}; choose with columns=, "
            "by numbers from 0 or names, with header=False if these are not names, and delimiter= if they are not "
            "split; columns=(..., ..., None) gives all edges the weight 1"
        )
    return fields.index(column)


def _parse(text: Text, block: bytes, line: int, piece: int) -> tuple[Arrays, Where]:
    """Parse lines into columns, with a function that locates a row; `line` is the number of the first line."""
    with readable(text.path, "text"):
        return _parse_lines(text, block, line, piece)


def _parse_lines(text: Text, block: bytes, line: int, piece: int) -> tuple[Arrays, Where]:
    """Parse lines, first with ids as whole numbers; raise TextIdsError if they are text and should not be."""
    reading = {"block_size": piece, "use_threads": True}
    if text.delimiter == BLANK:
        block = _squeezed(block)

    def where(row: int) -> str:
        return f"line {line + _filled_lines(block)[row]} of {text.path}"

    for ids in (TEXT,) if text.named else (pa.int64(), pa.float64(), TEXT):  # some programs write ids like 17.0
        try:
            kinds = dict(zip(map(str, text.picked), (ids, ids, pa.float64()), strict=False))
            table = _convert(text, block, kinds, reading)
        except pa.ArrowInvalid as error:
            fault = error
        else:
            if ids == TEXT and not text.named:
                raise _text_ids(table, where)
            return _filled_columns(text, table, where), where
    _refuse_lines(text, block, where)
    raise InputError(f"{text.path} cannot be read from line {line} on: {fault}") from fault


def _text_ids(table: pa.Table, where: Where) -> TextIdsError:
    """Return the error for ids of which some are not numbers, with the first that is not."""
    words = [pc.invert(pc.match_substring_regex(column, NUMBER)).to_numpy() for column in table.columns[:2]]
    row = int((words[0] | words[1]).argmax())
    value = short(table.column(0 if words[0][row] else 1)[row].as_py())
    error = TextIdsError(f"{value!r} in {where(row)} is not a number, so all ids are taken as names")
    error.mixed = not (words[0] & words[1]).all()
    return error


def _squeezed(block: bytes) -> bytes:
    """Collapse every run of spaces and tabs into one space, and strip lines."""
    block = block.replace(b"\t", b" ")
    while b"  " in block:
        block = block.replace(b"  ", b" ")
    return block.replace(b" \r\n", b"\n").replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")


def _convert(
    text: Text, block: bytes, kinds: Mapping[str, pa.DataType], reading: Mapping[str, Any], **options: Any
) -> pa.Table:
    """Return the chosen columns, named by their numbers."""
    return read_csv(
        BytesIO(block),
        ReadOptions(column_names=[str(number) for number in range(text.width)], **reading),
        ParseOptions(delimiter=text.delimiter, **options),
        ConvertOptions(include_columns=list(kinds), column_types=dict(kinds)),
    )


def _filled_columns(text: Text, table: pa.Table, where: Where) -> Arrays:
    """Return columns as arrays; raise if there is a null."""
    for name, column in zip(text.names, table.columns, strict=True):
        if column.null_count:
            refuse_nulls(column.is_null().to_numpy(), str(name), where)
    if not text.named:
        return [column.to_numpy() for column in table.columns]
    ends = zip(text.names, table.columns[:2], strict=False)
    texts = [as_text(pc.utf8_trim_whitespace(column), str(name), where) for name, column in ends]
    return [*texts, *(column.to_numpy() for column in table.columns[2:])]


def _filled_lines(block: bytes) -> NDArray[np.intp]:
    """Return which lines of a block are rows; empty ones are not."""
    return np.flatnonzero([bool(line.rstrip(b"\r")) for line in block.split(b"\n")])


def _is_utf8(block: bytes) -> bool:
    """Whether lines are UTF-8."""
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _refuse_lines(text: Text, block: bytes, where: Where) -> None:
    """Raise for the first line with a wrong number of columns, or the first weight that is not a number."""
    ragged = []

    def note(row: Any) -> str:
        ragged.append(row)
        return "skip"

    whole = {"block_size": len(block) + 1, "use_threads": False}  # otherwise rows would not be numbered
    wanted = dict.fromkeys(map(str, text.picked), pa.binary())
    plain = block.decode(errors="replace").encode()  # the handler receives lines as text
    table = _convert(text, plain, wanted, whole, invalid_row_handler=note)
    if ragged:
        raise InputError(
            f"{where(ragged[0].number - 1)} has {ragged[0].actual_columns} columns and the first line has "
            f"{text.width}, separated by {text.delimiter!r}: correct it, or choose another delimiter with delimiter="
        )
    for name, column in zip(text.names[:2], table.columns[:2], strict=True):  # any text can be an id
        broken = pc.match_substring(column, UNKNOWN).to_numpy()
        if not _is_utf8(block):
            refuse_rows(broken, str(name), "not UTF-8", "write the names as UTF-8", where)
    for name, column in zip(text.names[2:], table.columns[2:], strict=True):
        bad = pc.invert(pc.match_substring_regex(column, NUMBER)).to_numpy()
        value = short(column[int(bad.argmax())].as_py().decode(errors="replace"))
        refuse_rows(bad, str(name), f"{value!r}, not a number,", "correct or drop these edges", where)
