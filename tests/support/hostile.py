"""Values and texts that no file of ours holds, and what must come of them."""

from __future__ import annotations

import json
import resource
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import dask_rac

SECRET = "hush-4711"
CPU_SECONDS = 5
EXTRA_BYTES = 2**30

TYPED = (dask_rac.InputError, dask_rac.StoreError, dask_rac.ResourceError, dask_rac.AuditError, MemoryError)


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    2**31,
    2**62,
    2**63,
    10**400,
    -(10**30),
    float("inf"),
    float("nan"),
    "",
    "x",
    "../../x",
    "merges/../../x",
    "/etc/passwd",
    "nul\0byte",
    "a" * 5_000,
    "2026-02-31",
    f"https://user:{SECRET}@127.0.0.1:9/x",
    f"https://127.0.0.1:9/x?code={SECRET}",
    f"reference::http://127.0.0.1:9/x#token={SECRET}",
    [],
    {},
    [1, 2],
    {"a": {"b": 1}},
    nested(50),
    nested(450),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def _any_value(chance: Random) -> Any:
    """A copy of a value, as it will be changed itself."""
    return json.loads(json.dumps(chance.choice(VALUES)))


def mutated(document: Any, chance: Random) -> Any:
    """A copy of a document with one or two changes: values replaced, deleted, doubled, moved or added."""
    copy = json.loads(json.dumps(document))
    for _ in range(chance.choice((1, 1, 2))):
        *outer, last = chance.choice([path for path in places(copy) if path] or [(None,)])
        if last is None:
            return _any_value(chance)
        holder = copy
        for key in outer:
            holder = holder[key]
        kind = chance.choice(("replace", "replace", "replace", "delete", "add", "swap"))
        if kind == "replace":
            holder[last] = _any_value(chance)
        elif kind == "delete":
            del holder[last]
        elif kind == "add" and isinstance(holder, dict):
            holder[chance.choice(("engine", "x", "", "__class__"))] = _any_value(chance)
        elif kind == "swap" and isinstance(holder, dict):
            other = chance.choice(list(holder))
            holder[last], holder[other] = holder[other], holder[last]
        else:
            holder[last] = [holder[last]] * 3
    return copy


def damaged(data: bytes, chance: Random) -> bytes:
    """Bytes of which some are lost, changed or repeated."""
    at, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    kind = chance.choice(("truncate", "flip", "cut", "repeat", "insert"))
    if kind == "truncate":
        return data[:at]
    if kind == "flip" and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if kind == "cut":
        return data[:at] + data[end:]
    if kind == "repeat":
        return data[:end] + data[at:]
    return data[:at] + chance.choice((b"\0", b"\xff", b"[" * 5_000, b'{"a":' * 5_000, b"9" * 5_000, b"\r")) + data[at:]


def outcome(work: Callable[[], Any]) -> Any:
    """What work returns, or the typed error that it raises; anything else, a hang, or a flood of memory, raises."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with _limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they repeat what a changed record claims
            found = work()
    except TYPED as error:
        found = error
        text = str(error)
        assert SECRET not in text, text
        assert len(text) < 20_000, f"{len(text)} characters"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < EXTRA_BYTES, f"{grown} kB more"
    return found


@contextmanager
def _limited() -> Iterator[None]:
    """Raise TimeoutError after some seconds of computing: a busy machine must not look like a hang."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"{CPU_SECONDS} s of computing")

    previous = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
