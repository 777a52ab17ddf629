"""What shows that a file was changed."""

from __future__ import annotations

import json
from datetime import datetime
from hashlib import sha256
from typing import Any

SIGNS = ("mtime", "ETag", "LastModified", "created", "last_modified")
"""What file systems report about the version of a file, the surest sign first: local disks and Google, S3, memory,
Azure."""


def stamp(info: dict[str, Any]) -> str:
    """Return the version of a file as a text, which changes with the file; "" if the file system does not report any.

    Headers of runs and graphs and records of recipes hold digests of this text, so for local files it must stay the
    same in all versions of the package: the time of modification in seconds, "" for 0.
    """
    known = next((info[sign] for sign in SIGNS if info.get(sign) is not None), None) or ""
    # Some file systems give a datetime for one file and a number in a listing.
    return str(known.timestamp() if isinstance(known, datetime) else known)


def listing_stamp(root: str, infos: dict[str, Any]) -> str:
    """Return a digest of the names, versions and sizes of all files below a path."""
    facts = [[path.removeprefix(root), stamp(info), info["size"]] for path, info in sorted(infos.items())]
    return sha256(json.dumps(facts).encode()).hexdigest()
