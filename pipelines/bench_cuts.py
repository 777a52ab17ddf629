"""Which numbers of clusters `suggest_cuts` proposes for data whose number of classes is known.

Every data set is clustered along the graph of its 15 nearest neighbours, with absent pairs at twice the largest weight
(average linkage) or as similarities 1 / (1 + distance), and by all pairs with ward, average and single linkage. The
table shows the first three suggestions, as numbers of large clusters; in bold if the number of classes is among them,
and in brackets if no cut is clear. Points without clusters are at the end.

    python pipelines/bench_cuts.py                 all, about a minute
    python pipelines/bench_cuts.py --only digits   one data set

The real corpus is what `apt-cache dumpavail` prints on Debian: descriptions of packages, with their section as class.
It is left out where that command is missing.
"""

import shutil
import subprocess
import warnings
from collections.abc import Callable
from functools import partial

import click
import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dask_rac

NEIGHBOURS = 15
SECTIONS = ("games", "gnome", "perl", "haskell", "php", "ruby", "fonts", "java")
PER_SECTION = 400

Points = NDArray[np.float64]
Data = tuple[Points, int]
"""Points, and the number of their classes; 0 if there are none."""


@click.command(help=__doc__)
@click.option("--only", multiple=True, help="A data set to use; by default all.")
def main(only: tuple[str, ...]) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")  # neighbours in several components
    columns = ("points", "classes", *clusterings(np.zeros((0, 1)), lazy=True))
    rows, hits = [], dict.fromkeys(columns[2:], 0)
    for name, load in sources().items():
        if only and name not in only:
            continue
        points, classes = load()
        cells = [name, f"{len(points):,}", str(classes or "none")]
        for column, cluster in clusterings(points).items():
            cuts = cluster().suggest_cuts(3)
            hits[column] += classes in cuts["large_clusters"].tolist()
            cells.append(cell(cuts, classes))
        rows.append(cells)
    total = sum(row[2] != "none" for row in rows)
    rows.append(["among the first three", "", "", *(f"{found} of {total}" for found in hits.values())])
    print_table(("data", *columns), rows)


def sources() -> dict[str, Callable[[], Data]]:
    """Return the data sets by name."""
    found: dict[str, Callable[[], Data]] = {name: partial(from_sklearn, name) for name in ("digits", "wine", "iris")}
    found["breast cancer"] = partial(from_sklearn, "breast_cancer")
    for classes, dimensions, count in ((3, 2, 1_500), (5, 2, 3_000), (12, 8, 5_000), (30, 16, 5_000)):
        found[f"{classes} blobs in {dimensions} dimensions"] = partial(blobs, classes, dimensions, count)
    if shutil.which("apt-cache"):
        found["package descriptions"] = packages
    found["uniform points"] = lambda: (np.random.default_rng(0).random((3_000, 2)), 0)
    found["normal points"] = lambda: (np.random.default_rng(0).normal(size=(3_000, 10)), 0)
    return found


def from_sklearn(name: str) -> Data:
    """Return one of scikit-learn's data sets, with standardized columns unless all have the same unit."""
    from sklearn import datasets

    points, classes = getattr(datasets, f"load_{name}")(return_X_y=True)
    if name in ("wine", "breast_cancer"):
        points = (points - points.mean(axis=0)) / points.std(axis=0)
    return points.astype(np.float64), len(set(classes))


def blobs(classes: int, dimensions: int, count: int) -> Data:
    """Return a mixture of normal distributions."""
    from sklearn.datasets import make_blobs

    return make_blobs(count, dimensions, centers=classes, random_state=1)[0], classes


def packages() -> Data:
    """Return descriptions of some hundred packages of each section, as directions in 100 dimensions."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    printed = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    texts: dict[str, list[str]] = {section: [] for section in SECTIONS}
    for paragraph in printed.split("\n\n"):
        section = paragraph.partition("\nSection: ")[2].partition("\n")[0].rpartition("/")[2]
        text = paragraph.partition("\nDescription: ")[2].partition("\nDescription-md5")[0]
        if section in texts and text:
            texts[section].append(text)
    rng = np.random.default_rng(0)
    chosen = [text for some in texts.values() for text in rng.permutation(np.array(some, object))[:PER_SECTION]]
    words = TfidfVectorizer(sublinear_tf=True, min_df=3, max_df=0.3, stop_words="english").fit_transform(chosen)
    return directions(words), len(SECTIONS)


def directions(words: object) -> Points:
    """Return the main directions of bags of words, each of length 1."""
    from sklearn.decomposition import TruncatedSVD

    found: Points = TruncatedSVD(100, random_state=0).fit_transform(words)
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
    return found


def clusterings(points: Points, lazy: bool = False) -> dict[str, Callable[[], dask_rac.Clustering]]:
    """Return the ways to cluster points, by name."""
    edges = pd.DataFrame() if lazy else dask_rac.knn_graph(points, NEIGHBOURS)
    return {
        "neighbours, far": lambda: dask_rac.cluster(edges, missing=2 * float(edges["weight"].max())),
        "neighbours, similarity": lambda: dask_rac.cluster(similarities(edges), weights="similarity"),
        "ward": lambda: dask_rac.cluster(points, "ward"),
        "average": lambda: dask_rac.cluster(points, "average"),
        "single": lambda: dask_rac.cluster(points, "single"),
    }


def similarities(edges: pd.DataFrame) -> pd.DataFrame:
    """Return edges with similarities."""
    alike = edges.assign(weight=1 / (1 + edges["weight"]))
    alike.attrs = edges.attrs | {"weights": "similarity"}
    return alike


def cell(cuts: pd.DataFrame, classes: int) -> str:
    """Return the suggestions as text."""
    numbers = cuts["large_clusters"].tolist()
    text = ", ".join(map(str, numbers)) or "none"
    text = text if cuts["clear"].any() else f"({text})"
    return f"**{text}**" if classes in numbers else text


def print_table(columns: tuple[str, ...], rows: list[list[str]]) -> None:
    """Print a table in Markdown."""
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
