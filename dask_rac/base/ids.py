"""Which integers hold ids: two rules, because rounds store more than an id in an integer, and files do not.

In rounds, a fate is the position of a cluster with two bits and a sign beside it (`kernels.rows.match`), so only 29 of
32 bits are left for positions and ids. Edges and lists of neighbours hold plain ids, on disk, and use all that int32
has: a graph of a billion nodes is written with 4 bytes per id, and clustered with 8.
"""

from __future__ import annotations

import numpy as np

INT32_CLUSTERS = 2**29
"""Up to this many clusters, their ids are int32."""
INT32_ENDS = 2**31
"""Below this many nodes, the ends of edges are int32."""

IdType = np.dtype[np.signedinteger]


def cluster_id_dtype(count: int) -> IdType:
    """Return the dtype of ids, positions and sizes of clusters in rounds, and of counts of that many entries."""
    return np.dtype(np.int32 if count <= INT32_CLUSTERS else np.int64)


def edge_id_dtype(nodes: int) -> IdType:
    """Return the dtype of ids of nodes in edges and in lists of neighbours, on disk and in memory."""
    return np.dtype(np.int32 if nodes < INT32_ENDS else np.int64)
