"""Vectors of all kinds and forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from numpy.typing import NDArray

METRICS = ("euclidean", "sqeuclidean", "cosine", "inner_product", "manhattan")
DISTANCES = ("euclidean", "sqeuclidean", "manhattan")


def drawn(kind: str, n: int, d: int, seed: int) -> NDArray[np.float64]:
    """Vectors of one kind."""
    rng = np.random.default_rng(seed)
    few = rng.standard_normal((max(1, n // 9), d))
    made: dict[str, Callable[[], Any]] = {
        "normal": lambda: rng.standard_normal((n, d)),
        "grid": lambda: rng.integers(0, 3, (n, d)) * 1.0,
        "tenths": lambda: rng.integers(0, 3, (n, d)) * 0.1,
        "copies": lambda: few[rng.integers(0, len(few), n)],
        "equal": lambda: np.repeat(few[:1], n, axis=0),
        "scaled": lambda: few[rng.integers(0, len(few), n)] * 10.0 ** rng.integers(-3, 4, (n, 1)),
        "offset": lambda: 1e6 + rng.standard_normal((n, d)),
        "outliers": lambda: rng.standard_normal((n, d)) * np.where(rng.random((n, 1)) < 0.1, 1e8, 1.0),
        "tiny": lambda: rng.standard_normal((n, d)) * 1e-20,
        "huge": lambda: rng.standard_normal((n, d)) * 1e40,
        "zeros": lambda: rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3),
    }
    values: NDArray[np.float64] = made[kind]()
    return values


KINDS = ("normal", "grid", "tenths", "copies", "equal", "scaled", "offset", "outliers", "tiny", "huge", "zeros")
GENTLE = ("normal", "offset", "zeros")


@dataclass(frozen=True)
class Case:
    """Vectors, and what is asked of them."""

    kind: str
    given: Any
    """As they are handed over."""
    exact: NDArray[np.float64]
    """Their values."""
    metric: str
    k: int
    mode: str

    def __repr__(self) -> str:
        form = "sparse" if sp.issparse(self.given) else self.given.dtype
        return f"{self.kind} {self.exact.shape} {form} {self.metric} k={self.k} {self.mode}"


@st.composite
def cases(draw: st.DrawFn, metrics: Sequence[str] = METRICS, kinds: Sequence[str] = KINDS, most: int = 30) -> Case:
    """Vectors of all kinds and forms."""
    kind, metric = draw(st.sampled_from(kinds)), draw(st.sampled_from(metrics))
    n, d = draw(st.integers(2, most)), draw(st.sampled_from([1, 2, 3, 5, 9]))
    values = drawn(kind, n, d, draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(["float32", "float64"] if kind not in {"huge", "tiny"} else ["float64"]))
    if kind == "grid":
        dtype = draw(st.sampled_from(["float32", "float64", "uint8"]))
    if metric == "cosine":
        values[~values.any(axis=1), 0] = 1.0  # who is zero has no direction
    given: Any = values.astype(dtype)
    exact = given.astype(np.float64)
    if metric != "manhattan" and draw(st.booleans()):
        given = sp.csr_array(given)
    k = draw(st.one_of(st.just(n - 1), st.integers(1, min(n - 1, 12))))
    return Case(kind, given, exact, metric, k, draw(st.sampled_from(["union", "mutual"])))
