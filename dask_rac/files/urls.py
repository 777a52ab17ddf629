"""URLs of stores, edges and outputs: their file systems, their secrets, and what went wrong when a server fails."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from dask_rac.base.errors import InputError, StoreError
from dask_rac.base.secrets import LOCAL, masked, masked_url
from dask_rac.base.text import quoted, short
from dask_rac.files.full import is_disk_full
from dask_rac.files.trouble import is_trouble, trouble_text

PACKAGES = {
    "s3": ("s3fs", "'dask-rac[s3]'"),
    "s3a": ("s3fs", "'dask-rac[s3]'"),
    "gs": ("gcsfs", "gcsfs"),
    "gcs": ("gcsfs", "gcsfs"),
    "abfs": ("adlfs", "adlfs"),
    "abfss": ("adlfs", "adlfs"),
    "az": ("adlfs", "adlfs"),
}
"""What object stores need: the module, and the package to install."""

S3 = ("s3", "s3a")
S3_ATTEMPTS = 2
"""How often s3fs makes a request that botocore has made five times; a read is repeated twice, once by each of its
layers. With the default of s3fs, 5, a server that accepts connections and never answers is asked for half an hour."""

PART_SECONDS = 600  # for a part of a file, some 50 MB; s3fs waits without a limit for a server that does not take it

S3_CONNECTIONS = 128
"""Of a process, at most: eight for each of 16 threads. botocore's default, 10, has threads wait for one another."""

ELSEWHERE = (
    "the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3://), an instance role, or fsspec's "
    "configuration files"
)

NO_BUCKET = "bucket does not exist"
LIBRARIES = frozenset(
    {"adlfs", "aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google", "requests", "urllib3"}
)


def locate(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, one per process, and the path on it."""
    if "\0" in url:
        raise InputError(f"{quoted(url)} contains a NUL character, which no path may: remove it")
    if (shown := masked_url(url)) != url:
        raise InputError(
            f"{shown} contains credentials, or a query or fragment that may be one, which would be saved with "
            f"the run: remove it (only s3://...?versionId= may stay), and put credentials into {ELSEWHERE}"
        )
    protocol = url.partition("://")[0] if "://" in url else ""
    # Other processes write there as well, so a cached listing would be wrong.
    options = {"use_listings_cache": False} if protocol in PACKAGES else {}
    try:
        filesystem, path = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        module, package = PACKAGES.get(protocol, ("", ""))
        remedy = f"{module} is not installed, pip install {package}" if module else str(error)
        raise InputError(f"{url} cannot be opened: {remedy}") from None
    except (ValueError, TypeError) as error:
        raise InputError(f"{short(url)} cannot be opened: {error}") from error
    if protocol in S3:
        _bound(filesystem)
        _widen(filesystem)
    return filesystem, path


def _bound(filesystem: Any) -> None:
    """Have every request of s3fs end, the parts of a file that is being written among them."""
    filesystem.retries = S3_ATTEMPTS
    filesystem.call_s3 = partial(type(filesystem).call_s3, filesystem, timeout=PART_SECONDS)


def _widen(filesystem: Any) -> None:
    """Let s3fs have a connection for each request that threads make, unless the user says how many it may have."""
    filesystem.config_kwargs = {"max_pool_connections": S3_CONNECTIONS} | filesystem.config_kwargs


def full_name(name: str) -> str:
    """Return a URL as it is, and a path as it is found from any working directory."""
    return name if "://" in name else os.path.abspath(name)


def servers(url: str) -> frozenset[str]:
    """Return what opening a URL would contact or load, such as `s3://bucket`; nothing for a file of this machine."""
    if "://" not in url and "::" not in url:
        return frozenset()
    return frozenset(server for link in url.split("::") if (server := _server(link)))


def _server(link: str) -> str:
    """Return the server of one URL of a chain, or the file system that a chain names alone."""
    scheme, between, rest = link.partition("://")
    if not between:
        return "" if re.search("[^a-z0-9]", link) else link
    return "" if scheme in LOCAL else f"{scheme}://{rest.partition('/')[0]}"


def is_far(url: str) -> bool:
    """Whether a URL is not that of a file on a disk of this machine."""
    return "://" in url and not url.startswith(("file://", "local://"))


def is_local(filesystem: Any) -> bool:
    """Whether files are accessed with plain system calls."""
    return isinstance(filesystem, LocalFileSystem)


@contextmanager
def explained(url: str, kind: type[Exception] = StoreError) -> Iterator[None]:
    """Turn an error of a disk or an object store, or a failure to reach it, into an error that states what to do.

    Errors about files that are missing or exist already pass through unchanged; so does a full disk.
    """
    try:
        yield
    except Exception as error:
        if not is_answer(error):
            raise
        if not is_far(url):
            if not isinstance(error, OSError) or not is_trouble(error):
                raise
            raise kind(trouble_text(url, error)) from error
        raise kind(diagnosis(url, error)) from None


def is_answer(error: Exception) -> bool:
    """Whether an error comes from a server or from the connection to it."""
    if isinstance(error, FileNotFoundError):
        return NO_BUCKET in str(error)
    if isinstance(error, FileExistsError | IsADirectoryError | NotADirectoryError):
        return False
    if isinstance(error, OSError):
        far = isinstance(error, PermissionError | TimeoutError | ConnectionError) or error.errno is not None
        return far and not is_disk_full(error)
    return type(error).__module__.partition(".")[0] in LIBRARIES


def diagnosis(url: str, error: Exception) -> str:
    """Return what is wrong and what to do."""
    name, text = type(error).__name__, masked(str(error)).rstrip(".: ") or type(error).__name__
    if NO_BUCKET in text:
        return f"{url}: this bucket does not exist: create it first, or correct the name"
    if "Credential" in name or "Token" in name:
        return f"{url}: no credentials ({text}): put them, here and for every worker, into {ELSEWHERE}"
    if isinstance(error, PermissionError):
        return (
            f"{url}: access is denied ({text}): check which credentials this process and every worker have, and that "
            "they may list, read, write and delete there"
        )
    if isinstance(error, TimeoutError) or "Connect" in name or "Timeout" in name:
        return (
            f"{url} cannot be reached ({text}): check that the server is up and its address is right "
            "(AWS_ENDPOINT_URL_S3 for s3://), here and for every worker, then try again or resume"
        )
    return f"{url} reports an error ({name}: {text}): try again or resume; if it persists, check the server's logs"
