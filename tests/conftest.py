"""The profile of hypothesis, what would warn for no fault of ours, and what need not be measured."""

import functools
import os
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import dask
import pytest
from numba.core.dispatcher import Dispatcher

from tests.browser import Page, browser, missing_browser
from tests.effort import load_profile

load_profile()

# gilknocker, where it is installed, warns when a busy machine keeps it waiting.
dask.config.set({"distributed.admin.system-monitor.gil.enabled": False})


def compile_unmeasured() -> None:
    """Have numba compile without coverage's tracer: it sees nothing of ours there, and takes half as long again."""
    compiled = Dispatcher.compile

    @functools.wraps(compiled)
    def unmeasured(self: Dispatcher, signature: Any) -> Any:
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return compiled(self, signature)
        finally:
            sys.settrace(tracer)

    mock.patch.object(Dispatcher, "compile", unmeasured).start()


compile_unmeasured()


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        # Kernels wrap around and divide by zero as IEEE says; numpy warns of it only where they are not compiled.
        config.addinivalue_line("filterwarnings", "ignore:(overflow|divide by zero|invalid value):RuntimeWarning")


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A page in a browser that the tests of a module share."""
    if (missing := missing_browser()) and not os.environ.get("CI"):
        pytest.skip(f"{missing}: install Debian's chromium and chromium-driver, or their like")
    assert not missing, missing
    with browser() as opened:
        yield opened
