"""A distance matrix in a .npy file that is larger than memory, beside the vectors that it is of: the same tree.

Vectors are like SIFT's, whole numbers, so that the heights of complete linkage must be the same to the last bit.

    python pipelines/distances.py                     58,000 vectors, 26.9 GB of distances; about seven minutes
    python pipelines/distances.py --vectors 2000      fewer, for a try
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np
from watch import watched

import dask_rac

ROWS = 1_000  # of the matrix, written at a time


@click.command(help=__doc__)
@click.option("--vectors", "count", default=58_000, show_default=True)
@click.option("--memory", default="4GB", show_default=True, help="The budget of each run.")
@click.option("--folder", type=click.Path(), help="Where the matrix goes; default: the folder for temporary files.")
def main(count: int, memory: str, folder: str | None) -> None:
    """Write the matrix, cluster both, compare, and verify."""
    with TemporaryDirectory(dir=folder) as name:
        vectors, matrix = Path(name) / "vectors.npy", Path(name) / "distances.npy"
        dask_rac.datasets.sift(count, store=vectors, progress=False)
        write_distances(np.load(vectors), matrix)
        print(f"{matrix.stat().st_size / 1e9:.1f} GB of distances", flush=True)
        with watched() as usage:
            tree = dask_rac.cluster(
                matrix, "complete", metric="precomputed", engine="certain", memory=memory, store=Path(name) / "run"
            )
        print(f"clustered in {usage.seconds:.0f} s, peak memory {usage.rss / 1e9:.2f} GB", flush=True)
        same = dask_rac.cluster(vectors, "complete", metric="euclidean", memory=memory)
        from_matrix, from_vectors = (np.sort(found.merges["height"]) for found in (tree, same))
        print(f"heights equal those from the vectors: {np.array_equal(from_matrix, from_vectors)}", flush=True)
        with watched() as audit:
            report = tree.verify()
        print(f"{report}, in {audit.seconds:.0f} s")


def write_distances(vectors: np.ndarray, path: Path) -> None:
    """Write the euclidean distances of all pairs; products of whole numbers this small are exact in float32."""
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    matrix = np.lib.format.open_memmap(path, "w+", np.float64, (len(vectors), len(vectors)))
    for first in range(0, len(vectors), ROWS):
        rows = slice(first, first + ROWS)
        matrix[rows] = np.sqrt(squares[rows, None] + squares - 2.0 * (vectors[rows] @ vectors.T))
    matrix.flush()


if __name__ == "__main__":
    main()
