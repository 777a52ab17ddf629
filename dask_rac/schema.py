"""What recipes may say: the keys of each kind of step, what their values must be, and what changes a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Check = Callable[[Any], Any]
"""Gives a value as it is to be used; raises ValueError with what it should be."""


class Key(NamedTuple):
    """What may be said of a step."""

    check: Check
    default: Any = None
    result: bool = True
    """Whether it changes what comes out; if not, a step that is done stays done."""
    required: bool = False


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("text")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _number(value: Any) -> float:
    """A number; YAML takes 1e6 for text."""
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError):
        raise ValueError("a number") from None


def whole(value: Any) -> int:
    """A whole number, also as text: 1_000_000 or 1e6."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        if isinstance(value, str) and "e" not in value.lower():
            return int(value)
        number = _number(value)
        if number != int(number):
            raise ValueError
        return int(number)
    except (ValueError, OverflowError):
        raise ValueError("a whole number") from None


def _number_or_word(value: Any) -> float | str:
    try:
        return _number(value)
    except ValueError:
        return _text(value)


def _size(value: Any) -> str | int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("an amount of memory, such as 6GB")
    return value


def _some(check: Check) -> Check:
    """One, or a list of them."""

    def checked(value: Any) -> Any:
        try:
            return [check(one) for one in value] if isinstance(value, list) else check(value)
        except ValueError as error:
            raise ValueError(f"{error}, or a list of such") from None

    return checked


def _columns(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(c, str | int | None) for c in value):
        raise ValueError("a list of three columns: source, target and weight")
    return value


SETTINGS = ("linkage", "missing", "weights", "max_height", "duplicates", "finisher")
"""The keys that say what a run computes, in the order in which they are checked."""

PLACE = {"scheduler": Key(_text, result=False)}

STEPS: dict[str, dict[str, Key]] = {
    "generate": {
        "kind": Key(_text, "lattice"),
        "nodes": Key(whole, required=True),
        "seed": Key(whole, 0),
        "degree": Key(whole),
        "weights": Key(_text),
        "dimensions": Key(whole),
        "terms": Key(whole),
        "length": Key(_number),
        "topics": Key(whole),
        "output": Key(_text),
        **PLACE,
    },
    "ingest": {
        "edges": Key(_text, required=True),
        "columns": Key(_columns),
        "delimiter": Key(_text),
        "header": Key(_flag, True),
        "output": Key(_text, "edges"),
    },
    "graph": {
        "kind": Key(_text, "knn"),
        "vectors": Key(_text),
        "k": Key(whole),
        "mode": Key(_text),
        "method": Key(_text),
        "eps": Key(_number),
        "metric": Key(_text, "euclidean"),
        "columns": Key(_some(_text)),
        "seed": Key(whole),
        "memory": Key(_size, result=False),
        "output": Key(_text, "edges"),
        **PLACE,
    },
    "cluster": {
        "edges": Key(_text),
        "linkage": Key(_text, "average"),
        "missing": Key(_number_or_word),
        "weights": Key(_text, "distance"),
        "n_nodes": Key(whole),
        "max_height": Key(_number),
        "duplicates": Key(_text, "error"),
        "finisher": Key(_flag, True),
        "memory": Key(_size, result=False),
        "shards": Key(whole, result=False),
        "output": Key(_text, "run"),
        **PLACE,
    },
    "verify": {"run": Key(_text), **PLACE},
    "cut": {
        "run": Key(_text),
        "height": Key(_some(_number)),
        "clusters": Key(_some(whole)),
        "output": Key(_text, "labels.parquet"),
    },
    "export": {
        "run": Key(_text),
        "join": Key(_flag, False),
        "zero": Key(_number),
        "output": Key(_text, required=True),
    },
    "report": {
        "run": Key(_text),
        "height": Key(_some(_number)),
        "output": Key(_text, "report.html"),
    },
}
"""What each kind of step may be told."""

INPUTS = {
    "graph": ("vectors", ("generate",)),
    "cluster": ("edges", ("graph", "generate", "ingest")),
    "verify": ("run", ("cluster",)),
}
INPUTS |= dict.fromkeys(("cut", "export", "report"), INPUTS["verify"])
"""What a step works on, and the kinds of steps that make it."""

GENERATED: dict[str, dict[str, Any]] = {
    "lattice": {"degree": 40, "weights": "distance"},
    "sift": {"dimensions": 128},
    "documents": {"terms": None, "length": 100.0, "topics": 64},
}
"""What is generated, what may be said of it beside its size and seed, and what it is by default."""

OUTPUTS = {"sift": "sift.bvecs", "documents": "documents.zarr"}
"""Where they go by default, if not to `edges`."""

GRAPHS: dict[str, dict[str, Any]] = {
    "knn": {"k": 15, "mode": "union", "method": "exact", "seed": 0},
    "eps": {"eps": None},
    "complete": {},
}
"""The graphs of vectors, with the same."""

TOP = {"folder": Key(_text), "scheduler": Key(_text), "require-tls": Key(_flag), "steps": Key(lambda value: value)}


def particulars(given: Mapping[str, Any], kinds: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What is said of a step that only its kind knows, the rest filled in."""
    from dask_rac.config import check_word  # noqa: PLC0415 - `dask-rac --help` must not wait for numpy
    from dask_rac.errors import InputError  # noqa: PLC0415 - as above

    check_word("kind", given["kind"], tuple(kinds))
    known = kinds[given["kind"]]
    for name in {name for other in kinds.values() for name in other} - known.keys():
        if given[name] is not None:
            raise InputError(f"kind={given['kind']!r} has no {name}: leave it out")
    told = {name: default if given[name] is None else given[name] for name, default in known.items()}
    for name, value in told.items():
        if value is None:
            raise InputError(f"kind={given['kind']!r} needs {name}")
    return told
