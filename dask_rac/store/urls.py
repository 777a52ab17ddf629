"""URLs of stores, edges and outputs: where they lead, what they must not tell, and why nobody answers there."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from dask_rac.errors import InputError, StoreError

PACKAGES = {
    "s3": ("s3fs", "'dask-rac[s3]'"),
    "s3a": ("s3fs", "'dask-rac[s3]'"),
    "gs": ("gcsfs", "gcsfs"),
    "gcs": ("gcsfs", "gcsfs"),
    "abfs": ("adlfs", "adlfs"),
    "abfss": ("adlfs", "adlfs"),
    "az": ("adlfs", "adlfs"),
}
"""What object stores need: the module, and what to install."""

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
    """A text with `***` for what URLs in it should keep to themselves."""
    return _PARAMETER.sub(r"\1***", _LOGIN.sub("***@", text)) if "://" in text else text


def locate(url: str) -> tuple[Any, str]:
    """The file system of a URL, one a process, and the path on it."""
    if masked(url) != url:
        raise InputError(
            f"{masked(url)} has credentials in it, which would be written down with the run: take them out, and put "
            f"them into {ELSEWHERE}"
        )
    protocol = url.partition("://")[0] if "://" in url else ""
    # Other processes write there as well, so that a listing kept from before would be wrong.
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
    """Whether files are reached by plain system calls."""
    return isinstance(filesystem, LocalFileSystem)


@contextmanager
def explained(url: str, kind: type[Exception] = StoreError) -> Iterator[None]:
    """Turn what an object store answers, or that it does not, into an error that says what to do.

    What is missing or there already stays what it is; so does a full disk.
    """
    try:
        yield
    except Exception as error:
        if "://" not in url or not _is_answer(error):
            raise
        raise kind(_diagnosis(url, error)) from None


def _is_answer(error: Exception) -> bool:
    """Whether an error comes from a server or the way there."""
    if isinstance(error, FileNotFoundError):
        return NO_BUCKET in str(error)
    if isinstance(error, FileExistsError | IsADirectoryError | NotADirectoryError):
        return False
    if isinstance(error, OSError):
        far = isinstance(error, PermissionError | TimeoutError) or error.errno is not None
        return far and error.errno not in (errno.ENOSPC, errno.EDQUOT)
    return type(error).__module__.partition(".")[0] in LIBRARIES


def _diagnosis(url: str, error: Exception) -> str:
    """What is wrong, and what to do."""
    name, text = type(error).__name__, masked(str(error)).rstrip(".: ") or type(error).__name__
    if NO_BUCKET in text:
        return f"{url}: this bucket does not exist: make it first, or correct the name"
    if "Credential" in name or "Token" in name:
        return f"{url}: no credentials ({text}): put them, here and for every worker, into {ELSEWHERE}"
    if isinstance(error, PermissionError):
        return (
            f"{url}: access is refused ({text}): see which credentials this process and every worker has, and that "
            "they may list, read, write and delete there"
        )
    if isinstance(error, TimeoutError) or "Connect" in name or "Timeout" in name:
        return (
            f"{url} cannot be reached ({text}): see that the server is up and its address is right "
            "(AWS_ENDPOINT_URL_S3 for s3://), here and for every worker, then try again or resume"
        )
    return f"{url} gives an error ({name}: {text}): try again or resume, and see what its server says if it stays"
