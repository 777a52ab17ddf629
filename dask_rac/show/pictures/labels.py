"""Numbers and names as text for readers."""

from __future__ import annotations

import re

TEX = re.compile(r"\$(?=\$)|\\(?=[\[(])")
CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")
LONGEST = 200


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: 1 round, 1,203 rounds."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share of a whole in percent."""
    return f"{100 * share:.0f}%" if share >= 0.095 or share == 0 else f"{100 * share:.2g}%"


def seconds_text(seconds: float) -> str:
    """Return a duration: 4.2 ms, 12.3 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 0.1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 99.95:
        return f"{seconds:.3g} s"
    minutes = round(seconds) // 60
    if minutes < 100:
        return f"{minutes} min {round(seconds) % 60} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def plain(text: object, longest: int = LONGEST) -> str:
    """Return a name given by a user as one line that BokehJS draws literally, even if it looks like TeX."""
    line = CONTROL.sub(" ", str(text))
    line = line if len(line) <= longest else f"{line[: longest - 1]}…"
    return TEX.sub(lambda found: f"{found[0]}\u200b", line)
