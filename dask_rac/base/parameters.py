"""The parameters of a clustering and of graphs of vectors: their names, defaults and words.

Plain data, which the command line reads without numpy. Signatures of public functions repeat it, because people read
them; a test compares the two.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

Linkage = Literal["single", "complete", "average", "weighted", "ward"]
Weights = Literal["distance", "similarity"]
Missing = Literal["far", "ignore", "infinite"] | float
Duplicates = Literal["error", "min", "max", "mean"]


class Parameter(NamedTuple):
    """A parameter that users may give."""

    default: Any = None
    """None if there is none, or if it depends on other parameters."""
    words: tuple[str, ...] = ()
    """The words it may be, if it is not just a number."""


SETTINGS = {
    "linkage": Parameter("average", get_args(Linkage)),
    "missing": Parameter(None, ("far", "ignore", "infinite")),
    "weights": Parameter("distance", get_args(Weights)),
    "max_height": Parameter(),
    "duplicates": Parameter("error", get_args(Duplicates)),
    "finisher": Parameter(True),
    "epsilon": Parameter(0.0),
}
"""What determines the result of a clustering, in the order in which it is checked."""

METRIC = Parameter("euclidean", ("euclidean", "sqeuclidean", "cosine", "inner_product", "manhattan"))
"""How vectors are compared, in every kind of graph."""

PAIRS_METRIC = Parameter(None, (*METRIC.words, "precomputed"))
"""How vectors are compared where all pairs are clustered, or that their distances are given."""

PAIRS_ENGINE = Parameter(None, ("matrix", "points", "certain"))
"""Which engine clusters all pairs; None for the first of these that fits."""

GRAPH_WEIGHTS = Parameter(None, get_args(Weights))
"""What the weights of a graph of vectors are; None if they are what the metric gives."""

GRAPHS: dict[str, dict[str, Parameter]] = {
    "knn": {
        "k": Parameter(15),
        "mode": Parameter("union", ("union", "mutual")),
        "method": Parameter("exact", ("exact", "approximate")),
        "weights": GRAPH_WEIGHTS,
        "seed": Parameter(0),
    },
    "eps": {"eps": Parameter(), "weights": GRAPH_WEIGHTS},
    "complete": {"weights": GRAPH_WEIGHTS},
}
"""The kinds of graphs of vectors, and the parameters of each besides the metric."""
