"""What some tests cannot do without: where it is missing they are skipped, but never where all is to be tested."""

import os

import pytest


def need(there: bool, missing: str) -> None:
    """Skip a test, or all of a module, unless something is there; with CI set, fail."""
    if not there and os.environ.get("CI"):
        pytest.fail(missing)
    if not there:
        pytest.skip(missing, allow_module_level=True)
