"""Numbers that decide how vectors are compared."""

from __future__ import annotations

from dataclasses import dataclass

MOST_WHOLE = 2.0**22  # the squared norm up to which scores of whole numbers are exact in float32


@dataclass(frozen=True)
class CompareLimits:
    """Numbers that decide how vectors are compared and never which are near; tests hand over smaller ones."""

    tile_rows: int = 512
    """Rows of a tile of products."""
    tile_columns: int = 1024
    """Columns of a tile of products."""
    sparse_tile: int = 2**19
    """Products of sparse rows in a tile."""
    converted_rows: int = 4096
    """Rows prepared at a time."""
    spare_room: int = 32
    """Candidates that a row can hold beyond twice the requested neighbours."""
    least_room: int = 64
    """The fewest candidates for which a row has room."""
    single: tuple[float, float] = (1e-12, 1e15)
    """Between these absolute values squares fit in float32."""
    most_whole: float = MOST_WHOLE
    """The squared norm below which whole numbers are compared as such."""

    def room(self, k: int) -> int:
        """Return the number of candidates that a row can hold."""
        return max(2 * k + self.spare_room, self.least_room)
