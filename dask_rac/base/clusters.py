"""Clusters that this process has started elsewhere: nothing but this process stops them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_started: list[str] = []


@contextmanager
def cluster_to_stop(name: str) -> Iterator[None]:
    """Note during the block that a cluster has to be stopped before this process may end."""
    _started.append(name)
    try:
        yield
    finally:
        _started.remove(name)


def clusters_to_stop() -> Sequence[str]:
    """Return the names of the clusters that this process still has to stop."""
    return tuple(_started)
