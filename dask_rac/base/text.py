"""Numbers as people read them, and values that files hold, cut to what fits into a message."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice
from reprlib import Repr

SCALES = ((1e15, 1e15, "PB"), (1e12, 1e12, "TB"), (1e8, 1e9, "GB"), (-math.inf, 1e6, "MB"))
"""For sizes from the first number of bytes on: the bytes of the unit, and its name."""

LONGEST = 300  # characters of a name or text in a message
MOST = 20  # names in a message


def size_text(size: float) -> str:
    """Format a number of bytes for people."""
    _, unit, name = next(scale for scale in SCALES if size >= scale[0])
    return f"{size / unit:.3g} {name}"


def at_least(size: float) -> str:
    """Format bytes the way a user would write them, rounded up."""
    unit, name = (1e9, "GB") if size >= 1e9 else (1e6, "MB")
    return f"{math.ceil(10 * size / unit) / 10:g}{name}"


class _Brief(Repr):
    """Like `repr`, but never long, whatever a file holds."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxdict = self.maxlist = self.maxtuple = 10
        self.maxstring = self.maxother = self.maxlong = LONGEST

    def repr_int(self, x: int, level: int) -> str:
        """Python refuses to print numbers of thousands of digits."""
        return super().repr_int(x, level) if x.bit_length() < 8 * LONGEST else f"a number of {x.bit_length():,} bits"


_BRIEF = _Brief()


def quoted(value: object) -> str:
    """Return a value as it is quoted in a message: its `repr`, of bounded length."""
    return _BRIEF.repr(value)


def listed(names: Iterable[str]) -> str:
    """Return names for a message, the first of them if there are many."""
    first = [short(name) for name in islice(names, MOST + 1)]
    return ", ".join([*first[:MOST], *["..."] * (len(first) > MOST)])


def short(text: str) -> str:
    """Return a text from a file, cut if it is long."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
