"""Zarr arrays and groups as inputs: every chunk must exist, and must be able to hold what the metadata states.

For a chunk that is missing zarr returns the fill value, so that a lost file would read as zeros. Zarr also leaves out
chunks that hold only the fill value, unless `write_empty_chunks` is set. The two cannot be told apart, so both are
refused. All checks are by names and sizes of the files, and their cost is bounded by the number of files: what the
metadata states is not believed before it is compared with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from zarr import open as open_node
from zarr.storage import FsspecStore, LocalStore, WrapperStore

from dask_rac.base.errors import InputError
from dask_rac.base.text import size_text
from dask_rac.files.reading import readable

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest, Store
    from zarr.core.buffer import Buffer, BufferPrototype

METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
KEPT = 64  # arrays and groups that a process keeps open
RATIO = 2**20  # bytes of values per byte on disk: no compression gives more
INDEX_ENTRY = 16  # bytes that the index of a shard has for each chunk in it
EMPTY_CHUNKS = "zarr.config.set({'array.write_empty_chunks': True})"


@lru_cache(KEPT)
def kept_node(place: str, _listing: str) -> Any:
    """Open the Zarr array or group at a path or URL; each process reads its metadata only once per listing."""
    with readable(place, "Zarr"):
        return open_node(_chunk_store(place), mode="r")


@lru_cache(KEPT)
def kept_arrays(place: str, listing: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Open the named arrays of the Zarr group at a path or URL; each process reads their metadata only once."""
    with readable(place, "Zarr"):
        group = kept_node(place, listing)
        return {name: group[name] for name in names}


def check_chunks(arrays: Iterable[Any], root: str, infos: Mapping[str, Any], shown: str) -> None:
    """Raise if a chunk of some arrays is not among the files below `root`, or is too small for what it should hold."""
    sizes = {path: int(info["size"] or 0) for path, info in infos.items()}
    for array in arrays:
        with readable(shown, "Zarr"):
            _check_array(array, root, sizes, f"{array.path!r} of {shown}" if array.path else shown)


def _check_array(array: Any, root: str, sizes: Mapping[str, int], what: str) -> None:
    """Raise if a chunk of an array is missing or too small."""
    folder = f"{root.rstrip('/')}/{array.path}".rstrip("/")
    steps = array.shards or array.chunks
    counts = [-(-size // step) for size, step in zip(array.shape, steps, strict=True)]
    wanted = math.prod(counts)
    least = array.dtype.itemsize * math.prod(steps) // RATIO + 1
    if array.shards:
        least = max(least, INDEX_ENTRY * math.prod(steps) // math.prod(array.chunks))
    for number in range(min(wanted, len(sizes) + 1)):  # of more chunks than there are files, one is missing
        key = array.metadata.encode_chunk_key(_place(number, counts))
        size = sizes.get(f"{folder}/{key}")
        if size is None:
            raise InputError(
                f"chunk {key} of array {what} is missing, of {wanted} chunks: restore it; if Zarr left it out because "
                f"all its values are the fill value, write the array again after {EMPTY_CHUNKS}"
            )
        if size < least:
            needed = size_text(array.dtype.itemsize * math.prod(steps))
            raise InputError(
                f"chunk {key} of array {what} has {size} bytes, too few for the {needed} that its metadata states: "
                "restore it, or write the array again"
            )


def _place(number: int, counts: Iterable[int]) -> tuple[int, ...]:
    """Return the coordinates of a chunk by its number in C order."""
    place = []
    for count in reversed(list(counts)):
        number, last = divmod(number, count)
        place.append(last)
    return tuple(reversed(place))


def _chunk_store(place: str) -> Store:
    """Return the store at a path or URL, in which reading a missing chunk raises an error."""
    far = "://" in place
    return _CompleteStore(FsspecStore.from_url(place, read_only=True) if far else LocalStore(place, read_only=True))


class _CompleteStore(WrapperStore[Any]):
    """A store that has all its chunks."""

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        chunk: Buffer | None = await self._store.get(key, prototype, byte_range)
        if chunk is None and not key.endswith(METADATA):
            raise FileNotFoundError(f"chunk {key} is missing")
        return chunk
