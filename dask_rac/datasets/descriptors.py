"""Vectors like SIFT descriptors of images."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.checks import check_whole
from dask_rac.base.events import Listener
from dask_rac.datasets.chance import (
    MOST_NODES,
    Bytes,
    Floats,
    Stream,
    check_room,
    checked_store,
    picked,
    reported,
    sources,
)
from dask_rac.show.progress import listener_for
from dask_rac.vectors.sources.opening import write_vectors

SIFT_ROWS = 4096  # rows per block
SIFT_ENDINGS = (".bvecs", ".fvecs", ".npy")
MOST_DIMENSIONS = 4096
LATENT = 16  # the intrinsic dimension of descriptors
BRANCHES = 32  # words within each word of the next coarser level
SCALES = (5, 3, 2)  # of the levels, from the coarsest
BIAS = 12
BRIGHTEST = 1023  # bounds squares of squares, so that their sums are exact
WINDOW = np.repeat(np.outer((2, 3, 3, 2), (2, 3, 3, 2)), 8)  # the inner cells of a patch weigh more
CLIP = 0.2**2 * 128  # fraction of the squared length, times dimensions
POWER = 512**2 / 128  # squared length per dimension


def sift(
    nodes: int,
    seed: int = 0,
    store: str | PathLike[str] = "sift.bvecs",
    *,
    dimensions: int = 128,
    progress: Listener | bool | None = None,
) -> str:
    """Write vectors that resemble SIFT descriptors of images, for use where SIFT1M or SIFT1B is not available.

    A descriptor holds gradients in 4 x 4 cells and 8 orientations: whole numbers from 0 to 255, a quarter of them 0.
    They are clipped at a fifth of the length, then scaled to a length of 512, up to rounding. Descriptors are drawn
    from a three-level hierarchy of visual words, some common and some rare, some tight and some loose. Their intrinsic
    dimension is about 16, and one node in 500 is a copy of another. Equal arguments give equal bytes on any machine,
    and a file with fewer nodes equals the beginning of one with more. Memory use does not depend on the number of
    nodes.

    Parameters
    ----------
    nodes : int
        The number of vectors.
    seed : int
        The seed of the visual words and of the vectors.
    store : path
        The file to create on a local disk. Its extension determines the format: `.bvecs` (uint8), `.fvecs` or `.npy`
        (the same numbers as float32). An existing file is never overwritten.
    dimensions : int
        The number of dimensions. The squared length of a vector is proportional to it: 512**2 per 128 dimensions.
    progress : callable or bool, optional
        As for `dask_rac.cluster`; reports blocks of 4,096 nodes.

    Returns
    -------
    str
        `store`, for `dask_rac.knn_graph` and the other graphs of vectors.

    Raises
    ------
    InputError
        If a parameter is invalid, or the file exists. Raised before anything is written.
    ResourceError
        If the disk has too little space. Raised before anything is written.

    Examples
    --------
    As many vectors as in SIFT1M, 132 MB: ``sift(1_000_000, store="sift1m.bvecs")``.
    """
    path = check_sift(nodes, seed, store, dimensions)
    dtype = np.dtype(np.uint8 if path.endswith(".bvecs") else np.float32)
    check_room(path, int(nodes) * int(dimensions) * dtype.itemsize)
    with listener_for(progress) as report:
        blocks = (block.astype(dtype, copy=False) for block in sift_blocks(int(nodes), int(seed), int(dimensions)))
        write_vectors(path, reported(blocks, int(nodes), SIFT_ROWS, report), int(nodes), int(dimensions), dtype.name)
    return path


def check_sift(nodes: Any, seed: Any, store: Any, dimensions: Any) -> str:
    """Check the parameters of `sift`, and return the path to write."""
    check_whole("nodes", nodes, 2, MOST_NODES)
    check_whole("seed", seed, 0)
    check_whole("dimensions", dimensions, 8, MOST_DIMENSIONS)
    return checked_store(store, SIFT_ENDINGS)


class Words(NamedTuple):
    """The visual words that descriptors are drawn from."""

    centres: list[NDArray[np.int32]]  # of each level, in latent dimensions
    spread: NDArray[np.int32]  # of the words of the finest level
    loadings: Floats  # of dimensions on latent ones, whole numbers
    window: Floats  # of dimensions, whole numbers


def sift_blocks(nodes: int, seed: int, dimensions: int) -> Iterator[Bytes]:
    """Yield descriptors block by block."""
    words = _sift_words(seed, dimensions)
    for block, start in enumerate(range(0, nodes, SIFT_ROWS)):
        yield _descriptors(words, Stream(seed, block))[: nodes - start]


def _sift_words(seed: int, dimensions: int) -> Words:
    """Return the visual words, and how they map to dimensions."""
    stream = Stream(seed)
    centres = [scale * stream.bells(BRANCHES**level, LATENT) for level, scale in enumerate(SCALES, 1)]
    spread = 2 << (stream.bytes(len(centres[-1]), 1) >> 6).astype(np.int32)
    rough = stream.bytes(dimensions, LATENT).astype(np.int32) - 128
    # Similar to the next orientation, and to the cells beside and below.
    smooth = (rough + np.roll(rough, 1, axis=0) + np.roll(rough, 8, axis=0) + np.roll(rough, 32, axis=0)) >> 2
    return Words(centres, spread, smooth.astype(np.float32), np.resize(WINDOW, dimensions).astype(np.float32))


def _descriptors(words: Words, stream: Stream) -> Bytes:
    """Return the descriptors of a block."""
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
    return _scaled(light)[sources(draw[:, 0] < 2**16 // 500, draw[:, 1])]


def _latent(words: Words, stream: Stream) -> NDArray[np.int32]:
    """Return the latent positions of descriptors: the sum of their words on each level, plus an offset of their own."""
    choice = stream.halves(SIFT_ROWS, 2 * len(SCALES))
    word = np.zeros(SIFT_ROWS, np.int64)
    place = np.zeros((SIFT_ROWS, LATENT), np.int32)
    for level, centres in enumerate(words.centres):
        word = word * BRANCHES + picked(choice[:, 2 * level], choice[:, 2 * level + 1], BRANCHES)
        place += centres[word]
    return place + ((stream.bells(SIFT_ROWS, LATENT) * words.spread[word]) >> 3)


def _scaled(light: Floats) -> Bytes:
    """Return rows of whole numbers, clipped and scaled to the same length."""
    dimensions = light.shape[1]
    limit = np.floor(np.sqrt(_squares(light) * (CLIP / dimensions)))
    np.minimum(light, np.maximum(limit, 1).astype(np.float32)[:, None], out=light)
    light *= np.sqrt(POWER * dimensions / _squares(light)).astype(np.float32)[:, None]
    np.rint(light, out=light)
    return np.minimum(light, 255, out=light).astype(np.uint8)


def _squares(light: Floats) -> NDArray[np.float64]:
    """Return the squared lengths of rows of whole numbers, exact in any order of summation."""
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", light, light, dtype=np.float64)
    return squares
