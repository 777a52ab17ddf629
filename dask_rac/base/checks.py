"""Checks of single values that users pass."""

from __future__ import annotations

import math

import numpy as np

from dask_rac.base.errors import InputError
from dask_rac.base.text import quoted


def check_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Raise unless `value` is a whole number in a range."""
    allowed = f"use {least} or more" if most is None else f"use {least} to {most}"
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise InputError(f"{name}={quoted(value)} is not a whole number: {allowed}")
    if value < least or (most is not None and value > most):
        raise InputError(f"{name}={quoted(value)} is out of range: {allowed}")


def check_kind(known: str | None, weights: str, remedy: str = "set weights={known!r}") -> None:
    """Raise if edges are known to have another kind of weights."""
    if known is not None and known != weights:
        plural = "similarities" if known == "similarity" else "distances"
        advice = remedy.format(weights=weights, known=known)
        raise InputError(f"weights={weights!r}, but these edges have {plural}: {advice}")


def check_word(name: str, value: object, known: tuple[str, ...], also: str = "") -> None:
    """Raise unless `value` is one of the known words."""
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{name}={quoted(value)} is unknown: use one of {', '.join(map(repr, known))} {also}".rstrip())


def checked_number(name: str, value: object) -> float:
    """Return `value` as a float that is not NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{name}={quoted(value)} is not a number")
    try:
        number = float(value)
    except OverflowError as error:
        raise InputError(f"{name} is too large for a float") from error
    if math.isnan(number):
        raise InputError(f"{name}={quoted(value)} is not a number")
    return number


def checked_finite(name: str, value: object, remedy: str) -> float:
    """Return `value` as a finite float."""
    number = checked_number(name, value)
    if math.isinf(number):
        raise InputError(f"{name}={quoted(value)} is not finite: {remedy}")
    return number
