"""Points and graphs with known labels, for benchmarks of quality."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.preprocessing import scale

Labelled = tuple[NDArray[np.float64], NDArray[np.int64]]
LabelledEdges = tuple[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]], NDArray[np.int64]]


def mixture(seed: int = 0, overlap: float = 1.0) -> Labelled:
    """Return 2,000 points in eight clumps of different sizes, in ten dimensions."""
    rng = np.random.default_rng(seed)
    label = rng.choice(8, 2_000, p=np.arange(1, 9) / 36)
    return rng.normal(2 / overlap * rng.normal(size=(8, 10))[label]), label


def standardised(load: Callable[..., Any]) -> Labelled:
    """Return the features of a data set, each with mean 0 and deviation 1, and its labels."""
    points, label = load(return_X_y=True)
    return scale(points), label


def alike_digits(least: float) -> LabelledEdges:
    """Return the pairs of digits whose cosine is above a threshold, and the digits."""
    points, label = datasets.load_digits(return_X_y=True)
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    cosine = np.triu(unit @ unit.T, 1)
    u, v = np.nonzero(cosine > least)
    return (u, v, cosine[u, v]), label


def hub_blocks(outside: float, nodes: int = 2_000, seed: int = 0) -> LabelledEdges:
    """Return how often nodes of eight blocks meet: most often those of one block, and a few with nearly everybody."""
    rng = np.random.default_rng(seed)
    label = rng.integers(8, size=nodes)
    sociable = np.minimum((1 - rng.random(nodes)) ** (-1 / 1.5), 60.0)
    rate = np.outer(sociable, sociable) * np.where(label[:, None] == label, 0.02, outside)
    met = np.triu(rng.poisson(rate), 1)
    u, v = np.nonzero(met)
    return (u, v, met[u, v].astype(np.float64)), label


DATA: dict[str, Callable[[], Labelled]] = {
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "breast cancer": lambda: standardised(datasets.load_breast_cancer),
    "wine": lambda: standardised(datasets.load_wine),
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "mixture": mixture,
    "mixture, overlapping": lambda: mixture(1, 1.5),
}

GRAPHS: dict[str, Callable[[], LabelledEdges]] = {
    "digits, cosine above 0.8": lambda: alike_digits(0.8),
    "digits, cosine above 0.85": lambda: alike_digits(0.85),
    "blocks with hubs": lambda: hub_blocks(0.0005),
    "blocks with hubs, blurred": lambda: hub_blocks(0.002),
}
"""Similarities in which some nodes have hundreds of edges."""
