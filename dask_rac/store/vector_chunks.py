"""Zarr of which every chunk is known to be there: where one is gone, zarr itself would read zeros."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zarr.storage import FsspecStore, LocalStore, WrapperStore

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest, Store
    from zarr.core.buffer import Buffer, BufferPrototype

METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


def chunk_store(place: str, complete: bool) -> Store:
    """The store at a path or URL; if it is complete, to read a chunk that is not there is an error."""
    far = "://" in place
    store: Store = FsspecStore.from_url(place, read_only=True) if far else LocalStore(place, read_only=True)
    return _CompleteStore(store) if complete else store


def chunk_files(array: Any) -> int:
    """The files that an array has if none of its chunks is left out."""
    return math.prod(-(-size // step) for size, step in zip(array.shape, array.shards or array.chunks, strict=True))


class _CompleteStore(WrapperStore[Any]):
    """A store with all its chunks."""

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        found: Buffer | None = await self._store.get(key, prototype, byte_range)
        if found is None and not key.endswith(METADATA):
            raise FileNotFoundError(f"chunk {key} is missing")
        return found
