"""Files that are read in parts; on an object store, each part is one request."""

from __future__ import annotations

import io
from os import SEEK_CUR, SEEK_END
from typing import Any

from dask_rac.base.errors import InputError
from dask_rac.files.patience import asked
from dask_rac.files.urls import is_local


class _RangeFile(io.RawIOBase):
    """A remote file: each read is one request, for exactly the bytes wanted."""

    def __init__(self, filesystem: Any, path: str, size: int) -> None:
        self._filesystem, self._path, self._size, self._at = filesystem, path, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._at = offset + {SEEK_CUR: self._at, SEEK_END: self._size}.get(whence, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        stop = self._size if size is None or size < 0 else min(self._at + size, self._size)
        if self._at >= stop:
            return b""
        url = self._filesystem.unstrip_protocol(self._path)
        data: bytes = asked(url, InputError, self._filesystem.cat_file, self._path, start=self._at, end=stop)
        self._at += len(data)
        return data


def opened(filesystem: Any, path: str, size: int) -> Any:
    """Open a file to read parts of it."""
    return filesystem.open(path, "rb") if is_local(filesystem) else _RangeFile(filesystem, path, size)
