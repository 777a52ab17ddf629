"""Cluster the glosses of WordNet: 117,659 short texts as tf-idf, cosine distances of all pairs, average linkage.

On Debian: apt-get install wordnet-base. Needs 3 GB of memory and 4 GB of disk.

    python pipelines/glosses.py                          about five minutes on two cores
    python pipelines/glosses.py --every 10               a tenth of them, for a try
    python pipelines/glosses.py --wordnet WordNet/dict   wherever its data files are

Glosses of stop words only have no direction to compare, and are left out, with a line that says so. A run that was
stopped goes on when it is called again.
"""

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time

import click
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from watch import watched

import dask_rac

PARTS = ("noun", "verb", "adj", "adv")


@click.command(help=__doc__)
@click.option("--wordnet", default="/usr/share/wordnet", show_default=True, type=click.Path(path_type=Path))
@click.option("--folder", default="glosses", show_default=True, type=click.Path(path_type=Path))
@click.option("--memory", default="3GB", show_default=True, help="The budget of the run.")
@click.option("--every", default=1, show_default=True, help="Take every gloss (1), every second (2), ...")
@click.option("--height", default=0.75, show_default=True, help="Where to cut the tree.")
def main(wordnet: Path, folder: Path, memory: str, every: int, height: float) -> None:
    """Cluster, verify, and print a few clusters."""
    folder.mkdir(exist_ok=True)
    glosses = written(pd.Series(dict(read_glosses(wordnet))).iloc[::every], folder / "glosses.npz")
    names, run = glosses.index.tolist(), folder / "run"
    if not run.exists():
        print(dask_rac.plan(folder / "glosses.npz", "average", metric="cosine", memory=memory))
    started, used = perf_counter(), process_time()
    with watched() as usage:
        if run.exists():
            tree = dask_rac.resume(run)
        else:
            tree = dask_rac.cluster(
                folder / "glosses.npz", "average", metric="cosine", names=names, store=run, memory=memory
            )
    print(f"clustered in {perf_counter() - started:.0f} s, {process_time() - used:.0f} s of all processors")
    used = process_time()
    with watched() as audit:
        report = tree.verify()
    print(f"{report}, in {audit.seconds:.0f} s, {process_time() - used:.0f} s of all processors")
    print(f"peak memory {max(usage.rss, audit.rss) / 1e9:.2f} GB")
    show(tree.cut(height=height), glosses, height)


def read_glosses(wordnet: Path) -> Iterator[tuple[str, str]]:
    """Yield a name, such as dog.noun.02084071, and the gloss of each set of synonyms."""
    for part in PARTS:
        for line in (wordnet / f"data.{part}").read_text().splitlines():
            if line.startswith(" "):  # the licence
                continue
            words, _, gloss = line.partition(" | ")
            fields = words.split()
            yield f"{fields[4]}.{part}.{fields[0]}", gloss.strip()


def written(glosses: pd.Series, path: Path) -> pd.Series:
    """Write glosses as rows of tf-idf, and return those that have one: a row of zeros has no cosine."""
    rows = TfidfVectorizer(stop_words="english", sublinear_tf=True, dtype=np.float32).fit_transform(glosses)
    some = pd.Series(np.diff(rows.indptr) > 0, index=glosses.index)
    print(f"{len(glosses):,} glosses, {rows.shape[1]:,} words, {rows.nnz / len(glosses):.1f} for each gloss")
    if not some.all():
        print(f"left out, as they have only stop words: {(~some).sum()}, such as {glosses[~some].iloc[0]!r}")
    if not path.exists():  # a run that goes on would notice another file
        sp.save_npz(path, rows[some.to_numpy()])
    return glosses[some]


def show(labels: pd.Series, glosses: pd.Series, height: float) -> None:
    """Print a few clusters of five to eight glosses."""
    size = labels.value_counts()
    print(f"\n{len(size):,} clusters at {height}; the largest has {size.max():,} glosses")
    middle = np.sort(size.index[size.between(5, 8)])
    for label in middle[:: max(1, len(middle) // 6)][:6]:
        print()
        for name in labels.index[labels == label]:
            print(f"  {name.partition('.')[0].replace('_', ' '):24.24}  {glosses[name][:90]}")


if __name__ == "__main__":
    main()
