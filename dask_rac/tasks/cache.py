"""What a process keeps between tasks: one value of each kind, made by the first thread that needs it.

A value belongs to a key, such as the name of a file or the token of a job. Asking for another key releases it before
the next one is made, so that a process never holds two. Each kind has a lock of its own: threads that need a value
wait for the one that makes it, and not for those that make something else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args

from dask_rac.kernels.arrays import Ids

T = TypeVar("T")

Kind = Literal["vector", "fates", "kdtree", "bounds", "pass", "spans"]
"""A vector over all nodes or clusters, what becomes of clusters in a round; a k-d tree of all vectors, how far lists of
neighbours reach; what a pass over all pairs needs of the vectors; vectors in the order in which pairs are spanned."""

_locks = {kind: threading.RLock() for kind in get_args(Kind)}  # making a value may need one of another kind
_kept: dict[str, tuple[Any, Any]] = {}


def kept(kind: Kind, key: Any, make: Callable[[], T]) -> T:
    """Return the value of a kind for a key; it is made unless it is the one that is kept."""
    with _locks[kind]:
        if kind not in _kept or _kept[kind][0] != key:
            _kept.pop(kind, None)
            _kept[kind] = key, make()
        value: T = _kept[kind][1]
        return value


def kept_vector(key: Any, make: Callable[[], Ids]) -> Ids:
    """Return a vector over all nodes or clusters; each process makes it once and keeps it until the next."""
    return kept("vector", key, make)


def forget(kind: Kind, key: Any = None) -> None:
    """Release the value of a kind; with a key, only if it is the value for that key."""
    with _locks[kind]:
        if kind in _kept and key in (None, _kept[kind][0]):
            del _kept[kind]


def forget_state() -> None:
    """Release what this process keeps of the state of a run."""
    forget("vector")
    forget("fates")
