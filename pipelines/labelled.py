"""Points with known labels, for benchmarks of quality."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.preprocessing import scale

Labelled = tuple[NDArray[np.float64], NDArray[np.int64]]


def mixture(seed: int = 0, overlap: float = 1.0) -> Labelled:
    """Return 2,000 points in eight clumps of different sizes, in ten dimensions."""
    rng = np.random.default_rng(seed)
    label = rng.choice(8, 2_000, p=np.arange(1, 9) / 36)
    return rng.normal(2 / overlap * rng.normal(size=(8, 10))[label]), label


def standardised(load: Callable[..., Any]) -> Labelled:
    """Return the features of a data set, each with mean 0 and deviation 1, and its labels."""
    points, label = load(return_X_y=True)
    return scale(points), label


DATA: dict[str, Callable[[], Labelled]] = {
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "breast cancer": lambda: standardised(datasets.load_breast_cancer),
    "wine": lambda: standardised(datasets.load_wine),
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "mixture": mixture,
    "mixture, overlapping": lambda: mixture(1, 1.5),
}
