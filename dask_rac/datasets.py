"""Graphs of any size, to try things on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from os import PathLike, fspath
from queue import SimpleQueue
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from dask_rac import driver
from dask_rac.config import Weights
from dask_rac.errors import InputError
from dask_rac.kernels.lattice import KEYS, Edges, Lattice, Places, Stencil, fill
from dask_rac.shard import Team
from dask_rac.store.edgelist import NewFolder, edges_size, new_folder

__all__ = ["lattice"]

GROUP_EDGES = 2**20  # a row group
FILE_GROUPS = 4
MOST_NODES = 2**62
MOST_DEGREE = 2**16


class Room(NamedTuple):
    """What one thread writes to."""

    own: Places
    others: Places
    edges: Edges


def lattice(
    nodes: int,
    degree: int = 40,
    seed: int = 0,
    store: str | PathLike[str] = "lattice",
    *,
    weights: str = "distance",
) -> str:
    """Write a jittered 3-D lattice of any size as Parquet, about as fast as the disk takes it.

    Every node sits somewhere in its own cell of a grid and has an edge to the nodes in the `degree` nearest cells; the
    grid has no border. Ids are shuffled, so that nothing profits from their order. Equal arguments give equal edges, on
    any machine and with any number of threads. Memory does not grow with the graph: about 20 MB for each thread.

    Parameters
    ----------
    nodes : int
        The number of nodes.
    degree : int
        The edges at each node, an even number; there are `nodes * degree / 2` edges in all. Half of it must be few
        against the nodes, or the grid would meet itself.
    seed : int
        Other seeds give other weights and another shuffling.
    store : path or URL
        The folder to be made, 12 bytes for each edge (20 beyond 2**31 - 1 nodes). While it is written its name ends in
        `.partial`. What exists is never written over.
    weights : {"distance", "similarity"}
        Euclidean distances, where cells have sides of 1; or similarities, 1 / (1 + distance).

    Returns
    -------
    str
        `store`, for `dask_rac.cluster` or any reader of Parquet: columns `source` and `target`, int32 (int64 beyond
        2**31 - 1 nodes), and `weight`, float32. Every edge is there once.

    Raises
    ------
    InputError
        If a parameter cannot be used, the folder exists and is not empty, or the disk has no room; before anything is
        written.

    Examples
    --------
    A billion edges, 12 GB: ``lattice(50_000_000, store="/data/lattice")``.
    """
    shape, stencil = plan(nodes, degree, seed, weights)
    write(shape, stencil, store, driver.new_team())
    return fspath(store)


def plan(nodes: int, degree: int, seed: int, weights: str) -> tuple[Lattice, Stencil]:
    """What is to be written, all parameters checked."""
    _check_whole("nodes", nodes, 3, MOST_NODES)
    _check_whole("degree", degree, 2, MOST_DEGREE)
    _check_whole("seed", seed, 0)
    if degree % 2:
        raise InputError(f"degree={degree} is odd: use {degree - 1} or {degree + 1}")
    if not isinstance(weights, str) or weights not in get_args(Weights):
        raise InputError(f"weights={weights!r} is unknown: use one of {', '.join(map(repr, get_args(Weights)))}")
    nodes, bits = int(nodes), (int(nodes) - 1).bit_length()
    row = round(math.cbrt(nodes))
    plane = row * round(math.sqrt(nodes / row))
    keys = np.random.SeedSequence(int(seed)).generate_state(KEYS, np.uint64).astype(np.uint64)
    shape = Lattice(nodes, row, plane, weights == "similarity", bits - bits // 2, bits // 2, keys)
    return shape, _stencil(shape, int(degree))


def write(shape: Lattice, stencil: Stencil, store: str | PathLike[str], team: Team) -> None:
    """Write all edges, as many files at a time as the team has threads; the team is dismissed."""
    half, ids = len(stencil.dx), np.dtype(np.int32 if shape.nodes < 2**31 else np.int64)
    step = min(max(1, GROUP_EDGES // half), shape.nodes)
    files = -(-shape.nodes // (step * FILE_GROUPS))
    size = edges_size(shape.nodes * half, files * FILE_GROUPS, ids)
    with new_folder(store, size) as folder, team:
        rooms: SimpleQueue[Room] = SimpleQueue()
        for _ in range(team.threads):
            rooms.put(_room(stencil, step, ids))
        spans = [(file, len(str(files - 1)), step) for file in range(files)]
        team.run(_write_file, spans, folder, shape, stencil, rooms)


def _write_file(
    folder: NewFolder, shape: Lattice, stencil: Stencil, rooms: SimpleQueue[Room], span: tuple[int, int, int]
) -> None:
    """Write the edges of one file's nodes."""
    file, digits, step = span
    first = file * FILE_GROUPS * step
    starts = range(first, min(first + FILE_GROUPS * step, shape.nodes), step)
    room = rooms.get()
    try:
        folder.write(f"part-{file:0{digits}}.parquet", _groups(shape, stencil, room, starts))
    finally:
        rooms.put(room)


