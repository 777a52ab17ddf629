"""What went wrong with a file of this machine, and what to do: one sentence for each kind of error."""

from __future__ import annotations

import errno
import os

_AGAIN = "then try again or resume"

_REMEDIES = {
    errno.EACCES: "check who may read and write there",
    errno.EPERM: "check who may read and write there",
    errno.EROFS: "make the disk writable, or use another",
    errno.EIO: f"check the disk and the system log, {_AGAIN}",
    errno.ENODEV: f"check that the disk is mounted, {_AGAIN}",
    errno.ENXIO: f"check that the disk is mounted, {_AGAIN}",
    errno.ESTALE: f"the network disk has gone or was mounted again: check it, {_AGAIN}",
    errno.ENOTCONN: f"the network disk has gone or was mounted again: check it, {_AGAIN}",
    errno.ETIMEDOUT: f"the network disk does not answer: check it, {_AGAIN}",
    errno.ELOOP: "symbolic links lead back to each other: correct them, or choose another path",
    errno.ENAMETOOLONG: "choose a shorter path",
    errno.EINVAL: "choose another path: this disk does not accept the name",
    errno.EISDIR: "a folder is where a file should be: remove it, or choose another path",
    errno.ENOTDIR: "a file is where a folder should be: remove it, or choose another path",
    errno.ENOENT: "it was deleted, or never existed: check the path",
    errno.EEXIST: "remove it, or choose another path",
    errno.EMFILE: "allow this process more open files (ulimit -n)",
    errno.ENFILE: "allow more open files on this machine",
}


def is_trouble(error: BaseException) -> bool:
    """Whether an error comes from the operating system, about a file."""
    return isinstance(error, OSError) and error.errno is not None


def trouble_text(place: str, error: OSError) -> str:
    """Say what is wrong at a path, and what to do."""
    assert error.errno is not None
    reason = os.strerror(error.errno)
    remedy = _REMEDIES.get(error.errno, f"look into it, {_AGAIN}")
    return f"{_culprit(place, error)} cannot be used ({reason}): {remedy}"


def _culprit(place: str, error: OSError) -> str:
    """Return the file that an error names, if it names one, else the path that was given."""
    name = error.filename2 or error.filename
    return os.fsdecode(name) if isinstance(name, str | bytes) and name else place
