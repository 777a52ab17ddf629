"""The contracts of pyproject.toml hold, and break where they should."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# In a process of its own: the linter reconfigures logging and changes the path.
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


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("config.py", "import dask_rac.kernels.jit", "imports go down, and every module has its layer"),
        ("utils.py", "", "imports go down, and every module has its layer"),
        ("kernels/planted.py", "import dask_rac.config", "kernels import nothing of ours"),
        ("config.py", "import numba", "numba only in kernels"),
        ("kernels/planted.py", "import zarr", "zarr and pyarrow only in store"),
        ("kernels/planted.py", "import pyarrow.parquet", "zarr and pyarrow only in store"),
        ("report/planted.py", "import bokeh.plotting", "bokeh only in pictures"),
        ("views.py", "import sklearn.cluster", "scikit-learn only in the estimator"),
        ("config.py", "import dask.dataframe", "dask only where tasks are made and run"),
        ("config.py", "from distributed import Client", "dask only where tasks are made and run"),
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
