"""Edge lists as people have them to Parquet, as users call it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike, fspath
from typing import Any

from dask_rac.base.errors import InputError
from dask_rac.base.events import Listener
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.edges.columns import open_columns
from dask_rac.edges.convert import convert
from dask_rac.edges.first_id import late_ids_text
from dask_rac.edges.text import TextLayout
from dask_rac.show.progress import listener_for


def ingest(
    edges: str | PathLike[str],
    store: str | PathLike[str],
    *,
    columns: Sequence[str | int | None] = EDGE_COLUMNS,
    delimiter: str | None = None,
    header: bool = True,
    text_ids: bool = False,
    progress: Listener | bool | None = None,
) -> str:
    """Convert an edge list to Parquet for `dask_rac.cluster`, and check every value.

    Memory use is about 150 MB, or 650 MB if ids are text, regardless of the size of the list.

    Parameters
    ----------
    edges : path or URL
        A file, or a folder of such files: delimited text, `.csv`, `.tsv`, `.txt`, `.edges` or `.el`, optionally
        compressed with a further `.gz`, `.bz2` or `.zst`; or Parquet. Text may begin with comment lines, which start
        with `#` or `%`.
    store : path or URL
        The folder to create. Existing files are never overwritten.
    columns : names or numbers
        The columns of source, target and weight, by name or by number from 0. None in place of the weight gives all
        edges the weight 1. Ids are whole numbers, or text: in delimited text they are numbers if all of them are, and
        otherwise all are names, without the blanks around them.
    delimiter : str, optional
        The character that separates columns of text. A space stands for any run of spaces and tabs. By default a comma
        for `.csv`, a tab for `.tsv`, and otherwise the delimiter of the first line.
    header : bool
        Whether the first line of text holds column names.
    text_ids : bool
        Whether ids are names even if all of them are numbers, such as customer numbers: then `17` and `017` differ, and
        numbers may have gaps.
    progress : callable or bool, optional
        As for `dask_rac.cluster`.

    Returns
    -------
    str
        `store`, for `dask_rac.cluster` or any Parquet reader: columns `source` and `target`, int32 if all ids fit and
        int64 otherwise, and `weight`, float64, or float32 if it is float32 in all files. Rows keep their order. If an
        id needs more than 32 bits, or is text, the list is read a second time from the start. Nodes whose ids are text
        are numbered in the order of their names by UTF-8 bytes, and the names are in the folder `_names`, where
        `cluster` finds them.

    Raises
    ------
    InputError
        If an id is a number but not a whole one of 0 or more, a weight is negative or not finite, a value, column or
        file is missing, or `store` exists. The message states where. Nothing is left behind.

    Warns
    -----
    UserWarning
        If some ids are numbers and others are text. If ids begin above 0: in a clustering of these edges, the nodes
        before the first one are trees of their own.

    Examples
    --------
    A SNAP edge list without weights: ``ingest("web.txt.gz", "web", columns=(0, 1, None), header=False)``.
    """
    layout = TextLayout(_checked_columns(columns), _checked_delimiter(delimiter), bool(header))
    source = open_columns(edges, layout)
    if not isinstance(text_ids, bool):
        raise InputError(f"text_ids={text_ids!r} is neither True nor False")
    source = replace(source, named=source.named or text_ids)
    with listener_for(progress) as report:
        first, _ = convert(source, store, report)
    if first:
        warnings.warn(late_ids_text(first, "pass text_ids=True to keep them as names"), stacklevel=2)
    return fspath(store)


def _checked_columns(columns: Any) -> tuple[str | int, ...]:
    """Return the columns to read, two or three."""
    wanted = tuple(columns) if isinstance(columns, list | tuple) else ()
    known = wanted[:2] if wanted[2:] == (None,) else wanted
    whole = all(isinstance(k, str) or (isinstance(k, int) and not isinstance(k, bool) and k >= 0) for k in known)
    if len(wanted) != len(EDGE_COLUMNS) or not whole or len(set(known)) < len(known):
        raise InputError(
            f"columns={columns!r} are not three different columns: give the names of source, target and weight, or "
            "their numbers from 0; None in place of the weight gives all edges the weight 1"
        )
    return known


def _checked_delimiter(delimiter: Any) -> str | None:
    """Return the delimiter if it is one character or None."""
    if delimiter is not None and (
        not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'
    ):
        raise InputError(f"delimiter={delimiter!r} is not one plain character: use ',' or '\\t', or ' ' for any blanks")
    return delimiter
