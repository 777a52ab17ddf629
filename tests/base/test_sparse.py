"""Whatever is wrong with the arrays of a sparse matrix is found before scipy's compiled loops see them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dask_rac.base.errors import InputError
from dask_rac.base.sparse import check_sparse
from tests.support.effort import examples

FORMATS = ("csr", "csc", "bsr", "coo", "dia", "lil", "dok")
ARRAYS = {
    "csr": ("indptr", "indices"),
    "csc": ("indptr", "indices"),
    "bsr": ("indptr", "indices"),
    "coo": ("row", "col"),
}


def matrix(form: str) -> Any:
    """A matrix of 6 rows and 8 columns."""
    dense = np.random.default_rng(2).integers(0, 3, (6, 8)).astype(np.float64)
    rows: Any = sp.csr_array(dense)
    return sp.bsr_array(dense, blocksize=(2, 2)) if form == "bsr" else rows.asformat(form)


def is_sound(given: Any) -> bool:
    """Whether a plain reading of the arrays stays within the matrix."""
    if given.format == "coo":
        inside = all(0 <= r < 6 and 0 <= c < 8 for r, c in zip(given.row.tolist(), given.col.tolist(), strict=True))
        return inside and len(given.row) == len(given.data)
    lines, width = {"csr": (6, 8), "csc": (8, 6), "bsr": (3, 4)}[given.format]
    starts = given.indptr.tolist()
    steps = all(first <= second for first, second in pairwise(starts))
    ends = starts[0] == 0 and len(starts) == lines + 1 and starts[-1] == len(given.indices) == len(given.data)
    return steps and ends and all(0 <= index < width for index in given.indices.tolist())


@pytest.mark.parametrize("form", FORMATS)
def test_matrices_as_scipy_makes_them(form: str) -> None:
    check_sparse(matrix(form))
    empty: Any = sp.csr_array((6, 8))
    check_sparse(empty.asformat(form))


@examples(120)
@given(
    st.sampled_from(sorted(ARRAYS)),
    st.integers(0, 1),
    st.integers(0, 40),
    st.sampled_from((-(2**31), -1, 0, 1, 2, 3, 5, 7, 8, 9, 48, 2**31 - 1)),
    st.booleans(),
)
def test_any_number_in_any_place(form: str, which: int, place: int, value: int, cut: bool) -> None:
    given_matrix = matrix(form)
    name = ARRAYS[form][which]
    array = getattr(given_matrix, name)
    array[place % len(array)] = value
    if cut and form != "coo":
        setattr(given_matrix, name, array[:-1])
    if is_sound(given_matrix):
        check_sparse(given_matrix)
    else:
        with pytest.raises(InputError, match=r"X is damaged: .*; build it again"):
            check_sparse(given_matrix, "X")


@pytest.mark.parametrize(
    ("form", "name", "value"),
    [
        ("csr", "indices", np.zeros(3)),
        ("csr", "indptr", np.zeros((7, 1), np.int64)),
        ("csr", "indptr", np.zeros(0, np.int64)),
        ("bsr", "data", np.zeros((5, 0, 2))),
        ("bsr", "data", np.zeros(5)),
        ("dia", "offsets", np.zeros(2, np.int64)),
        ("dia", "offsets", np.array([-1, 10**9])),
        ("dia", "data", np.zeros(3)),
        ("lil", "rows", np.array([[9]] * 6, object)),
    ],
)
def test_arrays_of_another_kind(form: str, name: str, value: Any) -> None:
    given_matrix = matrix(form)
    setattr(given_matrix, name, value)
    with pytest.raises(InputError, match="the matrix is damaged"):
        check_sparse(given_matrix)
