"""File systems that report the times of files in forms of their own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

MOMENT = datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)


def report_times(monkeypatch: pytest.MonkeyPatch, key: str, moment: datetime = MOMENT) -> None:
    """Let memory:// report one time of its files, under `key`: a datetime for one file, a number in listings."""
    info, find = MemoryFileSystem.info, MemoryFileSystem.find

    def timed(known: dict[str, Any], time: datetime | float) -> dict[str, Any]:
        return {name: value for name, value in known.items() if name != "created"} | {key: time}

    def one(self: MemoryFileSystem, path: str, **options: Any) -> dict[str, Any]:
        return timed(info(self, path, **options), moment)

    def several(self: MemoryFileSystem, path: str, detail: bool = False, **options: Any) -> Any:
        found = find(self, path, detail=True, **options)
        return {name: timed(known, moment.timestamp()) for name, known in found.items()} if detail else sorted(found)

    monkeypatch.setattr(MemoryFileSystem, "info", one)
    monkeypatch.setattr(MemoryFileSystem, "find", several)
