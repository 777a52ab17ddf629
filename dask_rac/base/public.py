"""The name by which users know a class."""

from __future__ import annotations

from inspect import get_annotations
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type[Any])


def public(cls: Class) -> Class:
    """Name a class after the package, from which users import it, and not after the module that happens to hold it.

    Tracebacks, reprs, pickles and the documentation then say `dask_rac.InputError`, wherever the class moves. Put it
    above other decorators: `dataclass` looks up annotations in the module that a class claims to be from.
    """
    cls.__annotations__ = get_annotations(cls, eval_str=True)  # as text, they would be looked up in the package later
    cls.__module__ = "dask_rac"
    return cls
