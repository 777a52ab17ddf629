"""The recipe for AnnData in docs/formats.md works, with anndata where it is installed, else with what it uses of it.

anndata does not go with every version of pandas that we accept, so it cannot be among the requirements of the tests.
"""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import NearestNeighbors

import dask_rac
from tests.support.root import ROOT

BLOCK = re.compile(r"^```\{code-block\} python\n:name: anndata\n\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def observed(names: list[str]) -> Any:
    """An AnnData object of so many cells, or one like it."""
    obs = pd.DataFrame(index=pd.Index(names))
    try:
        import anndata  # noqa: PLC0415 - only if there is one
    except ImportError:
        return SimpleNamespace(obs=obs, obsp={}, n_obs=len(names))
    return anndata.AnnData(np.zeros((len(names), 1), np.float32), obs)


@pytest.fixture
def cells() -> tuple[Any, Any]:
    """Cells with the two graphs that scanpy.pp.neighbors leaves, and what they were made from."""
    points, kind = make_blobs(400, 10, centers=8, cluster_std=0.8, random_state=0)
    points[1] = points[0]  # a distance of 0, which is stored
    adata = observed([f"cell {number}" for number in range(len(points))])
    distances = NearestNeighbors(n_neighbors=14).fit(points).kneighbors_graph(mode="distance").astype(np.float32)
    alike = distances.copy()
    alike.data = np.exp(-(alike.data**2) / 10)
    adata.obsp["distances"] = sp.csr_matrix(distances)
    adata.obsp["connectivities"] = sp.csr_matrix(alike.maximum(alike.T))
    return adata, kind


def test_from_obsp_to_obs(cells: tuple[Any, Any]) -> None:
    adata, kind = cells
    (code,) = BLOCK.findall((ROOT / "docs/formats.md").read_text())
    names: dict[str, Any] = {"adata": adata, "dask_rac": dask_rac, "pd": pd}
    exec(compile(code, "formats.md", "exec"), names)
    assert names["by_distance"].n_nodes == adata.n_obs
    for column in ("rac", "rac_distances"):
        assert isinstance(adata.obs[column].dtype, pd.CategoricalDtype)
        assert adata.obs[column].index[3] == "cell 3"
    assert adjusted_rand_score(kind, adata.obs["rac"]) > 0.9
    assert names["by_distance"].cut(height=0.0)[:2].tolist() == [0, 0]
