"""A jittered 3-D lattice, wrapped around so that every node has neighbours at the same offsets.

Nodes are numbered along rows, rows along planes, and the first node follows the last. The neighbour of node `i` at
`(dx, dy, dz)` is `(i + dx + dy * row + dz * plane) % nodes`. It lies at that offset plus the difference of the two
jitters. The jitter of a node is a hash of its number, and its id comes from a Feistel network: nothing is stored.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.arrays import Ids
from dask_rac.kernels.jit import inlined, kernel

KEYS = 5

JITTER_BITS = 21  # three fit into a hash, and each into a float32 even after an offset is added
JITTER_STEP = np.float32(2.0**-JITTER_BITS)


class Lattice(NamedTuple):
    """What determines the positions and the ids of nodes."""

    nodes: int
    row: int  # nodes in a row
    plane: int  # nodes in a plane
    similar: bool  # whether weights are similarities
    high: int  # bits of the Feistel network's upper half
    low: int  # bits of its lower half; the two hold every id
    keys: NDArray[np.uint64]  # four of the network and one of the jitter


class Stencil(NamedTuple):
    """The offsets to one half of the neighbours; those in the same row are adjacent, in order of `dx`."""

    dx: NDArray[np.int64]
    dy: NDArray[np.int64]
    dz: NDArray[np.int64]


class Places(NamedTuple):
    """Ids and jitters of consecutive nodes."""

    ids: Ids
    x: NDArray[np.float32]
    y: NDArray[np.float32]
    z: NDArray[np.float32]


class Edges(NamedTuple):
    """Edges, each once."""

    source: Ids
    target: Ids
    weight: NDArray[np.float32]


@inlined
def mix(x, key):
    """Return 64 bits, of which the upper ones are well mixed."""
    h = (x ^ key) * np.uint64(0x9E3779B97F4A7C15)
    return (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)


@inlined
def permute(x, keys, low, top, bottom):
    """Apply the Feistel network, a bijection on numbers whose two halves have the masks `top` and `bottom`."""
    half = np.uint64(32)
    upper, lower = x >> low, x & bottom
    upper ^= (mix(lower, keys[0]) >> half) & top
    lower ^= (mix(upper, keys[1]) >> half) & bottom
    upper ^= (mix(lower, keys[2]) >> half) & top
    lower ^= (mix(upper, keys[3]) >> half) & bottom
    return (upper << low) | lower


@kernel
def place(lattice, first, count, places):
    """Fill `places` for `count` nodes from `first` on; `first` is taken modulo the number of nodes."""
    node, done = first % lattice.nodes, 0
    while done < count:
        stop = min(count, done + lattice.nodes - node)
        jitter(lattice.keys[4], node, places.x[done:stop], places.y[done:stop], places.z[done:stop])
        name(lattice, node, places.ids[done:stop])
        node, done = 0, stop


@kernel
def jitter(key, node, x, y, z):
    """Write the jitters, 0 to 1, of nodes from `node` on."""
    mask = np.uint64((1 << JITTER_BITS) - 1)
    for k in range(len(x)):
        h = mix(np.uint64(node + k), key)
        x[k] = np.float32(np.int32(h >> np.uint64(43))) * JITTER_STEP
        y[k] = np.float32(np.int32((h >> np.uint64(22)) & mask)) * JITTER_STEP
        z[k] = np.float32(np.int32((h >> np.uint64(1)) & mask)) * JITTER_STEP


@kernel
def name(lattice, node, ids):
    """Write the ids of nodes from `node` on."""
    keys = (lattice.keys[0], lattice.keys[1], lattice.keys[2], lattice.keys[3])
    low, nodes = np.uint64(lattice.low), np.uint64(lattice.nodes)
    top, bottom = np.uint64((1 << lattice.high) - 1), np.uint64((1 << lattice.low) - 1)
    for k in range(len(ids)):
        ids[k] = permute(np.uint64(node + k), keys, low, top, bottom)
    # Cycle walking: permute ids that are too large again. A separate loop, as this one cannot be SIMD.
    for k in range(len(ids)):
        x = np.uint64(ids[k])
        if x >= nodes:
            while x >= nodes:
                x = permute(x, keys, low, top, bottom)
            ids[k] = x


@kernel
def fill(lattice, stencil, own, others, edges, span):
    """Write the edges from a range of nodes to one half of their neighbours, offset by offset."""
    start, stop = span
    count = stop - start
    dx, dy, dz = stencil.dx, stencil.dy, stencil.dz
    place(lattice, start, count, own)
    k = 0
    while k < len(dx):
        last = k
        while last + 1 < len(dx) and dy[last + 1] == dy[k] and dz[last + 1] == dz[k]:
            last += 1
        # Neighbours in one row are the same nodes, except for a few at the ends: place them once.
        first = start + dx[k] + dy[k] * lattice.row + dz[k] * lattice.plane
        place(lattice, first, count + dx[last] - dx[k], others)
        for m in range(k, last + 1):
            begin, shift = m * count, dx[m] - dx[k]
            edges.source[begin : begin + count] = own.ids[:count]
            edges.target[begin : begin + count] = others.ids[shift : shift + count]
            weigh((dx[m], dy[m], dz[m]), own, others, shift, edges.weight[begin : begin + count])
        k = last + 1
    if lattice.similar:
        weight = edges.weight
        for e in range(len(dx) * count):
            weight[e] = np.float32(1) / (np.float32(1) + weight[e])


@kernel
def weigh(offset, own, others, shift, weight):
    """Write the distance from each node to its neighbour at one offset."""
    dx, dy, dz = np.float32(offset[0]), np.float32(offset[1]), np.float32(offset[2])
    x, y, z = own.x, own.y, own.z
    to_x, to_y, to_z = others.x[shift:], others.y[shift:], others.z[shift:]
    for i in range(len(weight)):
        a, b, c = dx + (to_x[i] - x[i]), dy + (to_y[i] - y[i]), dz + (to_z[i] - z[i])
        weight[i] = np.sqrt(a * a + b * b + c * c)
