"""Where users called this package, which is the line that a warning names."""

from __future__ import annotations

import inspect

PACKAGE = __name__.partition(".")[0]


def outer_level() -> int:
    """Return the `stacklevel` for a warning in the caller: that of the nearest line outside of this package."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == PACKAGE:
        level, frame = level + 1, frame.f_back
    return max(1, level)
