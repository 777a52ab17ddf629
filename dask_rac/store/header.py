"""The header of a store: format, settings, input; and how records are written and checked."""

from __future__ import annotations

import json
import math
import uuid
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from dask_rac.base.errors import DamagedStoreError, InputError, StoreError
from dask_rac.base.names import HEADER
from dask_rac.base.records import decoded, parse_json
from dask_rac.base.settings import Settings, checked_settings
from dask_rac.base.text import quoted
from dask_rac.files.folder import Folder
from dask_rac.files.stored_names import NamesRecord, decode_names
from dask_rac.files.urls import servers

FORMAT = 1


@dataclass(frozen=True)
class Header:
    """What a run computes, and from which input."""

    settings: Settings
    source: str | None
    """Path of the edges, if they are files."""
    fingerprint: str
    """A digest that identifies the edges."""
    weights: str
    """dtype of the weights in the input."""
    n_nodes: int | None
    shards: int | None
    """As requested."""
    versions: dict[str, str]
    engine: str = ""
    """Name of the engine, where the linkage does not imply it; only then it is written."""
    memory: int | None = None
    """Bytes that the run was given; written only if it was given any."""
    names: NamesRecord | None = None
    """The names of the nodes, if they were known before the edges were read; written only then."""
    format: int = FORMAT

    def fields(self) -> dict[str, Any]:
        """What is written."""
        fields = asdict(self)
        for name in ("engine", "memory", "names"):
            if not fields[name]:
                del fields[name]
        del fields["settings"]["far"]  # it follows from the edges, and is not known yet
        for name in ("metric", "epsilon"):
            if not fields["settings"][name]:
                del fields["settings"][name]
        return fields


def write_header(folder: Folder, header: Header) -> bool:
    """Begin a store; return whether it is new."""
    if not folder.create(HEADER, encode(header.fields())):
        return False
    if not folder.local and folder.create(HEADER, encode(header.fields())):
        folder.remove(HEADER)
        raise StoreError(
            f"{folder.url}: the server ignores If-None-Match and overwrites existing objects, so two runs could both "
            "claim this store: use a server that honours conditional writes, or a folder"
        )
    return True


def read_header(folder: Folder) -> Header:
    """Read the header of a store."""
    try:
        data = folder.read(HEADER)
    except IsADirectoryError:
        raise DamagedStoreError(_damaged_header(folder)) from None
    except (FileNotFoundError, NotADirectoryError):
        there = f"is not a store of dask_rac: it has no {HEADER}" if folder.exists() else "does not exist"
        raise StoreError(f"{folder.url} {there}; give the folder of a run") from None
    try:
        version = parse_json(data)["format"]
    except (ValueError, LookupError, TypeError):
        raise DamagedStoreError(_damaged_header(folder)) from None
    if version != FORMAT:
        raise StoreError(
            f"{folder.url} has format {quoted(version)}, this dask_rac reads {FORMAT}: use the version that wrote it, "
            "or start again in another folder"
        )
    try:
        return _decode(sound_fields(data))
    except (ValueError, LookupError, TypeError):
        raise DamagedStoreError(_damaged_header(folder)) from None


def _decode(fields: dict[str, Any]) -> Header:
    """A header as it was written; raise ValueError if no run could have written it."""
    settings = decoded(Settings, fields["settings"])
    # What is not given is written as an infinite height, which users cannot give for similarities.
    given = vars(settings) | {"max_height": None if math.isinf(settings.max_height) else settings.max_height}
    del given["far"]
    if settings.metric:
        given["missing"] = None  # no pair is missing, and none can be given
    if checked_settings(**given) != settings:
        raise ValueError("the settings are not those of a run")
    names = decode_names(fields["names"]) if "names" in fields else None
    header = decoded(Header, fields | {"settings": settings, "names": names})
    if header.weights not in ("float32", "float64"):
        raise ValueError("the weights have another type")
    if not all(isinstance(text, str) for text in header.versions.values()):
        raise ValueError("versions are text")
    return header


def _damaged_header(folder: Folder) -> str:
    """Return the message for a header that is not what was written."""
    return f"{folder.at(HEADER)} is damaged: start the run again in another folder"


def is_elsewhere(store: Folder, source: str) -> bool:
    """Whether opening the edges that a store names would contact another server than that of the store itself."""
    return not servers(source) <= servers(store.url)


def check_trusted(store: Folder, source: str, otherwise: str = "") -> None:
    """Raise unless edges can be opened without asking the user, who may have the store from someone else."""
    if is_elsewhere(store, source):
        raise StoreError(
            f"{store.url} names its input at {source}, which is not where the store itself is: if you trust the store, "
            f"pass trust_source=True{otherwise}"
        )


def check_source(header: Header, name: str, fingerprint: str) -> None:
    """Raise unless the input is what it was when the run began."""
    if fingerprint != header.fingerprint:
        raise InputError(
            f"{name} has changed since the run began (names, sizes or times of its files): start a new run in "
            f"another folder, or restore the original {header.settings.input_name}"
        )


def encode(record: dict[str, Any]) -> bytes:
    """A record as JSON, unlike any other, with a digest of itself."""
    fields = record | {"written": uuid.uuid4().hex}
    return json.dumps(fields | {"sha256": own_digest(fields)}, indent=1).encode()


def own_digest(fields: dict[str, Any]) -> str:
    """Return the digest of a record, which does not depend on the order or spacing of its fields."""
    return sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def sound_fields(data: bytes) -> dict[str, Any]:
    """Return the fields of a record; raise ValueError unless they are what was written."""
    fields = parse_json(data)
    if not isinstance(fields, dict):
        raise ValueError("it is not a record")
    try:
        digest = own_digest({name: value for name, value in fields.items() if name != "sha256"})
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if fields.pop("sha256", None) != digest:
        raise ValueError("the digest does not match")
    fields.pop("written", None)
    return fields
