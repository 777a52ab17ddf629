"""Ids that are text, numbered piece by piece; the names are never all in memory.

1. `write_pieces` reads some edges, and writes them as places among the sorted distinct names that occur in them.
2. `choose_splitters` cuts the names into ranges, of about the same size, from a sample of those of every piece.
3. `cut_piece` finds where the ranges begin among the names of a piece.
4. `merge_range` unites what the pieces have in one range. The result, sorted, is a part of the names of all nodes. It
   also notes the place in it of each name of each piece.
5. `number_piece` adds up where the ranges begin, and writes the edges of a piece with the numbers of their nodes.

A name occurs in a piece once, however many edges it has, so a node with many edges burdens no range. Pieces, ranges and
the order in which they are done do not show: the number of a name is its place among all names.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.names import PIECE, RANGE, names_part, part_name, unique
from dask_rac.base.spans import batches, starts_of
from dask_rac.edges.numbering import check_text, number_texts
from dask_rac.edges.writing import GROUP_EDGES, NewFolder
from dask_rac.files.arrays import read_array, write_group
from dask_rac.files.folder import Folder
from dask_rac.files.stored_names import (
    NameSizes,
    NamesPart,
    NamesRecord,
    cut_names,
    packed,
    unpacked,
    write_names_part,
)

SAMPLES = 256  # names of each piece from which ranges are chosen
NAME_BYTES = 24  # that a name takes beside its text
ROW_BYTES = 16  # that an edge takes beside its names

NamedEdges = tuple[Any, Any, NDArray[np.floating]]
"""Sources and targets as Arrow arrays of large strings, and weights."""


@dataclass(frozen=True)
class Shuffle:
    """Where edges are numbered, and how much of them at a time."""

    url: str
    """The folder that everything is in."""
    scratch: str
    """Where pieces and ranges go, in this folder."""
    names: str
    """Where names go, in this folder."""
    numbered: str
    """Where numbered edges go, in this folder."""
    most: int
    """Bytes of names and edges that a piece may have, and of names that a range may have, about."""
    sizes: NameSizes = field(default_factory=NameSizes)

    @property
    def folder(self) -> Folder:
        """The folder that everything is in."""
        return Folder(self.url)


@dataclass(frozen=True)
class Piece:
    """Some edges on disk, as places among their own sorted names."""

    name: str
    rows: int
    names: int
    weight: int
    """Bytes that its names take in memory, about."""
    disk: int
    """Bytes on disk."""
    sample: tuple[bytes, ...]
    """Some of its names, at equal distances."""


@dataclass(frozen=True)
class Range:
    """A range of names, united over all pieces."""

    name: str
    names: int
    parts: tuple[NamesPart, ...]
    """Where they are, sorted."""
    starts: NDArray[np.int64]
    """Names of the pieces before each, in the array of places in this range."""
    disk: int
    """Bytes on disk, without the names themselves."""


def write_pieces(job: Shuffle, edges: Iterable[NamedEdges]) -> Iterator[Piece]:
    """Write edges in pieces, each as large as the job allows."""
    held: list[tuple[Any, list[NDArray[np.int32]], NDArray[np.floating]]] = []
    size = 0
    for source, target, weight in edges:
        if not len(weight):
            continue
        names, ends = number_texts([source, target])
        held.append((names, ends, weight))
        size += _weight(names) + ROW_BYTES * len(weight)
        if size >= job.most:
            yield _write_piece(job, held)
            held, size = [], 0
    if held:
        yield _write_piece(job, held)


def _weight(names: Any) -> int:
    """Return the bytes that names take in memory, about."""
    return len(packed(names)[0]) + NAME_BYTES * len(names)


def _write_piece(job: Shuffle, held: list[tuple[Any, list[NDArray[np.int32]], NDArray[np.floating]]]) -> Piece:
    """Write edges that were read in several batches, each with its own names."""
    names, places = number_texts([batch[0] for batch in held])
    check_text(names)
    ends = [np.concatenate([place[batch[1][end]] for place, batch in zip(places, held, strict=True)]) for end in (0, 1)]
    text, offsets = packed(names)
    columns = {"source": ends[0], "target": ends[1], "weight": np.concatenate([batch[2] for batch in held])}
    name = unique(f"{job.scratch}/{PIECE}")
    files = write_group(job.folder, name, {"bytes": text, "offsets": offsets, **columns})
    picked = np.linspace(0, len(names) - 1, min(SAMPLES, len(names)), dtype=np.int64)
    sample = tuple(names.take(pa.array(picked)).cast(pa.large_binary()).to_pylist())
    return Piece(name, len(ends[0]), len(names), _weight(names), sum(file.bytes for file in files), sample)


def choose_splitters(pieces: Sequence[Piece], most: int) -> list[bytes]:
    """Return the first name of each range but the first, so that each range has about `most` bytes of names."""
    total = sum(piece.weight for piece in pieces)
    ranges = -(-total // most)
    if ranges < 2:
        return []
    share = np.concatenate([np.full(len(piece.sample), piece.weight / len(piece.sample)) for piece in pieces])
    names = np.array([*(name for piece in pieces for name in piece.sample), b""], object)[:-1]
    order = np.argsort(names, kind="stable")
    wanted = total / ranges * np.arange(1, ranges)
    at = np.searchsorted(np.cumsum(share[order]), wanted)
    return sorted(set(names[order[np.minimum(at, len(order) - 1)]].tolist()))


def cut_piece(job: Shuffle, piece: Piece, splitters: Sequence[bytes]) -> NDArray[np.int64]:
    """Return where each range begins among the names of a piece, then their number."""
    names = _names(job, piece, 0, piece.names).cast(pa.large_binary())
    cuts = [bisect_left(range(len(names)), splitter, key=lambda at: names[at].as_py()) for splitter in splitters]
    return np.array([0, *cuts, len(names)], np.int64)


def _names(job: Shuffle, piece: Piece, start: int, stop: int) -> Any:
    """Return some names of a piece."""
    offsets = read_array(job.folder, f"{piece.name}/offsets", start, stop + 1)
    text = read_array(job.folder, f"{piece.name}/bytes", int(offsets[0]), int(offsets[-1]))
    return unpacked(text, offsets - offsets[0])


def merge_range(job: Shuffle, pieces: Sequence[Piece], cuts: Sequence[NDArray[np.int64]], number: int) -> Range:
    """Unite the names that pieces have in a range, and write them, and their places for each piece."""
    spans = [cut[number : number + 2].tolist() for cut in cuts]
    starts = starts_of(np.array([stop - start for start, stop in spans], np.int64))
    filled = [(piece, *span) for piece, span in zip(pieces, spans, strict=True) if span[0] < span[1]]
    names, places = number_texts([_names(job, *given) for given in filled])
    parts = tuple(
        write_names_part(job.folder, unique(names_part(job.names, number)), part)
        for part in cut_names([names], job.sizes)
    )
    name = unique(f"{job.scratch}/{RANGE}")
    files = write_group(job.folder, name, {"places": np.concatenate([np.empty(0, np.int32), *places])})
    return Range(name, len(names), parts, starts, sum(file.bytes for file in files))


def number_piece(
    job: Shuffle, piece: Piece, number: int, cuts: Sequence[NDArray[np.int64]], ranges: Sequence[Range]
) -> int:
    """Write the edges of a piece with the numbers of their nodes; return their number."""
    base = starts_of(np.array([found.names for found in ranges], np.int64))
    nodes = int(base[-1])
    numbers = np.empty(piece.names, cluster_id_dtype(nodes))
    for place, found in enumerate(ranges):
        start, stop = cuts[number][place : place + 2].tolist()
        first = int(found.starts[number])
        own = read_array(job.folder, f"{found.name}/places", first, first + stop - start)
        numbers[start:stop] = own + base[place]
    target = NewFolder(Folder(f"{job.url}/{job.numbered}" if job.numbered else job.url), nodes)
    return target.write(part_name(number), _groups(job, piece, numbers))


def _groups(job: Shuffle, piece: Piece, numbers: NDArray[Any]) -> Iterator[Sequence[NDArray[Any]]]:
    """Yield the edges of a piece, a row group at a time."""
    for start, stop in batches(0, piece.rows, GROUP_EDGES):
        ends = [numbers[read_array(job.folder, f"{piece.name}/{end}", start, stop)] for end in ("source", "target")]
        yield *ends, read_array(job.folder, f"{piece.name}/weight", start, stop)


def united(ranges: Sequence[Range]) -> NamesRecord:
    """Return what all ranges have written of the names."""
    return NamesRecord(True, tuple(part for found in ranges for part in found.parts))
