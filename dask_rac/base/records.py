"""Records as JSON: parsed without surprises, and every field of the type it was written with."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from dask_rac.base.text import quoted

T = TypeVar("T")

MOST = 2**63
"""No count in a record is as large."""

_JSON_TYPES: dict[Any, tuple[type, ...]] = {
    float: (float, int),
    tuple: (list, tuple),
    Sequence: (list, tuple),
    Mapping: (dict,),
}
"""What stands for a type in JSON, where that is not the type itself."""


def parse_json(data: bytes | str) -> Any:
    """Return what JSON states; raise ValueError if it is not JSON, or nested so deeply that Python gives up."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def decoded(kind: type[T], fields: Any) -> T:
    """Return a dataclass from its fields; raise ValueError unless each has its type, and counts and numbers are sound.

    Fields that are dataclasses themselves must be decoded already.
    """
    if not isinstance(fields, dict):
        raise ValueError(f"{kind.__name__} is {quoted(fields)}")
    known = _field_types(kind)  # type: ignore[arg-type]
    for name, value in fields.items():
        allowed = known.get(name)
        if allowed is None or (allowed and type(value) not in allowed) or not _is_sound(value):
            raise ValueError(f"{quoted(name)} of {kind.__name__} is {quoted(value)}")
    try:
        return kind(**fields)
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from None


def _is_sound(value: Any) -> bool:
    """Whether a number is one that was ever written: no count is negative or huge, and nothing is NaN."""
    if type(value) is int:
        return 0 <= value < MOST
    return type(value) is not float or not math.isnan(value)


@cache
def _field_types(kind: type[Any]) -> dict[str, tuple[type, ...]]:
    """Return the types that the fields of a dataclass may have in JSON; empty for any."""
    return {name: _types_of(hint) for name, hint in get_type_hints(kind).items()}


def _types_of(hint: Any) -> tuple[type, ...]:
    """Return the types of a value in JSON; empty for any."""
    origin = get_origin(hint) or hint
    if origin is Any:
        return ()
    if origin is Literal:
        return tuple({type(word) for word in get_args(hint)})
    if origin in (Union, types.UnionType):
        return tuple(kind for part in get_args(hint) for kind in _types_of(part))
    known: tuple[type, ...] = _JSON_TYPES.get(origin, (origin,))
    return known
