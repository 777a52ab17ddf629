"""URLs of stores, edges and outputs: their file systems, their secrets, and what went wrong when a server fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from dask_rac.base.errors import InputError, StoreError
from dask_rac.files.full import is_disk_full

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

ELSEWHERE = (
    "the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3://), an instance role, or fsspec's "
    "configuration files"
)

NO_BUCKET = "bucket does not exist"
LIBRARIES = frozenset(
    {"adlfs", "aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google", "requests", "urllib3"}
)

_LOGIN = re.compile(
    r"(?<=://)(?:[^/:@?#]*:(?!\d{1,5}(?:[/?#]|$))[^@\s]*@|(?<=http://)[^/@\s]+@|(?<=https://)[^/@\s]+@)"
)
_PARAMETER = re.compile(
    r"([?&;](?:[\w.-]*(?:signature|token|secret|passw|credential|accesskey|access_key|apikey|api_key)[\w.-]*"
    r"|sig|pwd|key|auth)=)[^&;#\s]*",
    re.IGNORECASE,
)


def masked(text: str) -> str:
    """Return a text in which the secrets of URLs are replaced by `***`."""
    return _PARAMETER.sub(r"\1***", _LOGIN.sub("***@", text)) if "://" in text else text


def locate(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, one per process, and the path on it."""
    if masked(url) != url:
        raise InputError(
            f"{masked(url)} contains credentials, which would be saved with the run: remove them, and put them into "
            f"{ELSEWHERE}"
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
    except ValueError as error:
        raise InputError(f"{url} cannot be opened: {error}") from error
    return filesystem, path


def is_local(filesystem: Any) -> bool:
    """Whether files are accessed with plain system calls."""
    return isinstance(filesystem, LocalFileSystem)


@contextmanager
def explained(url: str, kind: type[Exception] = StoreError) -> Iterator[None]:
    """Turn an error of an object store, or a failure to reach it, into an error that states what to do.

    Errors about files that are missing or exist already pass through unchanged; so does a full disk.
    """
    try:
        yield
    except Exception as error:
        if "://" not in url or not _is_answer(error):
            raise
        raise kind(_diagnosis(url, error)) from None


def _is_answer(error: Exception) -> bool:
    """Whether an error comes from a server or from the connection to it."""
    if isinstance(error, FileNotFoundError):
        return NO_BUCKET in str(error)
    if isinstance(error, FileExistsError | IsADirectoryError | NotADirectoryError):
        return False
    if isinstance(error, OSError):
        far = isinstance(error, PermissionError | TimeoutError) or error.errno is not None
        return far and not is_disk_full(error)
    return type(error).__module__.partition(".")[0] in LIBRARIES


def _diagnosis(url: str, error: Exception) -> str:
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
