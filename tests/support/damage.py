"""Damage to the files of a store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from dask_rac.store.manifest import Manifest, file_names

KINDS = ("truncate", "flip", "delete", "swap")
HEADER = "rac.json"
PATTERNS = (HEADER, "manifests/*.json", "rounds/**/*", "merges/*", "tree/**/*")


@dataclass(frozen=True)
class Strike:
    """How one file is damaged."""

    kind: str
    pattern: float
    """Which of the patterns that match any file, from 0 to 1."""
    file: float
    """Which of the files that match it, from 0 to 1."""
    place: float
    """Where in the file, from 0 to 1; for a swap, which file it is swapped with."""
    bit: int = 0

    def hit(self, store: Path) -> set[str]:
        """Damage a file of a store, and return the names of those that changed; none if there is no file."""
        found = [sorted(path for path in store.glob(pattern) if path.is_file()) for pattern in PATTERNS]
        there = [files for files in found if files]
        if not there:
            return set()
        files = there[int(self.pattern * len(there))]
        path, other = files[int(self.file * len(files))], files[int(self.place * len(files))]
        data = path.read_bytes()
        at = int(self.place * len(data))
        if self.kind == "delete":
            path.unlink()
        elif self.kind == "swap":
            path.write_bytes(other.read_bytes())
            other.write_bytes(data)
        elif self.kind == "flip" and data:
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << self.bit]) + data[at + 1 :])
        else:
            path.write_bytes(data[:at])
        return {str(changed.relative_to(store)) for changed in ({path, other} if self.kind == "swap" else {path})}


def strikes() -> st.SearchStrategy[Strike]:
    """Damage of every kind to files of every kind."""
    share = st.floats(0, 1, exclude_max=True)
    return st.builds(Strike, st.sampled_from(KINDS), share, share, share, st.integers(0, 7))


def needed_files(chain: list[Manifest]) -> set[str]:
    """The files without which a run cannot be resumed from its last step."""
    manifests = {f"manifests/{manifest.step:05d}.json" for manifest in chain}
    tables = {table.name for manifest in chain for table in manifest.merges}
    groups = {f"{name}/zarr.json" for name in (chain[-1].state.groups if chain and chain[-1].state else ())}
    return {HEADER, *manifests, *tables, *groups, *(file_names(chain[-1]) if chain else ())}
