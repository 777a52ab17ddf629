"""Load the hypothesis profile, silence warnings that are not our fault, and exclude compilation from coverage."""

import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import pytest
from distributed import Client
from numba.core.dispatcher import Dispatcher

from tests.support.browser import Page, browser, missing_browser
from tests.support.clients import mortal_client
from tests.support.effort import load_profile
from tests.support.folders import MEMORY, has_room, quick_folder
from tests.support.needs import need
from tests.support.object_store import ObjectStore, s3_server

load_profile()

# gilknocker, where it is installed, warns when a busy machine keeps it waiting.
dask.config.set({"distributed.admin.system-monitor.gil.enabled": False})


def compile_unmeasured() -> None:
    """Compile without coverage's tracer, which sees none of our code there and makes numba take half as long again."""
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
    if has_room():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))  # where pytest makes each tmp_path
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        # Kernels overflow and divide by zero as IEEE defines; numpy warns about it only when they are not compiled.
        config.addinivalue_line("filterwarnings", "ignore:(overflow|divide by zero|invalid value):RuntimeWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what pynndescent compiles in each process, half a minute per metric: one process gets all of it."""
    items.sort(key=lambda item: "test_approximate" not in item.nodeid)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that costs no disk."""
    with quick_folder() as made:
        yield made


@pytest.fixture(scope="module")
def shared_folder() -> Iterator[Path]:
    """The same for all tests of a module."""
    with quick_folder() as made:
        yield made


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers that the tests of a module share, and may kill."""
    with mortal_client() as made:
        yield made


@pytest.fixture(scope="module")
def object_store() -> Iterator[ObjectStore]:
    """A server of S3 that the tests of a module share."""
    with s3_server() as store:
        yield store


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A browser page that the tests of a module share."""
    missing = missing_browser()
    need(not missing, f"{missing}: install Debian's chromium and chromium-driver, or their like")
    with browser() as opened:
        yield opened
