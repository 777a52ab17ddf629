"""The contracts of pyproject.toml hold, and break where they should."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.root import ROOT

# In a separate process: the linter reconfigures logging and changes the path.
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", LINT], cwd=root, capture_output=True, text=True, check=False)


def test_contracts_hold() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_few_runs_need_is_not_imported() -> None:
    slow = {"bokeh", "coiled", "dask.array", "dask.dataframe", "s3fs", "sklearn"}
    code = f"import sys, dask_rac; dask_rac.cluster; print(sorted({slow} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


ROOMS = "imports go down, and every module is in a room"
FORMATS = "zarr and pyarrow only where files, edges and vectors are read and written"
VECTORS = "vectors are read, then compared, then joined"
DASK = "dask only where tasks are made and run"


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("base/settings.py", "import dask_rac.files.folder", ROOMS),
        ("results/clustering.py", "import dask_rac.runs.loop", ROOMS),
        ("runs/loop.py", "import dask_rac.results.clustering", ROOMS),
        ("utils.py", "", ROOMS),
        ("engines/rows/state.py", "import dask_rac.engines.forest.state", "engines stand on each other"),
        ("engines/planted.py", "", "engines stand on each other"),
        (
            "vectors/sources/source.py",
            "import dask_rac.vectors.graph.plan",
            "vectors are read, then compared, then joined",
        ),
        ("show/cards.py", "import dask_rac.show.progress", "reports are made of pictures"),
        ("kernels/planted.py", "import dask_rac.base.settings", "kernels import nothing of ours"),
        ("base/settings.py", "import numba", "numba only in kernels"),
        ("kernels/planted.py", "import zarr", FORMATS),
        ("store/planted.py", "import pyarrow.parquet", FORMATS),
        ("show/report/planted.py", "import bokeh.plotting", "bokeh only in pictures"),
        ("results/views.py", "import sklearn.cluster", "scikit-learn only in the estimator"),
        ("base/settings.py", "import dask.dataframe", DASK),
        ("runs/loop.py", "from distributed import Client", DASK),
    ],
)
def test_contract_breaks(tmp_path: Path, module: str, line: str, contract: str) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    package = tmp_path / "dask_rac"
    shutil.copytree(ROOT / "dask_rac", package, ignore=shutil.ignore_patterns("__pycache__"))
    with (package / module).open("a") as file:
        file.write(f"\n{line}\n")
    done = lint(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{contract} BROKEN" in done.stdout
