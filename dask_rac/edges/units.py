"""Files of edges, and the pieces in which they are read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EdgeFile:
    """A Parquet file or a Zarr group of edges."""

    path: str
    rows: int
    groups: tuple[int, ...]
    """Rows of each unit of reading: a row group or a chunk."""
    weight: str
    """dtype of the weights."""
    stamp: str
    """Size and time of the file."""
    bytes: int
    largest_id: int | None = None
    """The largest id, where the file says so."""
    nodes: int | None = None
    """Number of nodes, if the file states it: some may have no edges."""
    kind: str | None = None
    """Whether weights are distances or similarities, if the file states it."""
    whole_rows: int = 0
    """Rows that can only be decoded together: those of a chunk. Row groups are decoded in pieces."""
    text: bool = False
    """Whether ids are text."""


@dataclass(frozen=True)
class Unit:
    """Consecutive groups of a file: what one task reads."""

    file: str
    first_group: int
    groups: int
    first_row: int
    rows: int

    @property
    def numbers(self) -> range:
        """Numbers of the groups."""
        return range(self.first_group, self.first_group + self.groups)
