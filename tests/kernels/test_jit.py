"""Compilations are told of, kernels loaded from the cache are not."""

import importlib.util
import inspect
from pathlib import Path
from typing import Any

import numba
import pytest

from dask_rac.kernels.jit import compiling

SOURCE = """
from dask_rac.kernels.jit import kernel

@kernel
def twice(number):
    return 2 * number
"""


def fresh(path: Path) -> Any:
    """The function of a file, as a new process would import it."""
    spec = importlib.util.spec_from_file_location("numbers_of_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.twice


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_only_what_is_compiled_is_told_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "numbers.py").write_text(inspect.cleandoc(SOURCE))
    told: list[str] = []
    for expected in (["compiles"], ["compiles"]):
        twice = fresh(tmp_path / "numbers.py")
        with compiling(lambda: told.append("compiles")):
            assert (twice(3), twice(1.5)) == (6, 3.0)
        assert told == expected
    assert twice.stats.cache_hits


def test_what_is_compiled_outside_is_not_told() -> None:
    told: list[str] = []
    with compiling(lambda: told.append("compiles")):
        pass
    assert numba.njit(lambda: 1)() == 1
    assert not told
