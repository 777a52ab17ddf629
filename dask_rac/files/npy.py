"""The header of a .npy file, which is not believed before it is compared with the size of the file."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_rac.files.reading import readable

AGAIN = "write it again with numpy.save"
HEAD = 2**16  # bytes, more than the header of any .npy of numbers


@dataclass(frozen=True)
class NpyHeader:
    """What the header of a .npy file states."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int
    """Bytes before the first value."""

    @property
    def size(self) -> int:
        """The size of the file, if it is whole."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def read_header(head: bytes, shown: str) -> NpyHeader:
    """Return what the first bytes of a .npy file state."""
    file = io.BytesIO(head)
    with readable(shown, ".npy", remedy=AGAIN):
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        if any(size < 0 for size in shape):
            raise ValueError(f"its shape is {shape}")
    return NpyHeader(shape, fortran, dtype, file.tell())
