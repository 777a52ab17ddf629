"""What to say when an input cannot be read: one place for the errors of all libraries that decode files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dask_rac.base.errors import InputError, ResourceError, StoreError
from dask_rac.files.urls import explained

LONGEST = 300  # characters of a library's message that are repeated


@contextmanager
def readable(shown: str, form: str = "", url: str = "", remedy: str = "write it again") -> Iterator[None]:
    """Turn an error of the system or of a library while a file is read into one that names the file and the remedy.

    Decoders raise errors of any type when bytes are damaged. So every exception but ours counts as damage, and blocks
    should hold little more than calls of libraries. `form` is the format that was expected, `url` where the file is if
    `shown` does not state it, `remedy` what to do about a damaged file.
    """
    try:
        with explained(url or shown, InputError):
            yield
    except (InputError, StoreError, ResourceError):
        raise
    except MemoryError as error:
        raise ResourceError(
            f"{shown} needs more memory than there is ({_words(error)}): use a machine with more; if it should not be "
            f"that large, it is damaged: {remedy}"
        ) from error
    except Exception as error:
        raise InputError(_fault(shown, f" as {form}" if form else "", remedy, error)) from error


def _fault(shown: str, form: str, remedy: str, error: Exception) -> str:
    """Return what is wrong with a file and what to do."""
    words = _words(error)
    if isinstance(error, FileNotFoundError):
        return f"{shown} no longer exists: restore it; {words}"
    if isinstance(error, IsADirectoryError | NotADirectoryError):
        return f"{shown} cannot be read{form}: {words}; restore what was there, or check the path"
    return f"{shown} cannot be read{form}: {words}; {remedy}"


def _words(error: BaseException) -> str:
    """Return the message of an error on one line, and the type of the error where the message alone says little."""
    text = " ".join(str(error).split())
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}..."
    plain = text and isinstance(error, OSError | ValueError | MemoryError)
    return text if plain else f"{type(error).__name__} {text}".rstrip()
