"""The header of a store: format, settings, input; and how records are written and checked."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from dask_rac.base.errors import DamagedStoreError, InputError, StoreError
from dask_rac.base.names import HEADER
from dask_rac.base.settings import Settings
from dask_rac.edges.source import EdgeSource
from dask_rac.files.folder import Folder

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
    format: int = FORMAT

    def fields(self) -> dict[str, Any]:
        """What is written."""
        fields = asdict(self)
        return fields if self.engine else {name: value for name, value in fields.items() if name != "engine"}


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
    except (FileNotFoundError, NotADirectoryError):
        there = f"is not a store of dask_rac: it has no {HEADER}" if folder.exists() else "does not exist"
        raise StoreError(f"{folder.url} {there}; give the folder of a run") from None
    try:
        fields = json.loads(data)
        version = fields["format"]
    except (ValueError, LookupError, TypeError):
        raise DamagedStoreError(_damaged_header(folder)) from None
    if version != FORMAT:
        raise StoreError(
            f"{folder.url} has format {version}, this dask_rac reads {FORMAT}: use the version that wrote it, or start "
            "again in another folder"
        )
    try:
        fields = sound_fields(data)
        return Header(**fields | {"settings": Settings(**fields["settings"])})
    except (ValueError, LookupError, TypeError):
        raise DamagedStoreError(_damaged_header(folder)) from None


def _damaged_header(folder: Folder) -> str:
    """Return the message for a header that is not what was written."""
    return f"{folder.at(HEADER)} is damaged: start the run again in another folder"


def check_source(header: Header, source: EdgeSource) -> None:
    """Raise unless edges are what they were when the run began."""
    if source.fingerprint != header.fingerprint:
        raise InputError(
            f"{source.name} has changed since the run began (names, sizes or times of its files): start a new run in "
            "another folder, or restore the original edges"
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
    fields: dict[str, Any] = json.loads(data)
    if fields.pop("sha256") != own_digest(fields):
        raise ValueError("the digest does not match")
    fields.pop("written", None)
    return fields
