"""Parameters, names and dtypes that every layer shares."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from dask_rac.errors import InputError

Linkage = Literal["single", "complete", "average"]
Weights = Literal["distance", "similarity"]
Missing = Literal["ignore", "infinite"] | float
Duplicates = Literal["error", "min", "max", "mean"]

EDGE_COLUMNS = ("source", "target", "weight")
MERGE_COLUMNS = ("left", "right", "height", "size", "round")

HAND_OVER = 0.02
"""The finisher takes over after a round that merges fewer than this fraction of the live clusters."""

INT32_NODES = 2**29
"""Up to this many nodes ids are int32: a fate is an id and two more bits, and a sign."""

REFUSED_LINKAGES = {
    "centroid": "centroid linkage is not reducible: a merge can bring clusters nearer, so merging all reciprocal "
    "pairs at once is not HAC; use 'average'",
    "median": "median linkage is not reducible: a merge can bring clusters nearer, so merging all reciprocal pairs "
    "at once is not HAC; use 'average'",
    "ward": "ward linkage needs the distance of every pair of nodes, a complete graph, and has no meaning on a "
    "sparse one; use 'average' or 'complete'",
    "weighted": "weighted linkage needs the distance of every pair of nodes, a complete graph, and has no meaning "
    "on a sparse one; use 'average' or 'complete'",
}


SCALES = ((1e15, 1e15, "PB"), (1e12, 1e12, "TB"), (1e8, 1e9, "GB"), (-math.inf, 1e6, "MB"))
"""From how many bytes on they are told in which unit."""


@dataclass(frozen=True)
class Settings:
    """What is computed: the parameters of a run that change its result."""

    linkage: Linkage
    """How the weights between two clusters become one."""
    missing: Missing
    """What a pair of nodes without an edge weighs."""
    weights: Weights
    """Whether a small or a large weight is close."""
    max_height: float
    """No merge beyond it; for similarities, none below it."""
    duplicates: Duplicates
    """What becomes of an edge given with two weights."""
    finisher: bool
    """Whether the finisher takes over when rounds stop paying."""

    @property
    def sign(self) -> float:
        """1 for distances, -1 for similarities: weights are compared by `sign * weight`."""
        return -1.0 if self.weights == "similarity" else 1.0


@dataclass(frozen=True)
class RoundRecord:
    """What one round did; the finisher is the last round."""

    round: int = field(default=0, kw_only=True)
    """From 1."""
    clusters: int
    """Live clusters, those with an edge, before the round."""
    edges: int
    """Edges between them before the round."""
    merges: int
    """Merges in the round."""
    nearest_updates: int = 0
    """Clusters that did not merge but whose nearest did, so that it had to be found anew; in Boruvka's rounds, all."""
    nearest_seconds: float = 0.0
    """Finding each node's nearest, before the first round."""
    match_seconds: float = 0.0
    """Finding the pairs that merge."""
    fold_seconds: float = 0.0
    """Folding rows, finding the nearest on the way."""
    finish_seconds: float = 0.0
    """The finisher."""
    finisher: bool = False
    """Whether this was the finisher."""
    deferred: bool = False
    """Whether the finisher was due and had no room, so that the round ran in its place."""


@dataclass(frozen=True)
class Event:
    """What a run is doing, for whoever watches."""

    stage: Literal[
        "generate",
        "compile",
        "load",
        "scan",
        "ingest",
        "rounds",
        "tasks",
        "round",
        "rest",
        "finisher",
        "verify",
        "vectors",
        "neighbours",
        "lists",
        "edges",
        "components",
        "done",
    ]
    """What begins now; for "round", what has just ended; for "tasks", what is under way."""
    n_nodes: int = 0
    """Nodes of the graph, 0 before it is known."""
    merges: int = 0
    """Merges done so far."""
    record: RoundRecord | None = None
    """The round that has just ended."""
    done: int = 0
    """Tasks done of the step under way, out of core; for "load", rows read so far."""
    total: int = 0
    """Tasks of the step under way."""
    seconds: float = 0.0
    """What the round took, out of core."""
    bytes: int = 0
    """What the round read and wrote, out of core."""


Progress = Callable[[Event], None]


def checked_settings(
    linkage: str,
    missing: str | float | None,
    weights: str,
    max_height: float | None,
    duplicates: str,
    finisher: bool,
) -> Settings:
    """Settings from what the user gave, each checked by itself."""
    if isinstance(linkage, str) and linkage in REFUSED_LINKAGES:
        raise InputError(f"linkage={linkage!r}: {REFUSED_LINKAGES[linkage]}")
    check_word("linkage", linkage, get_args(Linkage))
    check_word("weights", weights, get_args(Weights))
    check_word("duplicates", duplicates, get_args(Duplicates))
    sign = -1.0 if weights == "similarity" else 1.0
    if missing is None:
        missing = 0.0 if weights == "similarity" else "ignore"
    if isinstance(missing, str):
        check_word("missing", missing, ("ignore", "infinite"), "or a number")
    else:
        missing = _finite("missing", missing, "for pairs infinitely far use missing='infinite'")
    if not isinstance(finisher, bool | np.bool):
        raise InputError(f"finisher={finisher!r} is neither True nor False")
    height = math.inf * sign if max_height is None else checked_number("max_height", max_height)
    if height < 0 and max_height is not None:
        raise InputError(f"max_height={max_height!r} is below 0, where nothing merges: weights are 0 or more")
    return Settings(linkage, missing, weights, height, duplicates, bool(finisher))  # type: ignore[arg-type]


def id_dtype(count: int) -> type[np.signedinteger]:
    """The dtype of ids and sizes for so many nodes, or of counts for so many entries."""
    return np.int32 if count <= INT32_NODES else np.int64


def check_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Raise unless `value` is a whole number in a range."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):  # type: ignore[operator]
        upper = "or more" if most is None else f"to {most}"
        raise InputError(f"{name}={value!r} is not a whole number, {least} {upper}")


def check_kind(known: str | None, weights: str) -> None:
    """Raise if weights are known to be what they are not taken for."""
    if known is not None and known != weights:
        plural = "similarities" if known == "similarity" else "distances"
        raise InputError(f"weights={weights!r}, and these edges have {plural}: set weights={known!r}")


def check_word(name: str, value: object, known: tuple[str, ...], also: str = "") -> None:
    """Raise unless `value` is one of the known words."""
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{name}={value!r} is unknown: use one of {', '.join(map(repr, known))} {also}".rstrip())


def checked_number(name: str, value: object) -> float:
    """`value` as a float that is not NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{name}={value!r} is not a number")
    try:
        number = float(value)
    except OverflowError as error:
        raise InputError(f"{name} is too large for a float") from error
    if math.isnan(number):
        raise InputError(f"{name}={value!r} is not a number")
    return number


def _finite(name: str, value: object, remedy: str) -> float:
    """`value` as a finite float."""
    number = checked_number(name, value)
    if math.isinf(number):
        raise InputError(f"{name}={value!r} is not finite: {remedy}")
    return number


def size_text(size: float) -> str:
    """Bytes for people."""
    _, unit, name = next(scale for scale in SCALES if size >= scale[0])
    return f"{size / unit:.3g} {name}"
