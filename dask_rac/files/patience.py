"""Requests to file systems: what is repeated when a server or the connection to it fails, and for how long.

The libraries repeat requests themselves, each in its own way and only some of them: s3fs gives up at once when a server
answers 500, and repeats what botocore has repeated already. So every request of ours goes through `asked`. It must be
one that may be made twice: reading, listing, deleting, writing an object whole.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from inspect import iscoroutinefunction
from random import uniform
from time import monotonic, sleep
from typing import Any, TypeVar

from dask_rac.base.defaults import setting_seconds
from dask_rac.files.urls import LIBRARIES, diagnosis, explained, is_answer, is_far

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds
WRITE_SECONDS = 120.0  # for an object without bytes
SLOWEST = 2**18  # bytes per second, of a connection that is still of use

FINAL = FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError
"""Answers that another request would not change."""

PASSING_NUMBERS = frozenset(
    {
        getattr(errno, "EREMOTEIO", errno.EIO),  # as s3fs has 500
        errno.EBUSY,  # as s3fs has 503
        errno.EIO,
        errno.EAGAIN,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETRESET,
    }
)

PASSING_NAMES = frozenset(
    {
        "ClientConnectionError",  # aiohttp
        "ClientPayloadError",
        "ConnectionError",  # botocore, requests
        "HTTPClientError",  # botocore
        "IncompleteReadError",
        "ResponseParserError",
        "ServiceRequestError",  # azure
        "ServiceResponseError",
        "TransportError",  # google
    }
)
"""Classes of libraries that may not be installed."""

PASSING_STATUS = frozenset({408, 409, 429})  # and all from 500 on


def asked(url: str, kind: type[Exception], request: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
    """Make a request, repeat it for a while if the failure may pass, then raise an error that states what to do.

    Local files are asked once. Errors about files that are missing or exist already are raised unchanged.
    """
    if not is_far(url):
        with explained(url, kind):
            return request(*arguments, **keywords)
    end, pause = monotonic() + setting_seconds("store-timeout"), FIRST_PAUSE
    while True:
        try:
            return request(*arguments, **keywords)
        except Exception as error:
            passing = may_pass(error)
            if not passing and not is_answer(error):
                raise
            if not passing or monotonic() > end:
                raise kind(diagnosis(url, error)) from None
        sleep(uniform(0.5, 1) * pause)  # all workers of a run fail at the same moment
        pause = min(2 * pause, LONGEST_PAUSE)


def time_limit(request: Callable[..., Any], size: int) -> dict[str, float]:
    """Return the option that ends a request which sends so many bytes, where fsspec has one.

    aiohttp waits without a limit for a server that does not take what it is sent; only for answers there is a timeout.
    """
    bounded = iscoroutinefunction(getattr(request, "__wrapped__", None))  # one of fsspec's wrappers, which wait for it
    return {"timeout": WRITE_SECONDS + size / SLOWEST} if bounded else {}


def may_pass(error: Exception) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, FINAL):
        return False
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    status = _status(error)
    if status is not None:
        return status >= 500 or status in PASSING_STATUS
    if isinstance(error, OSError) and error.errno in PASSING_NUMBERS:
        return True
    kinds = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.partition(".")[0] in LIBRARIES}
    return bool(kinds & PASSING_NAMES) and "SSLError" not in kinds


def _status(error: BaseException) -> int | None:
    """The HTTP status behind an error of s3fs, if a server has answered at all."""
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
    return status if isinstance(status, int) else None
