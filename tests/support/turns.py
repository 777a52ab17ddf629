"""Processes that work on the same files in turns, which a seeded generator gives them, so that it can be repeated."""

from __future__ import annotations

import multiprocessing
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from tests.support.calls import Call, watched
from tests.support.crash import PATIENCE, Child
from tests.support.subjects import one_thread

SEEN = frozenset(
    {"open", "create", "mkdir", "rmdir", "unlink", "link", "replace", "rename", "listdir", "scandir", "stat", "lstat"}
    | {"flock", "fsync"}
)
"""Calls that other processes can notice, or that notice others; between two of them nothing can happen."""

BURSTS = (1, 1, 2, 3, 5, 10, 30, 100, 300, 1000)


class _Player:
    """A process, which waits for its turn at every call that others can notice."""

    def __init__(self, work: Callable[..., Any], root: Path, seed: str, *arguments: Any) -> None:
        self._ours, theirs = multiprocessing.Pipe()
        self.child = Child(_play, theirs, root, seed, work, arguments)
        theirs.close()

    def waits(self) -> bool:
        """Wait until it waits for its turn, or has ended; return which."""
        try:
            assert self._ours.poll(PATIENCE), "a process neither ended nor made a call"
            self._ours.recv()
        except EOFError:
            self._ours.close()
            return False
        return True

    def go(self, calls: int) -> None:
        """Let it make some calls."""
        self._ours.send(calls)


def take_turns(chance: Random, root: Path, works: list[tuple[Any, ...]]) -> list[Any]:
    """Run functions with their arguments in processes, one of them at a time, and return what they come to."""
    players = [_Player(work, root, f"{chance.random()}", *arguments) for work, *arguments in works]
    waiting = [player for player in players if player.waits()]
    while waiting:
        player = chance.choice(waiting)
        player.go(chance.choice(BURSTS))
        if not player.waits():
            waiting.remove(player)
    return [player.child.join() for player in players]


def _play(pipe: Connection, root: Path, seed: str, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Do the work in turns with others."""
    left, names = 0, Random(seed)

    def act(call: Call) -> Any:
        nonlocal left
        if call.name in SEEN:
            if not left:
                pipe.send(None)
                left = pipe.recv()
            left -= 1
        return call.go()

    def name() -> uuid.UUID:
        return uuid.UUID(int=names.getrandbits(128), version=4)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(uuid, "uuid4", name))
        stack.enter_context(one_thread())
        stack.enter_context(watched(root, act))
        return work(*arguments)
