"""The schema of recipes: the keys of each kind of step, their values, and which of them change a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dask_rac.base.parameters import GRAPHS, METRIC, PAIRS_ENGINE, PAIRS_METRIC, SETTINGS, Parameter

Check = Callable[[Any], Any]
"""Returns a value in its final form; raises ValueError saying what it should be."""


LONGEST = 4_096  # characters, as for a path


class Key(NamedTuple):
    """A key of a step."""

    check: Check
    default: Any = None
    result: bool = True
    """Whether it changes the result; if not, changing it does not redo the step."""
    required: bool = False


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("text")
    if len(value) > LONGEST or "\0" in value:
        raise ValueError(f"text of at most {LONGEST:,} characters, without NUL")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _number(value: Any) -> float:
    """Return a number; YAML reads 1e6 as text."""
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("a number") from None


def whole(value: Any) -> int:
    """Return a whole number, also from text: 1_000_000 or 1e6."""
    try:
        if isinstance(value, int | str) and not isinstance(value, bool) and "e" not in str(value).lower():
            number = int(value)
        else:
            number = int(_number(value))
            if number != _number(value):
                raise ValueError
    except (ValueError, OverflowError):
        raise ValueError("a whole number") from None
    if abs(number) >= 2**63:
        raise ValueError("a whole number of at most 63 bits")
    return number


def _number_or_word(value: Any) -> float | str:
    try:
        return _number(value)
    except ValueError:
        return _text(value)


def _size(value: Any) -> str | int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("an amount of memory, such as 6GB")
    return _text(value) if isinstance(value, str) else whole(value)


def _one_or_list(check: Check) -> Check:
    """Check one value, or each value of a list."""

    def checked(value: Any) -> Any:
        try:
            return [check(item) for item in value] if isinstance(value, list) else check(value)
        except ValueError as error:
            raise ValueError(f"{error}, or a list of these") from None

    return checked


def _columns(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(c, str | int | None) for c in value):
        raise ValueError("a list of three columns: source, target and weight")
    return value


def _setting(name: str, check: Check) -> Key:
    """Return the key of a parameter of a clustering."""
    return Key(check, SETTINGS[name].default)


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
        "text_ids": Key(_flag, False),
        "output": Key(_text, "edges"),
    },
    "graph": {
        "kind": Key(_text, next(iter(GRAPHS))),
        "vectors": Key(_text),
        "k": Key(whole),
        "mode": Key(_text),
        "method": Key(_text),
        "eps": Key(_number),
        "weights": Key(_text),
        "metric": Key(_text, METRIC.default),
        "columns": Key(_one_or_list(_text)),
        "seed": Key(whole),
        "memory": Key(_size, result=False),
        "output": Key(_text, "edges"),
        **PLACE,
    },
    "cluster": {
        "edges": Key(_text),
        "vectors": Key(_text),
        "metric": Key(_text, PAIRS_METRIC.default),
        "engine": Key(_text, PAIRS_ENGINE.default),
        "linkage": _setting("linkage", _text),
        "missing": _setting("missing", _number_or_word),
        "weights": _setting("weights", _text),
        "n_nodes": Key(whole),
        "names": Key(_text),
        "max_height": _setting("max_height", _number),
        "duplicates": _setting("duplicates", _text),
        "finisher": _setting("finisher", _flag),
        "epsilon": _setting("epsilon", _number),
        "memory": Key(_size, result=False),
        "shards": Key(whole, result=False),
        "output": Key(_text, "run"),
        **PLACE,
    },
    "verify": {
        "run": Key(_text),
        "edges": Key(_text, result=False),
        "vectors": Key(_text, result=False),
        **PLACE,
    },
    "cut": {
        "run": Key(_text),
        "height": Key(_one_or_list(_number)),
        "n_clusters": Key(_one_or_list(whole)),
        "min_size": Key(whole),
        "max_size": Key(whole),
        "method": Key(_text),
        "min_cluster_size": Key(_one_or_list(whole)),
        "cluster_selection_epsilon": Key(_number),
        "allow_single_cluster": Key(_flag),
        "max_cluster_size": Key(whole),
        "output": Key(_text, "labels.parquet"),
    },
    "export": {
        "run": Key(_text),
        "join": Key(_flag, False),
        "zero": Key(_number),
        "names": Key(_flag),
        "output": Key(_text, required=True),
    },
    "report": {
        "run": Key(_text),
        "height": Key(_one_or_list(_number)),
        "title": Key(_text),
        "output": Key(_text, "report.html"),
    },
}
"""The keys of each kind of step; what it does is in `kinds`."""

GENERATED: dict[str, dict[str, Parameter]] = {
    "lattice": {"degree": Parameter(40), "weights": SETTINGS["weights"]},
    "sift": {"dimensions": Parameter(128)},
    "documents": {"terms": Parameter(), "length": Parameter(100), "topics": Parameter(64)},
}
"""What can be generated, and the parameters of each besides size and seed."""

TOP = {"folder": Key(_text), "scheduler": Key(_text), "require-tls": Key(_flag), "steps": Key(lambda value: value)}


def particulars(given: Mapping[str, Any], kinds: Mapping[str, Mapping[str, Parameter]]) -> dict[str, Any]:
    """Return the keys that are specific to the kind of a step, with defaults filled in."""
    from dask_rac.base.checks import check_word  # noqa: PLC0415 - `dask-rac --help` must not wait for numpy
    from dask_rac.base.errors import InputError  # noqa: PLC0415 - as above

    check_word("kind", given["kind"], tuple(kinds))
    known = kinds[given["kind"]]
    for name in {name for other in kinds.values() for name in other} - known.keys():
        if given[name] is not None:
            raise InputError(f"kind={given['kind']!r} does not take {name}: remove it")
    values = {name: rule.default if given[name] is None else given[name] for name, rule in known.items()}
    for name, value in values.items():
        if value is None and not known[name].words:
            raise InputError(f"kind={given['kind']!r} needs {name}")
    return values
