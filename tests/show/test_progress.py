"""What progress says."""

from __future__ import annotations

import time

import pytest

from dask_rac.base.events import Event
from dask_rac.show.progress import Describer


def test_a_pass_over_all_pairs_says_how_long_the_rest_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    now, describe = 100.0, Describer()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    texts = []
    for done in (4, 5, 8):  # a run that goes on begins in the middle
        texts.append(describe(Event("pairs", 1000, done=done, total=20)))
        now += 3.0
    assert texts == [
        "comparing all pairs, piece 4 of 20",
        "comparing all pairs, piece 5 of 20, about 45 s to go",
        "comparing all pairs, piece 8 of 20, about 18 s to go",
    ]
    assert describe(Event("tasks", 1000, done=1, total=2)) == (
        "comparing all pairs, piece 8 of 20, task 1 of 2, about 18 s to go"
    )
    assert describe(Event("pairs", 1000, done=0, total=7)) == "comparing all pairs, piece 0 of 7"
