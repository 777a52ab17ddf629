"""Groups of shards: where there are many, rows go to the group of a shard first, and from there to the shard.

If each of S shards read from each of the others, that would be S squared requests, and who wrote a piece would have to
say where S pieces begin. With groups of about the square root of S it is 2 S sqrt(S) requests, and as many numbers,
for writing and reading once more what has moved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dask_rac.base.spans import Span, even_spans


@dataclass(frozen=True)
class Groups:
    """Shards in groups of the same width; the last may have fewer."""

    shards: int
    width: int

    @property
    def count(self) -> int:
        """Number of groups."""
        return -(-self.shards // self.width)

    def span(self, group: int) -> Span:
        """The shards of a group: first and stop."""
        return self.width * group, min(self.width * (group + 1), self.shards)

    def borders(self, shards: int) -> list[int]:
        """The first shard of each group, then the end, if there are only this many shards."""
        return [min(self.width * group, shards) for group in range(self.count + 1)]

    def batches(self, sources: int) -> list[Span]:
        """Those who send to a group, in as many batches as there are groups."""
        return even_spans(sources, self.count)


def groups_of(shards: int) -> Groups:
    """Return groups of about as many shards as there are groups."""
    return Groups(shards, math.isqrt(max(1, shards) - 1) + 1)
