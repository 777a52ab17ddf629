"""Vectors of any number that look like well-known ones: SIFT descriptors, and documents as bags of words.

Rows are made in blocks, each from nothing but the seed and its number. So that every machine gets the same, chance is
the raw output of Philox, sums are of whole numbers that their type holds exactly, whatever their order, and beyond
these there are only operations that IEEE 754 rounds correctly: no logarithm, no power, no sum that its order changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from os import PathLike, fspath
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dask_rac.config import Event, Progress, check_whole, size_text
from dask_rac.errors import InputError, ResourceError
from dask_rac.progress import watcher
from dask_rac.store.files import Folder
from dask_rac.store.vectors import write_vectors

__all__ = ["documents", "sift"]

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Whole = NDArray[np.int64]
Block = TypeVar("Block")

MOST_NODES = 2**62

SIFT_ROWS = 4096  # a block
SIFT_ENDINGS = (".bvecs", ".fvecs", ".npy")
MOST_DIMENSIONS = 4096
LATENT = 16  # dimensions that descriptors really have
BRANCHES = 32  # words in a word of the next higher level
SCALES = (5, 3, 2)  # of the levels, the coarsest first
BIAS = 12
BRIGHTEST = 1023  # bounds squares of squares, so that their sums are exact
WINDOW = np.repeat(np.outer((2, 3, 3, 2), (2, 3, 3, 2)), 8)  # the inner cells of a patch weigh more
CLIP = 0.2**2 * 128  # of the squared length, for each dimension
POWER = 512**2 / 128  # squared length for each dimension

BLOCK_WORDS = 2**18
DOCUMENT_ENDINGS = (".zarr",)
MOST_TERMS = 2**24
MOST_TOPICS = 2**16
MOST_LENGTH = 10_000
COMMON = 2**13  # terms that Zipf's law holds for; beyond them use falls with the square of the rank
TOPIC_TERMS = 2**9
SHARED = 2  # terms of a topic that are equally common
GROUP_TOPICS = 8
LENGTH_BYTES = 7  # whose sum has the logarithm of a document's length
PARTS = 64  # of a unit, in which logarithms are counted


def sift(
    nodes: int,
    seed: int = 0,
    store: str | PathLike[str] = "sift.bvecs",
    *,
    dimensions: int = 128,
    progress: Progress | bool | None = None,
) -> str:
    """Write vectors like SIFT descriptors of images, where the real ones (SIFT1M, SIFT1B) are not at hand.

    Gradients in 4 x 4 cells and 8 orientations: whole numbers from 0 to 255, a quarter of them 0, none above a fifth of
    the length before all are scaled to a length of 512, all but for rounding. They are drawn from visual words within
    words within words, some common and some rare, some tight and some loose, and have about 16 dimensions in truth; a
    node in 500 is a copy of another. Equal arguments give equal bytes on any machine, and fewer nodes are the first of
    more. Memory does not grow with the nodes.

    Parameters
    ----------
    nodes : int
        The number of vectors.
    seed : int
        Other seeds give other words.
    store : path
        The file to be made on a local disk, by its ending: `.bvecs` (uint8), `.fvecs` or `.npy` (the same numbers as
        float32). What exists is never written over.
    dimensions : int
        More or fewer cells; the length is then 512 for each 128.
    progress : callable or bool, optional
        As for `dask_rac.cluster`; told of blocks of 4,096 nodes.

    Returns
    -------
    str
        `store`, for `dask_rac.knn_graph` and its like.

    Raises
    ------
    InputError
        If a parameter cannot be used, or the file exists; before anything is written.
    ResourceError
        If the disk has no room; before anything is written.

    Examples
    --------
    As many as SIFT1M has, 132 MB: ``sift(1_000_000, store="sift1m.bvecs")``.
    """
    path = check_sift(nodes, seed, store, dimensions)
    dtype = np.dtype(np.uint8 if path.endswith(".bvecs") else np.float32)
    _check_room(path, int(nodes) * int(dimensions) * dtype.itemsize)
    with watcher(progress) as report:
        blocks = (block.astype(dtype, copy=False) for block in sift_blocks(int(nodes), int(seed), int(dimensions)))
        write_vectors(path, _told(blocks, int(nodes), SIFT_ROWS, report), int(nodes), int(dimensions), dtype.name)
    return path


def documents(
    nodes: int,
    terms: int,
    seed: int = 0,
    store: str | PathLike[str] = "documents.zarr",
    *,
    length: float = 100,
    topics: int = 64,
    progress: Progress | bool | None = None,
) -> str:
    """Write documents as bags of words, where real ones (News20, RCV1, pages of the web) are not at hand.

    How often a term is used follows Zipf's law, and lengths are log-normal. Half of the words of a document are of the
    language as a whole, the others of its three topics, or of the groups of related topics that these are in. A
    document in 32 is a copy of another with a word in 16 changed. Values are (1 + log2 of the count) times 1 + log2 of
    the rarity of the term in the language, logarithms being linear between powers of 2, and rows have a length of 1. No
    document is empty. Equal arguments give equal values on any machine, and fewer nodes are the first of more. Memory
    grows with the terms, some 40 bytes for each, and not with the nodes.

    Parameters
    ----------
    nodes : int
        The number of documents.
    terms : int
        The number of different terms there are, columns of the matrix.
    seed : int
        Other seeds give other topics and other documents.
    store : path or URL
        The Zarr group to be made, ending in `.zarr`: arrays `data` (float32), `indices` and `indptr` of a CSR matrix.
        What exists is never written over.
    length : float
        Words in a document, on average; terms that come again are stored once, which leaves some two thirds.
    topics : int
        The number of topics, some more common than others.
    progress : callable or bool, optional
        As for `dask_rac.cluster`; told of blocks of documents.

    Returns
    -------
    str
        `store`, for `dask_rac.knn_graph` and its like, with `metric="cosine"`.

    Raises
    ------
    InputError
        If a parameter cannot be used, or the group exists; before anything is written.
    ResourceError
        If the disk has no room for half of what is to be expected; before anything is written.

    Examples
    --------
    Like News20: ``documents(18_846, 130_107, length=220)``.
    """
    path = check_documents(nodes, seed, store, terms, length, topics)
    _check_room(path, int(nodes) * int(length) * 3)
    with watcher(progress) as report:
        language = _language(int(terms), int(topics), float(length), int(seed))
        blocks = _told(document_blocks(language, int(nodes), int(seed)), int(nodes), language.rows, report)
        write_vectors(path, blocks, int(nodes), int(terms), "float32")
    return path


def check_sift(nodes: Any, seed: Any, store: Any, dimensions: Any) -> str:
    """The path of descriptors that can be made."""
    check_whole("nodes", nodes, 2, MOST_NODES)
    check_whole("seed", seed, 0)
    check_whole("dimensions", dimensions, 8, MOST_DIMENSIONS)
    return _checked_store(store, SIFT_ENDINGS)


def check_documents(nodes: Any, seed: Any, store: Any, terms: Any, length: Any, topics: Any) -> str:
    """The path of documents that can be made."""
    check_whole("nodes", nodes, 2, MOST_NODES)
    check_whole("terms", terms, 2, MOST_TERMS)
    check_whole("seed", seed, 0)
    check_whole("topics", topics, 1, MOST_TOPICS)
    if isinstance(length, bool) or not isinstance(length, int | float) or not 1 <= length <= MOST_LENGTH:
        raise InputError(f"length={length!r} is not a number from 1 to {MOST_LENGTH:,}")
    return _checked_store(store, DOCUMENT_ENDINGS)


def _checked_store(store: str | PathLike[str], endings: tuple[str, ...]) -> str:
    """The path of a new file, whose ending says what it is."""
    path = fspath(store) if isinstance(store, str | PathLike) else None
    if not path or not isinstance(path, str):
        raise InputError(f"store={store!r} is no path: give the path or URL of a file to be made")
    if not path.endswith(endings):
        raise InputError(f"store={path!r} has an ending that is not known here: use {' or '.join(endings)}")
    return path


def _check_room(path: str, size: int) -> None:
    """Raise if the disk has no room for so many bytes."""
    free = Folder(path).free_bytes()
    if free is not None and size > free:
        raise ResourceError(
            f"{path} needs {size_text(size)} and {size_text(free)} are free: make room, give a path on another disk, "
            "or fewer nodes"
        )


def _told(blocks: Iterable[Block], nodes: int, rows: int, report: Progress) -> Iterator[Block]:
    """Blocks of so many rows, with word of each that is written."""
    total = -(-nodes // rows)
    for done, block in enumerate(blocks, 1):
        yield block
        report(Event("generate", done=done, total=total))


class Stream:
    """Random bits that are the same everywhere."""

    def __init__(self, seed: int, *block: int) -> None:
        self._raw = np.random.Philox(np.random.SeedSequence(seed, spawn_key=block))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Numbers of 64 bits."""
        return np.asarray(self._raw.random_raw(count), np.dtype("<u8"))

    def halves(self, rows: int, columns: int) -> Halves:
        """Numbers of 16 bits."""
        return self.words(-(-rows * columns // 4)).view("<u2")[: rows * columns].reshape(rows, columns)

    def bytes(self, rows: int, columns: int) -> Bytes:
        """Numbers of 8 bits."""
        return self.words(-(-rows * columns // 8)).view(np.uint8)[: rows * columns].reshape(rows, columns)

    def bells(self, rows: int, columns: int) -> NDArray[np.int32]:
        """Numbers from -510 to 510, like normal ones with a deviation of 148."""
        four = self.bytes(rows * columns, 4).astype(np.int32)
        return (four[:, 0] + four[:, 1] + four[:, 2] + four[:, 3] - 510).reshape(rows, columns)


def _picked(first: Halves, second: Halves, count: int) -> Whole:
    """Numbers below `count`, the small ones more often."""
    both = first.astype(np.uint64) * second
    return ((both * np.uint64(count)) >> np.uint64(32)).astype(np.int64)


def _sources(copied: NDArray[np.bool], draw: Halves) -> Whole:
    """For each row the row it is a copy of: one before it that is no copy, or the row itself."""
    rows = np.arange(len(copied))
    original = np.maximum.accumulate(np.where(copied, 0, rows))  # row 0 stands for itself in any case
    return np.where(copied, original[(draw * rows) >> 16], rows)


class Words(NamedTuple):
    """What all descriptors are drawn from."""

    centres: list[NDArray[np.int32]]  # of each level, in latent dimensions
    spread: NDArray[np.int32]  # of the words of the finest level
    loadings: Floats  # of dimensions on latent ones, whole numbers
    window: Floats  # of dimensions, whole numbers


def sift_blocks(nodes: int, seed: int, dimensions: int) -> Iterator[Bytes]:
    """Descriptors, block by block."""
    words = _sift_words(seed, dimensions)
    for block, start in enumerate(range(0, nodes, SIFT_ROWS)):
        yield _descriptors(words, Stream(seed, block))[: nodes - start]


def _sift_words(seed: int, dimensions: int) -> Words:
    """Visual words, and how they look."""
    stream = Stream(seed)
    centres = [scale * stream.bells(BRANCHES**level, LATENT) for level, scale in enumerate(SCALES, 1)]
    spread = 2 << (stream.bytes(len(centres[-1]), 1) >> 6).astype(np.int32)
    rough = stream.bytes(dimensions, LATENT).astype(np.int32) - 128
    # Alike in the next orientation, and in the cells beside and below.
    smooth = (rough + np.roll(rough, 1, axis=0) + np.roll(rough, 8, axis=0) + np.roll(rough, 32, axis=0)) >> 2
    return Words(centres, spread, smooth.astype(np.float32), np.resize(WINDOW, dimensions).astype(np.float32))


def _descriptors(words: Words, stream: Stream) -> Bytes:
    """The descriptors of a block."""
    light = _latent(words, stream).astype(np.float32) @ words.loadings.T  # whole, below 2**24: exact in any order
    light *= np.float32(2.0**-12)
    light += BIAS + (stream.bytes(*light.shape) >> 3)
    np.floor(light, out=light)
    np.clip(light, 0, BRIGHTEST, out=light)
    light *= light
    light *= words.window
    light *= np.float32(2.0**-4)
    np.floor(light, out=light)
    np.maximum(light[:, 0], 1, out=light[:, 0])  # no row is empty
    draw = stream.halves(len(light), 2)
    return _scaled(light)[_sources(draw[:, 0] < 2**16 // 500, draw[:, 1])]


def _latent(words: Words, stream: Stream) -> NDArray[np.int32]:
    """The places of descriptors: those of their words, level by level, and something of their own."""
    choice = stream.halves(SIFT_ROWS, 2 * len(SCALES))
    word = np.zeros(SIFT_ROWS, np.int64)
    place = np.zeros((SIFT_ROWS, LATENT), np.int32)
    for level, centres in enumerate(words.centres):
        word = word * BRANCHES + _picked(choice[:, 2 * level], choice[:, 2 * level + 1], BRANCHES)
        place += centres[word]
    return place + ((stream.bells(SIFT_ROWS, LATENT) * words.spread[word]) >> 3)


def _scaled(light: Floats) -> Bytes:
    """Rows of whole numbers, clipped and scaled to one length."""
    dimensions = light.shape[1]
    limit = np.floor(np.sqrt(_squares(light) * (CLIP / dimensions)))
    np.minimum(light, np.maximum(limit, 1).astype(np.float32)[:, None], out=light)
    light *= np.sqrt(POWER * dimensions / _squares(light)).astype(np.float32)[:, None]
    np.rint(light, out=light)
    return np.minimum(light, 255, out=light).astype(np.uint8)


def _squares(light: Floats) -> NDArray[np.float64]:
    """The squared lengths of rows of whole numbers, exact in any order."""
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", light, light, dtype=np.float64)
    return squares


class Language(NamedTuple):
    """What all documents are drawn from."""

    names: NDArray[np.int32]  # the terms, the most common first
    uses: Whole  # how often one of the terms up to here is used
    rarity: Whole  # of a term, in parts
    starts: Whole  # where the terms of topics begin, below those of their groups
    lengths: NDArray[np.float64]  # of a document, by a sum of bytes
    rows: int  # documents in a block


def _language(terms: int, topics: int, length: float, seed: int) -> Language:
    """Terms, topics and lengths."""
    stream = Stream(seed)
    names = np.argsort(stream.words(terms), kind="stable").astype(np.int32)
    rank = np.arange(terms)
    use = np.maximum((2**28 * COMMON) // ((rank + 3) * (rank + COMMON)), 1)
    uses = np.cumsum(use)
    rarity = np.empty(terms, np.int64)
    rarity[names] = _parts(1 + int(uses[-1]) / (length * use))
    group = np.arange(topics) // GROUP_TOPICS
    place = (stream.words(2 * topics) % np.uint64(terms)).astype(np.int64)
    starts = np.stack((place[group], place[topics:]))
    return Language(names, uses, rarity, starts, length * _relative_lengths(), max(16, int(BLOCK_WORDS / length)))


def _parts(value: NDArray[Any]) -> Whole:
    """1 + log2 in parts, linear between powers of 2."""
    fraction, exponent = np.frexp(value)
    parts: Whole = np.floor(PARTS * (exponent + 2 * fraction - 1)).astype(np.int64)
    return parts


def _relative_lengths() -> NDArray[np.float64]:
    """2 to the power of something like a normal number, linear between whole powers, for each sum of bytes."""
    ways = np.ones(1, np.int64)
    for _ in range(LENGTH_BYTES):
        ways = np.convolve(ways, np.ones(256, np.int64))
    power = (np.arange(len(ways)) - len(ways) // 2) / 192
    relative = np.ldexp(1 + power - np.floor(power), np.floor(power).astype(np.int32))
    lengths: NDArray[np.float64] = relative / (math.fsum(ways * relative) / 256**LENGTH_BYTES)
    return lengths


def document_blocks(language: Language, nodes: int, seed: int) -> Iterator[csr_array]:
    """Documents, block by block."""
    for block, start in enumerate(range(0, nodes, language.rows)):
        yield _bags(language, Stream(seed, block))[: nodes - start]


def _bags(language: Language, stream: Stream) -> csr_array:
    """The documents of a block."""
    rows, terms = language.rows, len(language.names)
    draw, choice = stream.bytes(rows, 8), stream.halves(rows, 7)
    source = _sources(draw[:, LENGTH_BYTES] < 256 // 32, choice[:, 6])
    topic = _picked(choice[:, :3], choice[:, 3:6], language.starts.shape[1])
    length = np.maximum(np.rint(language.lengths[draw[source, :LENGTH_BYTES].sum(axis=1)]), 1).astype(np.int64)
    node, begin = np.repeat(np.arange(rows), length), np.cumsum(length) - length
    term = _written(language, stream.words(len(node)), topic[node], begin[node])
    kept = stream.bytes(len(node), 1)[:, 0] >= 256 // 16
    term = term[np.arange(len(node)) + np.where(kept, (begin[source] - begin)[node], 0)]
    found, count = np.unique(node * terms + term, return_counts=True)
    indptr = np.searchsorted(found, np.arange(rows + 1) * terms)
    return _weighted(language, (found % terms).astype(np.int32), count, indptr)


def _written(language: Language, draw: NDArray[np.uint64], topic: Whole, begin: Whole) -> NDArray[np.int32]:
    """The term at each place in documents, from their topics, and where they begin."""
    small, large, place = draw.view(np.uint8).reshape(-1, 8), draw >> np.uint64(32), np.arange(len(draw))
    kind, share, rest = small[:, 0], small[:, 1], small[:, 2]
    general = kind < 128
    most = np.where(general, language.uses[-1], language.uses[: TOPIC_TERMS // SHARED][-1])
    rank = np.searchsorted(language.uses, _below(most, large), side="right")
    mine = topic[place, (share >= 160).astype(np.int64) + (share >= 232)]
    # A topic has no terms as common as those of the language: some share a rank.
    special = language.starts[(kind >= 176).astype(np.int64), mine] + SHARED * rank + rest % SHARED
    term = language.names[np.where(general, rank, special) % len(language.names)]
    first = np.where(rest < 192, place, begin + _below(place - begin, large))  # the others come again
    result: NDArray[np.int32] = term[first]
    return result


def _below(most: Whole, draw: NDArray[np.uint64]) -> Whole:
    """Numbers below `most`, or 0, by numbers of 32 bits."""
    return ((most.astype(np.uint64) * draw) >> np.uint64(32)).astype(np.int64)


def _weighted(language: Language, indices: NDArray[np.int32], count: Whole, indptr: Whole) -> csr_array:
    """Rows of length 1."""
    weight = _parts(count) * language.rarity[indices]
    lengths = np.sqrt(np.add.reduceat(weight * weight, indptr[:-1]))
    data = (weight / np.repeat(lengths, np.diff(indptr))).astype(np.float32)
    return csr_array((data, indices, indptr), shape=(len(indptr) - 1, len(language.names)))
