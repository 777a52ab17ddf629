"""Zarr stores in which every chunk must exist: for a chunk that is gone, zarr itself would return zeros."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zarr.storage import FsspecStore, LocalStore, WrapperStore

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest, Store
    from zarr.core.buffer import Buffer, BufferPrototype

METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


def chunk_store(place: str, complete: bool) -> Store:
    """Return the store at a path or URL; if it is `complete`, reading a missing chunk raises an error."""
    far = "://" in place
    store: Store = FsspecStore.from_url(place, read_only=True) if far else LocalStore(place, read_only=True)
    return _CompleteStore(store) if complete else store


def chunk_files(array: Any) -> int:
    """Return the number of files that an array has if no chunk is left out."""
    return math.prod(-(-size // step) for size, step in zip(array.shape, array.shards or array.chunks, strict=True))


class _CompleteStore(WrapperStore[Any]):
    """A store that has all its chunks."""

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        chunk: Buffer | None = await self._store.get(key, prototype, byte_range)
        if chunk is None and not key.endswith(METADATA):
            raise FileNotFoundError(f"chunk {key} is missing")
        return chunk
