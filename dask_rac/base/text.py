"""Numbers as people read them."""

from __future__ import annotations

import math

SCALES = ((1e15, 1e15, "PB"), (1e12, 1e12, "TB"), (1e8, 1e9, "GB"), (-math.inf, 1e6, "MB"))
"""For sizes from the first number of bytes on: the bytes of the unit, and its name."""


def size_text(size: float) -> str:
    """Format a number of bytes for people."""
    _, unit, name = next(scale for scale in SCALES if size >= scale[0])
    return f"{size / unit:.3g} {name}"
