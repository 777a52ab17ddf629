"""Damage to the files of a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from dask_rac.store.manifest import Manifest, file_names

HEADER = "rac.json"
PATTERNS = (HEADER, "manifests/*.json", "rounds/**/*", "merges/*", "tree/**/*")


def _flip(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :] if data else data


CHANGES: dict[str, Callable[[bytes, int, int], bytes]] = {
    "flip": _flip,
    "truncate": lambda data, at, bit: data[:at],
    "zero": lambda data, at, bit: data[:at] + bytes(min(512, len(data) - at)) + data[at + 512 :],
    "empty": lambda data, at, bit: b"",
    "lengthen": lambda data, at, bit: data + data[at:],
}
"""What becomes of the bytes of a file, given a place in it and a bit."""

KINDS = (*CHANGES, "delete", "swap", "duplicate")
FOREIGN = "replace"


@dataclass(frozen=True)
class Strike:
    """How one file is damaged."""

    kind: str
    pattern: float
    """Which of the patterns that match any file, from 0 to 1."""
    file: float
    """Which of the files that match it, from 0 to 1."""
    place: float
    """Where in the file, from 0 to 1; which other file it is swapped with, or gets the bytes of."""
    bit: int = 0

    def hit(self, store: Path, patterns: Sequence[str] = PATTERNS, stranger: Path | None = None) -> set[str]:
        """Damage a file of a store, and return the names of those that changed; none if there is no file.

        Damage of the kind `replace` takes a file of another store.
        """
        there = [files for files in (files_like(store, pattern) for pattern in patterns) if files]
        if not there:
            return set()
        files = there[int(self.pattern * len(there))]
        path, other = files[int(self.file * len(files))], files[int(self.place * len(files))]
        data = path.read_bytes()
        if self.kind == "delete":
            path.unlink()
        elif self.kind == "swap":
            path.write_bytes(other.read_bytes())
            other.write_bytes(data)
            return {str(changed.relative_to(store)) for changed in (path, other)}
        elif self.kind == "duplicate":
            path.write_bytes(other.read_bytes())
        elif self.kind == FOREIGN:
            assert stranger is not None
            strangers = [file for pattern in patterns for file in files_like(stranger, pattern)]
            path.write_bytes(strangers[int(self.place * len(strangers))].read_bytes())
        else:
            path.write_bytes(CHANGES[self.kind](data, int(self.place * len(data)), self.bit))
        return {str(path.relative_to(store))}


def files_like(store: Path, pattern: str) -> list[Path]:
    """Some files of a store."""
    return sorted(path for path in store.glob(pattern) if path.is_file())


def strikes(kinds: Sequence[str] = KINDS) -> st.SearchStrategy[Strike]:
    """Damage of these kinds to files of every kind."""
    share = st.floats(0, 1, exclude_max=True)
    return st.builds(Strike, st.sampled_from(kinds), share, share, share, st.integers(0, 7))


def needed_files(chain: list[Manifest]) -> set[str]:
    """The files without which a run cannot be resumed from its last step."""
    manifests = {f"manifests/{manifest.step:05d}.json" for manifest in chain}
    tables = {table.name for manifest in chain for table in manifest.merges}
    groups = {f"{name}/zarr.json" for name in (chain[-1].state.groups if chain and chain[-1].state else ())}
    return {HEADER, *manifests, *tables, *groups, *(file_names(chain[-1]) if chain else ())}
