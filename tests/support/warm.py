"""What is done once for all children of the fork server: imports, and loading kernels. No thread is left running."""

import tempfile
from concurrent.futures import ThreadPoolExecutor

import dask
import numpy as np

import dask_rac
import tests.support.turns
import tests.support.undisturbed  # noqa: F401 - children need both

with (
    tempfile.TemporaryDirectory() as folder,
    ThreadPoolExecutor(1) as pool,
    dask.config.set(pool=pool, scheduler="sync"),
):
    edges = np.arange(30), np.arange(1, 31), np.arange(30.0) % 7
    dask_rac.cluster(edges, store=f"{folder}/run", shards=2, progress=False).merges.compute()
