"""Given distances in bands: the same triangle as in memory, and the same faults, without room for either."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from dask_rac.base.errors import InputError
from dask_rac.base.events import Event
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs import square as square_pairs
from dask_rac.vectors.pairs import stream
from dask_rac.vectors.pairs import triangle as triangles
from dask_rac.vectors.pairs.opening import open_distances
from dask_rac.vectors.pairs.triangle import fill_triangle, rows_of, triangle_entries

POINTS = 97
MATRIX = squareform(pdist(np.random.default_rng(7).random((POINTS, 3))))


@pytest.fixture(autouse=True)
def _small_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(square_pairs, "BAND", 20 * POINTS)
    monkeypatch.setattr(stream, "PIECE", 1000)
    monkeypatch.setattr(triangles, "SPAN_ITEMS", 100)


def streamed(distances: Any, report: Callable[[Event], None] = lambda _: None) -> tuple[int, NDArray[np.float64]]:
    """The number of bands, and the triangle that they make up."""
    pairs: Any = open_distances(distances)
    triangle, bands = np.full(triangle_entries(pairs.nodes), np.nan), 0
    for span, entries in stream.checked_rows(pairs, report):
        rows_of(triangle, *span)[:] = entries
        bands += 1
    return bands, triangle


@pytest.mark.parametrize("form", ["memory", "npy", "zarr", "dask", "condensed", "condensed npy"])
def test_bands_make_up_the_triangle(form: str, tmp_path: Path) -> None:
    values = squareform(MATRIX) if form.startswith("condensed") else MATRIX
    given: Any = values
    if form.endswith("npy"):
        given = tmp_path / "distances.npy"
        np.save(given, values)
    elif form == "zarr":
        given = zarr.create_array({}, data=values, chunks=(13, 31), config={"write_empty_chunks": True})
    elif form == "dask":
        given = da.from_array(values, chunks=(13, 31))
    events: list[Event] = []
    bands, found = streamed(given, events.append)
    assert bands > 3
    assert [event.done for event in events] == list(range(bands + 1))
    with Team(1) as team:
        np.testing.assert_array_equal(found, fill_triangle(open_distances(values), team, lambda _: None))


def spoilt(place: tuple[int, int], value: float, both: bool) -> NDArray[np.float64]:
    """The matrix with another value in a place, or in both places of a pair."""
    matrix = MATRIX.copy()
    matrix[place] = value
    if both:
        matrix[place[::-1]] = value
    return matrix


@pytest.mark.parametrize("place", [(3, 90), (90, 3), (50, 51), (96, 0)])
@pytest.mark.parametrize(
    ("value", "both"), [(np.nan, True), (np.inf, False), (-1.0, True), (0.7, False), (1e-3, False)]
)
def test_faults_are_those_of_a_matrix_in_memory(place: tuple[int, int], value: float, both: bool) -> None:
    matrix = spoilt(place, value, both)
    with Team(1) as team, pytest.raises(InputError) as expected:
        fill_triangle(open_distances(matrix), team, lambda _: None)
    with pytest.raises(InputError) as found:
        streamed(matrix)
    assert str(found.value) == str(expected.value)


def test_a_point_apart_from_itself_is_refused() -> None:
    with pytest.raises(InputError, match="row 4, column 4"):
        streamed(spoilt((4, 4), 1.0, False))


def test_a_condensed_vector_is_checked() -> None:
    values = squareform(MATRIX)
    values[1234] = -2.0
    with pytest.raises(InputError, match="position 1234"):
        streamed(values)


def test_rounding_is_allowed_and_what_is_right_of_the_diagonal_counts() -> None:
    noise = np.tril(np.random.default_rng(2).uniform(-1e-8, 1e-8, MATRIX.shape), -1)
    np.testing.assert_array_equal(streamed(MATRIX + noise)[1], streamed(MATRIX)[1])


def test_one_triangle_only_is_refused() -> None:
    with pytest.raises(InputError, match=r"must be symmetric: .* pairs differ"):
        streamed(np.triu(MATRIX))


def test_one_point_has_no_pairs() -> None:
    assert streamed([[0.0]])[1].size == 0
