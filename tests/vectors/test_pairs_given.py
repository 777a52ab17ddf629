"""Distances that users bring: every form gives the same triangle, and what is not a distance is refused by place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from dask_rac.base.errors import InputError
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs import condensed as condensed_pairs
from dask_rac.vectors.pairs import square as square_pairs
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.opening import open_distances
from dask_rac.vectors.pairs.triangle import fill_triangle, rows_of
from tests.support.effort import examples

POINTS = 97
VECTOR = pdist(np.random.default_rng(7).integers(0, 50, (POINTS, 3)), "cityblock")
MATRIX = squareform(VECTOR)
FORMS = ("memory", "fortran", "npy", "zarr", "zarr path", "zarr in memory", "dask")


@pytest.fixture(autouse=True)
def _small_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(square_pairs, "BAND", 20 * POINTS)
    monkeypatch.setattr(condensed_pairs, "PIECE", 1000)


def filled(distances: Any, threads: int = 2) -> NDArray[np.float64]:
    with Team(threads) as team:
        return fill_triangle(open_distances(distances), team, lambda _: None)


def formed(values: NDArray[Any], form: str, folder: Path) -> Any:
    if form == "fortran":
        return np.asfortranarray(values)
    if form == "npy":
        np.save(folder / "distances.npy", values)
        return folder / "distances.npy"
    chunks = (13, 31)[: values.ndim]
    if form == "dask":
        return da.from_array(values, chunks=chunks)
    if form.startswith("zarr"):
        store = None if form == "zarr in memory" else str(folder / "distances.zarr")
        place: Any = {} if store is None else store
        array = zarr.create_array(place, data=values, chunks=chunks, config={"write_empty_chunks": True})
        return store if form == "zarr path" else array
    return values


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float64", "float32", ">f4", "int32", "uint8"])
def test_every_form_gives_the_condensed_vector_in_reverse(form: str, dtype: str, tmp_path: Path) -> None:
    if form.startswith("zarr") and dtype == ">f4":
        dtype = "float32"
    for values in (MATRIX, VECTOR):
        folder = tmp_path / str(values.ndim)
        folder.mkdir()
        assert np.array_equal(filled(formed(values.astype(dtype), form, folder))[::-1], VECTOR)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("values", [MATRIX, VECTOR], ids=["square", "condensed"])
def test_any_rows_can_be_read_again(form: str, values: NDArray[np.float64], tmp_path: Path) -> None:
    pairs: AllPairs = open_distances(formed(values, form, tmp_path))
    for first, last in ((0, 1), (0, 2), (5, 40), (96, 97), (0, 97)):
        out = np.full(len(rows_of(VECTOR, first, last)), np.nan)
        pairs.read(first, last, out)
        assert np.array_equal(out, rows_of(VECTOR[::-1], first, last))


def test_lists_frames_and_bool_are_distances_as_well() -> None:
    names = [f"point {number}" for number in range(POINTS)]
    assert np.array_equal(filled(MATRIX.tolist())[::-1], VECTOR)
    assert np.array_equal(filled(pd.DataFrame(MATRIX, names, names))[::-1], VECTOR)
    assert np.array_equal(filled(MATRIX > 40)[::-1], VECTOR > 40)


@pytest.mark.kernels
@examples(30)
@given(points=st.integers(2, 40), seed=st.integers(0, 99), threads=st.integers(1, 3))
def test_square_and_condensed_give_the_same_triangle(points: int, seed: int, threads: int) -> None:
    vector = np.random.default_rng(seed).random(points * (points - 1) // 2)
    assert np.array_equal(filled(vector, threads)[::-1], vector)
    assert np.array_equal(filled(squareform(vector), threads)[::-1], vector)


def test_one_point_is_a_matrix_without_pairs() -> None:
    assert filled([[0.0]]).shape == (0,)


def test_a_matrix_asymmetric_by_rounding_counts_right_of_the_diagonal() -> None:
    noise = np.tril(np.random.default_rng(0).random(MATRIX.shape), -1) * 1e-7 * MATRIX.max()
    assert np.array_equal(filled(MATRIX + noise)[::-1], VECTOR)


def changed(*places: tuple[int, int, float]) -> NDArray[np.float64]:
    matrix = MATRIX.copy()
    for row, column, value in places:
        matrix[row, column] = value
    return matrix


@pytest.mark.parametrize("form", ["memory", "npy", "zarr", "dask"])
@pytest.mark.parametrize(
    ("matrix", "parts"),
    [
        (changed((61, 7, np.nan), (3, 90, np.nan)), ["row 3, column 90 of", "is nan, the first of 2", "drop"]),
        (changed((61, 7, np.inf)), ["row 61, column 7 of", "is inf:", "finite"]),
        (changed((3, 90, -2.5)), ["row 3, column 90 of", "is -2.5:", "similarities"]),
        (changed((3, 3, 1.0), (9, 9, 1.0)), ["row 3, column 3 of", "is 1, the first of 2", "fill_diagonal"]),
        (
            changed((61, 7, 900.0), (30, 8, 800.0), (90, 7, 700.0)),
            ["row 7, column 61 of", f"is {MATRIX[7, 61]:g}, but row 61, column 7 is 900", "3 pairs", "(D + D.T) / 2"],
        ),
        (changed((61, 7, 900.0)), [f"they differ by up to {900 - MATRIX[7, 61]:g}"]),
    ],
    ids=["nan", "infinite", "negative", "diagonal", "asymmetric", "one pair"],
)
def test_a_matrix_that_is_not_one_of_distances_is_refused(
    form: str, matrix: NDArray[np.float64], parts: list[str], tmp_path: Path
) -> None:
    with pytest.raises(InputError) as refused:
        filled(formed(matrix, form, tmp_path))
    for part in parts:
        assert part in str(refused.value)
    assert "distances" in str(refused.value)


@pytest.mark.parametrize("form", ["memory", "npy", "dask"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_a_condensed_vector_with_other_values_is_refused(form: str, value: float, tmp_path: Path) -> None:
    vector = VECTOR.copy()
    matrix = squareform(np.arange(len(vector)))
    vector[[1234, 3000]] = value
    i, j = map(int, np.argwhere(np.triu(matrix) == 1234)[0])
    with pytest.raises(InputError, match=re.escape(f"the pair {i, j}, is {value:g}, the first of 2")) as refused:
        filled(formed(vector, form, tmp_path))
    assert str(refused.value).startswith("position 1234 of")


@pytest.mark.parametrize(
    ("distances", "text"),
    [
        (np.zeros((3, 4)), r"shape of the distances is \(3, 4\)"),
        (np.zeros((2, 2, 2)), r"shape of the distances is \(2, 2, 2\)"),
        (np.zeros((0, 0)), "no points"),
        (np.zeros(0), "no pairs"),
        (np.zeros(8), "4 points have 6 and 5 points have 10"),
        (np.zeros((2, 2), complex), "complex128"),
        (np.zeros((2, 2), "float16"), r'float16.*astype\("float64"\)'),
        (np.array([["a", "b"], ["c", "d"]]), "convert them to numbers"),
        ([[0.0, 1.0], [1.0]], "rows of equal length"),
        (7, "cannot be a int"),
        ("", "is not a path"),
        (sp.csr_array(MATRIX), "leave out metric='precomputed'"),
        (np.ma.masked_equal(MATRIX, 0), "masked in .* places"),
        (pd.DataFrame(np.zeros((2, 2)), ["a", "b"], ["a", "c"]), "row 1 of the distances is 'b', column 1 is 'c'"),
        (pd.DataFrame({0: [0.0, 1.0], 1: ["x", "y"]}), "column 1 of the distances"),
    ],
)
def test_other_shapes_and_types_are_refused(distances: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        open_distances(distances)


def test_files_that_are_not_whole_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "distances.npy"
    np.save(path, MATRIX)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match="bytes, not"):
        open_distances(path)
    np.save(path, np.asfortranarray(MATRIX + np.arange(POINTS)))
    with pytest.raises(InputError, match="Fortran"):
        open_distances(path)
    np.save(path, MATRIX)
    pairs = open_distances(path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match="cut short"):
        pairs.read(0, 50, np.empty(1225))
    (tmp_path / "distances.txt").write_text("0")
    with pytest.raises(InputError, match="known format"):
        open_distances(tmp_path / "distances.txt")
    zarr.create_group(tmp_path / "group.zarr")
    with pytest.raises(InputError, match="group of nothing"):
        open_distances(tmp_path / "group.zarr")
