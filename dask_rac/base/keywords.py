"""Methods that take keywords only, and say so in their own words."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from dask_rac.base.errors import InputError
from dask_rac.base.text import quoted

Method = TypeVar("Method", bound=Callable[..., Any])


def keywords_only(*names: str) -> Callable[[Method], Method]:
    """Refuse values without a name; the error writes out the call with each of the names."""

    def decorated(method: Method) -> Method:
        @wraps(method)
        def checked(self: Any, *values: object, **named: Any) -> Any:
            if values:
                calls = " or ".join(f"{method.__name__}({name}={quoted(values[0])})" for name in names)
                raise InputError(f"{method.__name__}({quoted(values[0])}) does not say what is meant: write {calls}")
            return method(self, **named)

        return cast(Method, checked)

    return decorated
