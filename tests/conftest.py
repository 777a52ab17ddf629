"""The profile of hypothesis, and the warnings of kernels that run interpreted."""

import os

import pytest

from tests.effort import load_profile

load_profile()


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        # Kernels wrap around and divide by zero as IEEE says; numpy warns of it only where they are not compiled.
        config.addinivalue_line("filterwarnings", "ignore:(overflow|divide by zero|invalid value):RuntimeWarning")
