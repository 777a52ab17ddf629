"""What users should know about the edges they gave, although they can be clustered."""

from __future__ import annotations

from typing import Any

from dask_rac.api.likeness import zeros_text
from dask_rac.base.settings import Settings
from dask_rac.edges.first_id import late_ids_text


def edge_warnings(edges: Any, settings: Settings, found: tuple[int, int, int]) -> list[str]:
    """Return the texts of warnings; `found` are the self loops, the smallest id if it counts, and the nodes."""
    loops, first, nodes = found
    dropped = f"dropped {loops:,} self loop{'s' * (loops != 1)}: a node has no distance to itself"
    late = late_ids_text(first, f"pass n_nodes={nodes} if that is meant") if first else ""
    return [text for text in (dropped if loops else "", late, zeros_text(edges, settings.weights)) if text]
