"""All pairs that cannot be clustered: refused by name, with the remedy, at once with `wait=False`; nothing stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

import dask_rac
from dask_rac.runs import in_memory

POINTS = np.random.default_rng(0).random((12, 3))
SQUARE = squareform(pdist(POINTS))
GIVEN = {"metric": "precomputed"}


def changed(*places: tuple[int, int, float]) -> NDArray[np.float64]:
    matrix = SQUARE.copy()
    for row, column, value in places:
        matrix[row, column] = value
    return matrix


SHAPES: dict[str, tuple[Any, dict[str, Any], list[str]]] = {
    "not square": (SQUARE[:5], GIVEN, ["(5, 12)", "one row and one column for each point"]),
    "three dimensions": (np.zeros((2, 2, 2)), GIVEN, ["(2, 2, 2)"]),
    "no point": (np.zeros((0, 0)), GIVEN, ["no points", "give one or more"]),
    "no pair": (np.zeros(0), GIVEN, ["no pairs", "[[0]]"]),
    "no vector": (np.zeros((0, 3)), {}, ["no rows in the vectors", "give one vector or more"]),
    "no dimension": (np.zeros((3, 0)), {}, ["dimension"]),
    "condensed length": (np.zeros(8), GIVEN, ["8, is not n (n - 1) / 2", "4 points have 6 and 5 points have 10"]),
    "a vector": (np.zeros(6), {}, ["dimension"]),
    "sparse": (sp.csr_array(SQUARE), GIVEN, ["leave out metric='precomputed'", "toarray()"]),
    "text": (np.array([["a", "b"], ["c", "d"]]), GIVEN, ["convert them to numbers"]),
    "complex": (SQUARE.astype(complex), GIVEN, ["complex128"]),
    "a number": (7, GIVEN, ["cannot be a int"]),
    "no such file": ("no such file.npy", GIVEN, ["no such file.npy"]),
    "distances without metric": (SQUARE, {}, ["looks like distances", "metric='precomputed'", "metric='euclidean'"]),
    "unknown metric": (POINTS, {"metric": "hamming"}, ["metric='hamming' is unknown", "'euclidean'", "'precomputed'"]),
    "a function as metric": (POINTS, {"metric": max}, ["is unknown", "'euclidean'"]),
    "ward by cosine": (
        POINTS,
        {"metric": "cosine", "linkage": "ward"},
        ["defined by euclidean distances", "'cosine'", "divide each vector by its length"],
    ),
    "ward of similarities": (
        POINTS,
        {"metric": "inner_product", "linkage": "ward", "weights": "similarity"},
        ["linkage='ward'", "metric='euclidean'"],
    ),
    "ward along edges": (
        sp.csr_array(SQUARE),
        {"linkage": "ward"},
        ["ward linkage along the edges of a graph is not reducible", "pass metric='euclidean' and no graph"],
    ),
    "centroid": (POINTS, {"linkage": "centroid"}, ["centroid linkage is not reducible", "'ward'"]),
    "median": (POINTS, {"linkage": "median"}, ["median linkage is not reducible", "'weighted'"]),
    "similarities as distances": (POINTS, {"metric": "inner_product"}, ["weights='similarity'"]),
    "distances as similarities": (POINTS, {"metric": "euclidean", "weights": "similarity"}, ["distance"]),
    "missing": (POINTS, {"metric": "euclidean", "missing": 3.0}, ["missing=3.0", "none is missing", "leave it out"]),
    "number of nodes": (POINTS, {"n_nodes": 20}, ["n_nodes=20 is for the edges of a graph", "leave it out"]),
    "graph and metric": (
        POINTS,
        {"metric": "cosine", "graph": {"k": 3}},
        ["metric='cosine' and graph= are both given", "graph=dict(metric=...)"],
    ),
    "an unknown engine": (POINTS, {"engine": "fast"}, ["engine='fast' is unknown", "'matrix', 'points', 'certain'"]),
    "another engine": (POINTS, {"linkage": "complete", "engine": "points"}, ["engine='points' cannot do", "'certain'"]),
}
"""What can be known without looking at values."""

VALUES: dict[str, tuple[Any, dict[str, Any], list[str]]] = {
    "not symmetric": (
        changed((7, 2, 5.0), (9, 4, 8.0)),
        GIVEN,
        [
            "row 2, column 7",
            "but row 7, column 2 is 5",
            f"2 pairs differ, by up to {8 - SQUARE[4, 9]:.6g}",
            "(D + D.T)",
        ],
    ),
    "diagonal": (changed((3, 3, 1.0)), GIVEN, ["row 3, column 3", "is 1", "fill_diagonal"]),
    "nan": (changed((3, 8, np.nan)), GIVEN, ["row 3, column 8", "is nan", "drop such points"]),
    "infinite": (changed((8, 3, np.inf)), GIVEN, ["row 8, column 3", "is inf", "finite"]),
    "negative": (changed((3, 8, -1.0)), GIVEN, ["row 3, column 8", "is -1", "similarities"]),
    "nan in condensed": (np.array([1.0, np.nan, 2.0]), GIVEN, ["position 1", "the pair (0, 2), is nan"]),
    "nan in vectors": (np.where(POINTS[4, 1] == POINTS, np.nan, POINTS), {}, ["row 4 has nan in dimension 1"]),
    "zeros by cosine": (
        np.zeros((3, 2)),
        {"metric": "cosine"},
        ["row 0, the first of 3", "is all zeros", "drop it"],
    ),
}
CASES = SHAPES | VALUES


def refused(call: Any, parts: list[str]) -> None:
    """The call raises InputError with all of these words."""
    with pytest.raises(dask_rac.InputError) as raised:
        call()
    for part in parts:
        assert part in str(raised.value)


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_in_memory(case: str) -> None:
    given, options, parts = CASES[case]
    refused(lambda: dask_rac.cluster(given, **options), parts)


@pytest.mark.parametrize("case", sorted(CASES))
def test_it_is_refused_with_a_store_of_which_nothing_stays(case: str, tmp_path: Path) -> None:
    given, options, parts = CASES[case]
    refused(lambda: dask_rac.cluster(given, **options, store=tmp_path / "run"), parts)
    assert not list(tmp_path.iterdir())
    (tmp_path / "run").mkdir()
    refused(lambda: dask_rac.cluster(given, **options, store=tmp_path / "run"), parts)
    assert not list((tmp_path / "run").iterdir())


@pytest.mark.parametrize("case", SHAPES)
def test_it_is_refused_without_waiting(case: str, tmp_path: Path) -> None:
    given, options, parts = CASES[case]
    refused(lambda: dask_rac.cluster(given, **options, wait=False), parts)
    if "memory" not in options:
        refused(lambda: dask_rac.cluster(given, **options, wait=False, store=tmp_path / "run"), parts)
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("case", VALUES)
def test_values_are_refused_by_the_result(case: str, tmp_path: Path) -> None:
    given, options, parts = CASES[case]
    refused(lambda: dask_rac.cluster(given, **options, wait=False).result(), parts)
    refused(lambda: dask_rac.cluster(given, **options, wait=False, store=tmp_path / "run").result(), parts)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["npy", "frame", "list"])
def test_values_are_refused_in_other_forms(form: str, tmp_path: Path) -> None:
    np.save(tmp_path / "given.npy", changed((3, 8, -1.0)))
    matrix = changed((3, 8, -1.0))
    given: Any = {"npy": tmp_path / "given.npy", "frame": pd.DataFrame(matrix), "list": matrix.tolist()}[form]
    refused(lambda: dask_rac.cluster(given, metric="precomputed"), ["row 3, column 8", "is -1"])


def test_shards_are_refused_with_a_store(tmp_path: Path) -> None:
    refused(lambda: dask_rac.cluster(POINTS, shards=3, store=tmp_path / "run"), ["shards=3", "leave it out"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("linkage", ["average", "single", "ward"])
def test_a_matrix_that_does_not_fit_in_memory_is_refused_with_what_would(
    linkage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_memory, "memory_limit", lambda: 318_000_000)
    points = np.random.default_rng(1).random((1000, 2))
    parts = [
        "all pairs of 1,000 nodes need 4.4 MB",
        "may be used, enough for 6",
        "leave out engine=",
        "graph=dict(k=15) or knn_graph",
        "graph=dict(eps=...) or eps_graph",
    ]
    with pytest.raises(dask_rac.ResourceError) as raised:
        dask_rac.cluster(points, linkage, engine="matrix")
    assert all(part in str(raised.value) for part in parts)
    dask_rac.cluster(points[:600], linkage, engine="matrix")
    for wait in (True, False):
        with pytest.raises(dask_rac.ResourceError) as raised:
            dask_rac.cluster(points, linkage, engine="matrix", memory="2MB", store=tmp_path / "run", wait=wait)
        assert all(part in str(raised.value) for part in parts)
        assert not list(tmp_path.iterdir())
    with pytest.raises(dask_rac.ResourceError, match="all pairs of 1,000 nodes"):
        dask_rac.cluster(points, linkage, engine="matrix", wait=False)


@pytest.mark.parametrize("linkage", ["average", "single", "ward"])
def test_what_fits_in_no_way_is_refused_with_what_would(linkage: str, tmp_path: Path) -> None:
    points = np.random.default_rng(1).random((1000, 2))
    for store in (None, tmp_path / "run"):
        place: dict[str, Any] = {"store": store, "memory": "100kB"}
        with pytest.raises(dask_rac.ResourceError, match="may be used: set memory="):
            dask_rac.cluster(points, linkage, **place)
        assert not list(tmp_path.iterdir())


def test_a_store_that_is_taken_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    dask_rac.cluster(POINTS, store=tmp_path / "run")
    for wait in (True, False):
        with pytest.raises(dask_rac.StoreError, match="run"):
            dask_rac.cluster(POINTS, store=tmp_path / "run", wait=wait)