def _groups(shape: Lattice, stencil: Stencil, room: Room, starts: range) -> Iterator[list[NDArray[Any]]]:
    """The edges of ranges of nodes in turn, each written over the one before."""
    for start in starts:
        stop = min(start + starts.step, shape.nodes)
        fill(shape, stencil, *room, (start, stop))
        yield [column[: (stop - start) * len(stencil.dx)] for column in room.edges]


def _room(stencil: Stencil, step: int, ids: np.dtype[Any]) -> Room:
    """Room for the edges of `step` nodes."""
    edges, others = step * len(stencil.dx), step + int(np.ptp(stencil.dx))
    return Room(
        _places(step, ids), _places(others, ids), Edges(np.empty(edges, ids), np.empty(edges, ids), _floats(edges))
    )


def _places(count: int, ids: np.dtype[Any]) -> Places:
    """Room for places."""
    return Places(np.empty(count, ids), _floats(count), _floats(count), _floats(count))


def _floats(count: int) -> NDArray[np.float32]:
    """Room for weights or jitters."""
    return np.empty(count, np.float32)


def _stencil(shape: Lattice, degree: int) -> Stencil:
    """The nearest offsets of one half space, row by row."""
    offsets = _nearest_offsets(min(degree, shape.nodes - 1) // 2)
    steps = offsets @ np.array([shape.plane, shape.row, 1])
    around = np.stack((steps, -steps), axis=1).ravel() % shape.nodes
    again = np.ones(len(around), np.bool)
    again[np.unique(around, return_index=True)[1]] = False
    clash = np.flatnonzero(again | (around == 0))  # met before, or the node itself
    fitting = int(clash[0]) // 2 if len(clash) else len(steps)
    if fitting < degree // 2:
        raise InputError(
            f"nodes={shape.nodes} are too few for degree={degree}, where edges would be loops or the same: use more "
            f"nodes, or degree={2 * fitting} or less"
        )
    order = np.lexsort(offsets.T[::-1])
    dz, dy, dx = np.ascontiguousarray(offsets[order].T)
    return Stencil(dx, dy, dz)


def _nearest_offsets(count: int) -> NDArray[np.int64]:
    """The nearest `(dz, dy, dx)` of the half space above 0, nearest first; of equally near ones, the smaller first."""
    found, reach = np.empty((0, 3), np.int64), 0
    while len(found) < count:
        reach += 1
        side = np.arange(-reach, reach + 1)
        cube = np.stack(np.meshgrid(side, side, side, indexing="ij"), axis=-1).reshape(-1, 3)
        half = cube[len(cube) // 2 + 1 :]  # in order, so the origin is in the middle
        found = half[(half**2).sum(axis=1) <= reach**2]
    return found[np.argsort((found**2).sum(axis=1), kind="stable")[:count]]


def _check_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Raise unless `value` is a whole number in a range."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        upper = "or more" if most is None else f"to {most}"
        raise InputError(f"{name}={value!r} is not a whole number, {least} {upper}")
