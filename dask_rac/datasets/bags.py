"""Documents as bags of words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dask_rac.base.checks import check_whole
from dask_rac.base.errors import InputError
from dask_rac.base.events import Listener
from dask_rac.datasets.chance import MOST_NODES, Stream, Whole, check_room, checked_store, picked, reported, sources
from dask_rac.show.progress import listener_for
from dask_rac.vectors.sources.opening import write_vectors

BLOCK_WORDS = 2**18
DOCUMENT_ENDINGS = (".zarr",)
MOST_TERMS = 2**24
MOST_TOPICS = 2**16
MOST_LENGTH = 10_000
COMMON = 2**13  # terms that follow Zipf's law; beyond them frequency falls with the square of the rank
TOPIC_TERMS = 2**9
SHARED = 2  # terms of a topic that are equally common
GROUP_TOPICS = 8
LENGTH_BYTES = 7  # random bytes whose sum determines the logarithm of a document's length
PARTS = 64  # logarithms are multiples of 1 / PARTS


def documents(
    nodes: int,
    terms: int,
    seed: int = 0,
    store: str | PathLike[str] = "documents.zarr",
    *,
    length: float = 100,
    topics: int = 64,
    progress: Listener | bool | None = None,
) -> str:
    """Write documents as bags of words, for use where real ones (News20, RCV1, web pages) are not available.

    Term frequencies follow Zipf's law, and document lengths are log-normal. Half of the words of a document are drawn
    from the language as a whole, the others from its three topics, or from the groups of related topics to which these
    belong. One document in 32 is a copy of another with one word in 16 changed. Values are (1 + log2 of the count)
    times (1 + log2 of the rarity of the term in the language), with logarithms interpolated linearly between powers of
    2, and rows have a length of 1. No document is empty. Equal arguments give equal values on any machine, and a matrix
    with fewer nodes equals the first rows of one with more. Memory use is about 40 bytes per term, regardless of the
    number of nodes.

    Parameters
    ----------
    nodes : int
        The number of documents.
    terms : int
        The number of different terms, which are the columns of the matrix.
    seed : int
        The seed of the topics and of the documents.
    store : path or URL
        The Zarr group to create, ending in `.zarr`: arrays `data` (float32), `indices` and `indptr` of a CSR matrix.
        An existing group is never overwritten.
    length : float
        The mean number of words per document. Repeated terms are stored once, which leaves about two thirds.
    topics : int
        The number of topics, some more common than others.
    progress : callable or bool, optional
        As for `dask_rac.cluster`; reports blocks of documents.

    Returns
    -------
    str
        `store`, for `dask_rac.knn_graph` and the other graphs of vectors, with `metric="cosine"`.

    Raises
    ------
    InputError
        If a parameter is invalid, or the group exists. Raised before anything is written.
    ResourceError
        If the disk has no space for half of the expected size. Raised before anything is written.

    Examples
    --------
    Like News20: ``documents(18_846, 130_107, length=220)``.
    """
    path = check_documents(nodes, seed, store, terms, length, topics)
    check_room(path, int(nodes) * int(length) * 3)
    with listener_for(progress) as report:
        language = _language(int(terms), int(topics), float(length), int(seed))
        blocks = reported(document_blocks(language, int(nodes), int(seed)), int(nodes), language.rows, report)
        write_vectors(path, blocks, int(nodes), int(terms), "float32")
    return path


def check_documents(nodes: Any, seed: Any, store: Any, terms: Any, length: Any, topics: Any) -> str:
    """Check the parameters of `documents`, and return the path to write."""
    check_whole("nodes", nodes, 2, MOST_NODES)
    check_whole("terms", terms, 2, MOST_TERMS)
    check_whole("seed", seed, 0)
    check_whole("topics", topics, 1, MOST_TOPICS)
    if isinstance(length, bool) or not isinstance(length, int | float) or not 1 <= length <= MOST_LENGTH:
        raise InputError(f"length={length!r} is not a number from 1 to {MOST_LENGTH:,}")
    return checked_store(store, DOCUMENT_ENDINGS)


class Language(NamedTuple):
    """The distribution that documents are drawn from."""

    names: NDArray[np.int32]  # the terms, the most common first
    uses: Whole  # cumulative frequency of the terms up to each
    rarity: Whole  # of each term, in parts
    starts: Whole  # where the terms of groups (row 0) and of topics (row 1) begin
    lengths: NDArray[np.float64]  # of a document, by a sum of bytes
    rows: int  # documents per block


def _language(terms: int, topics: int, length: float, seed: int) -> Language:
    """Draw the terms, topics and lengths."""
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
    """Return 1 + log2 in parts, interpolated linearly between powers of 2."""
    fraction, exponent = np.frexp(value)
    parts: Whole = np.floor(PARTS * (exponent + 2 * fraction - 1)).astype(np.int64)
    return parts


def _relative_lengths() -> NDArray[np.float64]:
    """Return nearly log-normal lengths for each sum of bytes: powers of 2, interpolated linearly, with mean 1."""
    ways = np.ones(1, np.int64)
    for _ in range(LENGTH_BYTES):
        ways = np.convolve(ways, np.ones(256, np.int64))
    power = (np.arange(len(ways)) - len(ways) // 2) / 192
    relative = np.ldexp(1 + power - np.floor(power), np.floor(power).astype(np.int32))
    lengths: NDArray[np.float64] = relative / (math.fsum(ways * relative) / 256**LENGTH_BYTES)
    return lengths


def document_blocks(language: Language, nodes: int, seed: int) -> Iterator[csr_array]:
    """Yield documents block by block."""
    for block, start in enumerate(range(0, nodes, language.rows)):
        yield _bags(language, Stream(seed, block))[: nodes - start]


def _bags(language: Language, stream: Stream) -> csr_array:
    """Return the documents of a block."""
    rows, terms = language.rows, len(language.names)
    draw, choice = stream.bytes(rows, 8), stream.halves(rows, 7)
    source = sources(draw[:, LENGTH_BYTES] < 256 // 32, choice[:, 6])
    topic = picked(choice[:, :3], choice[:, 3:6], language.starts.shape[1])
    length = np.maximum(np.rint(language.lengths[draw[source, :LENGTH_BYTES].sum(axis=1)]), 1).astype(np.int64)
    node, begin = np.repeat(np.arange(rows), length), np.cumsum(length) - length
    term = _written(language, stream.words(len(node)), topic[node], begin[node])
    kept = stream.bytes(len(node), 1)[:, 0] >= 256 // 16
    term = term[np.arange(len(node)) + np.where(kept, (begin[source] - begin)[node], 0)]
    entry, count = np.unique(node * terms + term, return_counts=True)
    indptr = np.searchsorted(entry, np.arange(rows + 1) * terms)
    return _weighted(language, (entry % terms).astype(np.int32), count, indptr)


def _written(language: Language, draw: NDArray[np.uint64], topic: Whole, begin: Whole) -> NDArray[np.int32]:
    """Return the term at each position, given the topics and the first position of its document."""
    small, large, place = draw.view(np.uint8).reshape(-1, 8), draw >> np.uint64(32), np.arange(len(draw))
    kind, share, rest = small[:, 0], small[:, 1], small[:, 2]
    general = kind < 128
    most = np.where(general, language.uses[-1], language.uses[: TOPIC_TERMS // SHARED][-1])
    rank = np.searchsorted(language.uses, _below(most, large), side="right")
    mine = topic[place, (share >= 160).astype(np.int64) + (share >= 232)]
    # The terms of a topic are less common than those of the language: several share a rank.
    special = language.starts[(kind >= 176).astype(np.int64), mine] + SHARED * rank + rest % SHARED
    term = language.names[np.where(general, rank, special) % len(language.names)]
    first = np.where(rest < 192, place, begin + _below(place - begin, large))  # the others repeat an earlier term
    result: NDArray[np.int32] = term[first]
    return result


def _below(most: Whole, draw: NDArray[np.uint64]) -> Whole:
    """Scale numbers of 32 bits to numbers below `most`, or 0."""
    return ((most.astype(np.uint64) * draw) >> np.uint64(32)).astype(np.int64)


def _weighted(language: Language, indices: NDArray[np.int32], count: Whole, indptr: Whole) -> csr_array:
    """Return weighted rows of length 1."""
    weight = _parts(count) * language.rarity[indices]
    lengths = np.sqrt(np.add.reduceat(weight * weight, indptr[:-1]))
    data = (weight / np.repeat(lengths, np.diff(indptr))).astype(np.float32)
    return csr_array((data, indices, indptr), shape=(len(indptr) - 1, len(language.names)))
