"""Numbers, names and parameters as text that is safe to show."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable
from itertools import pairwise

import pandas as pd

from dask_rac.base.settings import Settings
from dask_rac.base.text import size_text
from dask_rac.show.report.facts import Table
from dask_rac.store.header import Header
from dask_rac.store.manifest import Facts


def escaped(text: str) -> str:
    """Return a text with invisible characters, and those that reverse text, replaced by their escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    """Escape a character as Python and shells do in literals."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quoted(path: str) -> str:
    """Quote a path for a shell, so that every character is preserved."""
    if path.isprintable():
        return shlex.quote(path)
    bare = path.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(f"\\x{ord(c) - 0xDC00:02x}" if 0xDC80 <= ord(c) < 0xDD00 else escaped(c) for c in bare) + "'"


def counted(number: int, thing: str, things: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def share(part: int, whole: int) -> str:
    """Return a part of a whole in percent."""
    percent = 100 * part / whole if whole else 0.0
    return f"{percent:.3g}%" if percent < 99.95 or part == whole else "99.9%"


def distinct_texts(heights: Iterable[float]) -> dict[float, str]:
    """Return heights with six digits, or more where two heights would look equal or in the wrong order."""
    ordered = sorted(set(heights))
    digits = dict.fromkeys(ordered, 6)
    while True:
        texts = {height: repr(height) if count > 16 else f"{height:.{count}g}" for height, count in digits.items()}
        close = [pair for pair in pairwise(ordered) if not float(texts[pair[0]]) < float(texts[pair[1]])]
        if not close:
            return texts
        for pair in close:
            fewest = min(digits[height] for height in pair)
            digits |= {height: fewest + 1 for height in pair if digits[height] == fewest}


def parameters_of(settings: Settings) -> dict[str, str]:
    """Return the parameters of a run."""
    words: dict[str, str] = {"linkage": settings.linkage, "weights": settings.weights}
    if settings.metric:
        words["metric"] = settings.metric
    else:
        finisher = "yes" if settings.finisher else "no"
        words |= {"missing": settings.missing_text, "duplicates": settings.duplicates, "finisher": finisher}
    words |= {"epsilon": repr(settings.epsilon)} if settings.epsilon else {}
    return words | ({"max_height": repr(settings.max_height)} if math.isfinite(settings.max_height) else {})


def graph_of(header: Header, facts: Facts | None) -> dict[str, str]:
    """Return what is known of the input of a stored run."""
    words = {f"{header.settings.input_name} from": header.source or "memory"}
    if facts is None:
        return words
    known = facts.edges and facts.least <= facts.largest
    weights = f"{facts.least:.6g} to {facts.largest:.6g}, {header.weights}" if known else header.weights
    size = size_text(facts.input_bytes)
    words["nodes"] = f"{facts.nodes:,}"
    if header.settings.metric:
        held = {"memory for pairs": size} if header.engine == "matrix" else {"size": size}
        return words | {"pairs": f"{facts.edges:,}", "weights": weights, "engine": header.engine} | held
    per_node = f"{2 * facts.edges / facts.nodes:.3g} on average" if facts.nodes else "0"
    words |= {"edges": f"{facts.edges:,}", "edges per node": per_node, "weights": weights, "size": size}
    again = {"repeated rows": f"{facts.repeats:,}"} if facts.repeats else {}
    return words | again | ({"self loops dropped": f"{facts.loops:,}"} if facts.loops else {})


def path_lines(run: str | None) -> list[tuple[str, str]]:
    """Return code that shows the path of a node to the root: the part before the node, and its language."""
    if run is None:
        return [("clustering.path(", "python")]
    return [(f"dask-rac path {quoted(run)} ", "shell"), (f"dask_rac.open({run!r}).path(", "python")]


def timings_of(seconds: pd.DataFrame, first: str) -> Table:
    """Return the seconds of each phase, one row per index entry plus a total; phases that took no time are left out."""
    used = seconds.loc[:, (seconds > 0).any()]
    columns = (first, *map(str, used.columns), "all")
    values = zip(used.index, used.to_numpy().tolist(), strict=True)
    rows = [(str(name), *map(_seconds, row), _seconds(sum(row))) for name, row in values]
    total = used.sum()
    return Table(columns, (*rows, ("all", *map(_seconds, total), _seconds(float(total.sum())))))


def _seconds(value: float) -> str:
    """Return seconds with three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.001 or not value else "<0.001"
