"""When requests to a server fail: now and then, several in a row, or all from some moment on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass
class Weather:
    """How often requests fail."""

    chance: Random
    often: float = 0.0
    """Share of the requests that fail."""
    burst: int = 1
    """Requests that fail one after the other, at most."""
    down_after: int | None = None
    """Requests after which none succeeds any more."""
    late: float = 0.0
    """Share of the lists of names that are out of date."""
    failed: int = 0
    """Requests that have failed."""
    _asked: int = 0
    _left: int = 0

    def strikes(self) -> bool:
        """Whether the next request fails."""
        self._asked += 1
        if self._left:
            self._left -= 1
        elif self.chance.random() < self.often:
            self._left = self.chance.randrange(self.burst)
        elif self.down_after is None or self._asked <= self.down_after:
            return False
        self.failed += 1
        return True


def calm() -> Weather:
    """Nothing fails."""
    return Weather(Random(0))


def bad_weather(chance: Random) -> Weather:
    """Showers, late lists, storms, or a server that goes away for good."""
    kinds: list[Callable[[], Weather]] = [
        lambda: Weather(chance, often=chance.choice((0.01, 0.05, 0.2)), burst=chance.choice((1, 3))),
        lambda: Weather(chance, often=0.02, burst=2, late=0.2),
        lambda: Weather(chance, often=chance.choice((0.005, 0.02)), burst=10_000),
        lambda: Weather(chance, down_after=chance.randrange(400)),
    ]
    return chance.choice(kinds)()
