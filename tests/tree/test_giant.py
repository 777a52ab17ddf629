"""A cut in which one cluster holds nearly all nodes gives a warning, which names what would help."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac import RAC
from dask_rac.base.settings import checked_settings
from dask_rac.tree.giant import FEWEST, GIANT, chains_less, is_giant, warn_of_giants

SETTINGS = checked_settings("average", "ignore", "distance")
POINTS = np.random.default_rng(0).normal(size=(300, 3))


def texts(*cuts: list[int]) -> list[str]:
    """The warnings about cuts, whose labels must pass through unchanged."""
    given_labels = [np.array(cut, np.int64) for cut in cuts]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        passed = list(warn_of_giants(iter(given_labels), SETTINGS))
    assert all(one is other for one, other in zip(passed, given_labels, strict=True))
    return [str(warning.message) for warning in caught]


@given(st.lists(st.integers(1, 400), max_size=30), st.integers(0, 60))
def test_a_giant_has_more_than_nine_tenths_of_all_nodes(sizes: list[int], outside: int) -> None:
    labels = np.repeat(np.arange(-1, len(sizes)), [outside, *sizes]).tolist()
    nodes = sum(sizes) + outside
    expected = nodes >= FEWEST and len(sizes) > 1 and max(sizes) > GIANT * nodes
    assert bool(texts(labels)) == expected
    assert is_giant(max(sizes, default=0), nodes, len(sizes)) == expected


def test_several_cuts_give_one_warning_with_numbers_and_a_remedy() -> None:
    two, three = [0] * 199 + [1], [0] * 190 + [1] * 5 + [2] * 5
    (text,) = texts([0] * 200, two, three)
    assert text == (
        "one cluster holds 99.5% of the 200 nodes, and the other cluster has the rest: missing='far', the default, "
        "chains less than 'ignore'; suggest_cuts() finds cuts with several large clusters, and min_size= leaves out "
        "small ones"
    )
    assert "95% of the 200 nodes, and the other 2 clusters share the rest" in texts(three)[0]
    assert texts([], [0] * 200, list(range(200)), [0] * 100 + [1] * 100) == []


@pytest.mark.parametrize(
    ("linkage", "missing", "metric", "advice"),
    [
        ("average", "ignore", "", "missing='far'"),
        ("complete", "ignore", "", "missing='far'"),
        ("average", "far", "", ""),
        ("complete", 1.0, "", ""),
        ("average", "infinite", "", ""),
        ("single", None, "", "linkage='average' often"),
        ("single", None, "cosine", "linkage='average' or 'complete' often"),
        ("single", None, "euclidean", "linkage='average' or 'complete' or 'ward' often"),
        ("average", None, "precomputed", "linkage='complete' or 'ward' often"),
        ("average", None, "cosine", "linkage='complete' often"),
        ("weighted", None, "euclidean", "linkage='complete' or 'ward' often"),
        ("complete", None, "euclidean", "linkage='ward' often"),
        ("complete", None, "manhattan", ""),
        ("ward", None, "euclidean", ""),
    ],
)
def test_only_what_helps_is_advised(linkage: str, missing: str | float | None, metric: str, advice: str) -> None:
    settings = checked_settings(linkage, missing, "distance", metric=metric)
    assert chains_less(settings).startswith(advice)
    assert bool(chains_less(settings)) == bool(advice)
    if "linkage=" in advice:
        assert chains_less(settings).endswith(f"less than {linkage!r}")


def test_similarities_have_no_ward() -> None:
    settings = checked_settings("average", None, "similarity", metric="inner_product")
    assert "ward" not in chains_less(settings)


def test_the_warning_names_the_line_that_cuts(folder: Path) -> None:
    edges = dask_rac.knn_graph(POINTS, k=8)
    trees = [dask_rac.cluster(edges, missing="ignore"), dask_rac.cluster(edges, missing="ignore", store=folder / "run")]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number, tree in enumerate(trees):
            tree.cut(n_clusters=3)
            tree.cut(n_clusters=[2, 3], store=folder / f"{number}.csv")
            tree.cut(n_clusters=2, store=folder / f"{number}.parquet")
        RAC(3, linkage="average", n_neighbors=8, missing="ignore").fit(POINTS)
        RAC(3, linkage="average", n_neighbors=8, missing="ignore").fit_predict(POINTS)
    assert ["one cluster holds" in str(warning.message) for warning in caught] == [True] * 8
    assert {warning.filename for warning in caught} == {__file__}


def test_with_far_pairs_there_is_nothing_to_warn_of() -> None:
    sizes = np.bincount(dask_rac.cluster(dask_rac.knn_graph(POINTS, k=8)).cut(n_clusters=3))
    assert sizes.max() < 0.9 * len(POINTS)
    RAC(3, linkage="average", n_neighbors=8).fit(POINTS)
