"""What URLs may hide: logins, signatures and tokens, which no message, log or file of ours repeats.

A secret can have any name (`?code=`, `?jwt=`, `#token=`), so every query and every fragment of a URL counts as one,
and so does every login, percent-encoded or not. What stays: the version of an object on S3; the container of a URL of
Azure, and the user's name, alone, where a file system needs it. Paths without a scheme are file names: `?` and `#`
mean nothing in them.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"

LOCAL = frozenset({"file", "local", "memory"})
"""Schemes that stay on this machine: what follows is a file name."""

_NAMED = frozenset({"abfs", "abfss", "adl", "hdfs", "sftp", "smb", "ssh", "wasb", "wasbs", "webhdfs"})
"""Schemes where a name before @ is that of a container or user."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9.+-]*)://((?:(?!::)\S)*)")
_AUTHORITY = re.compile(r"[^/?#]*")
_SLASHED = re.compile(r"[^/:@?#]*:(?!\d{1,5}(?:[/?#]|$))[^@?#]*@")  # a login whose secret has a slash in it
_VERSION = re.compile(r"\?versionId=[\w.-]+$")


def masked(text: str) -> str:
    """Return a text in which the secrets of URLs are replaced by `***`."""
    return _URL.sub(lambda found: _shown(found[1], found[2]), text) if "://" in text else text


def masked_url(url: str) -> str:
    """Return a URL, or a chain of them, without its secrets; other than in a text, blanks are part of it."""
    links = (link.partition("://") for link in url.split("::"))
    return "::".join(_shown(scheme, rest) if between else scheme for scheme, between, rest in links)


def _shown(scheme: str, rest: str) -> str:
    """Return one URL without its secrets."""
    if scheme.lower() in LOCAL:
        return f"{scheme}://{rest}"
    login = _login(scheme.lower(), rest)
    rest = HIDDEN * bool(login) + rest[login:]
    end = re.search(r"[?#]", rest)
    if end is None or (scheme.lower() in ("s3", "s3a") and _VERSION.fullmatch(rest, end.start())):
        return f"{scheme}://{rest}"
    return f"{scheme}://{rest[: end.end()]}{HIDDEN}"


def _login(scheme: str, rest: str) -> int:
    """Return how many characters of what follows a scheme are a login, without its @."""
    host = _AUTHORITY.match(rest)
    assert host is not None
    authority = host[0]
    name, at, _ = authority.rpartition("@")
    if at:
        return 0 if scheme in _NAMED and re.fullmatch(r"[\w.-]+", name) else len(name)
    slashed = _SLASHED.match(rest)
    if slashed is not None:
        return slashed.end() - 1
    return len(authority) if "@" in _decoded(authority) else 0


def _decoded(text: str) -> str:
    """Return a text without percent signs, however often it was encoded."""
    while (plain := unquote(text)) != text:
        text = plain
    return text
