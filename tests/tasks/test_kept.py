"""What a process keeps between tasks."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import numpy as np
import pytest

from dask_rac.tasks.cache import Kind, forget, forget_state, kept, kept_vector


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """Keep nothing of other tests, nor for them."""
    _forget_all()
    yield
    _forget_all()


def _forget_all() -> None:
    for kind in get_args(Kind):
        forget(kind)


class Value:
    """Something that can be watched until it is released."""


def test_is_made_once() -> None:
    first = kept("bounds", "a", Value)
    assert kept("bounds", "a", pytest.fail) is first


def test_one_of_each_kind() -> None:
    tree, bounds = kept("kdtree", "a", Value), kept("bounds", "a", Value)
    assert tree is not bounds
    assert kept("kdtree", "a", pytest.fail) is tree
    assert kept("bounds", "a", pytest.fail) is bounds


def test_is_released_before_the_next_is_made() -> None:
    held = weakref.ref(kept("bounds", "a", Value))
    assert held() is not None

    def make() -> Value:
        assert held() is None
        return Value()

    assert kept("bounds", "b", make) is not None


def test_is_made_again_if_making_it_failed() -> None:
    with pytest.raises(ZeroDivisionError):
        kept("bounds", "a", lambda: 1 // 0)
    assert kept("bounds", "a", lambda: 2) == 2


def test_threads_wait_for_the_one_that_makes_it() -> None:
    made = []

    def make() -> int:
        made.append(threading.get_ident())
        started.set()
        go.wait(10)
        return 3

    started, go = threading.Event(), threading.Event()
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(kept, "kdtree", "a", make)
        assert started.wait(10)
        others = [pool.submit(kept, "kdtree", "a", make) for _ in range(3)]
        go.set()
        assert [future.result(10) for future in (first, *others)] == [3] * 4
    assert len(made) == 1


def test_no_thread_waits_for_another_kind() -> None:
    started, go = threading.Event(), threading.Event()

    def make() -> bool:
        started.set()
        return go.wait(10)

    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(kept, "kdtree", "a", make)
        assert started.wait(10)
        assert pool.submit(kept, "bounds", "a", lambda: 4).result(5) == 4
        go.set()
        assert slow.result(10)


def test_one_may_need_another() -> None:
    def make() -> int:
        return int(kept_vector("a", lambda: np.arange(3)).sum())

    assert kept("fates", "a", make) == 3


def test_forgets_a_kind_or_a_key() -> None:
    tree = kept("kdtree", "a", Value)
    forget("kdtree", "b")
    forget("bounds")
    assert kept("kdtree", "a", pytest.fail) is tree
    forget("kdtree", "a")
    assert kept("kdtree", "a", Value) is not tree
    forget("kdtree")
    assert kept("kdtree", "a", lambda: None) is None


def test_forgets_a_state_and_nothing_else() -> None:
    tree, vector = kept("kdtree", "a", Value), weakref.ref(kept_vector("a", lambda: np.arange(3)))
    fates = weakref.ref(kept("fates", "a", Value))
    forget_state()
    assert (vector(), fates()) == (None, None)
    assert kept("kdtree", "a", pytest.fail) is tree
