"""What a run is and how far it got: a header, then one manifest a step, each naming its parent.

    rac.json                    the header: format, settings, input
    manifests/00003.json        step 3: its files with their digests, its records, the digest of its parent
    rounds/00003-1f0c/...       the shards that step 3 wrote
    merges/00003-1f0c-00000...  its merges, which stay

A manifest is created exclusively, after all it names: that file is the commit.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any

from dask_rac.config import RoundRecord, Settings
from dask_rac.errors import DamagedStoreError, StoreError
from dask_rac.store.arrays import check_array, check_group
from dask_rac.store.files import FileRecord, Folder
from dask_rac.store.tables import TableRecord, check_table

FORMAT = 1
HEADER = "rac.json"
STEPS = "manifests"


@dataclass(frozen=True)
class ShardRecord:
    """One shard of a state: a Zarr group."""

    name: str
    first: int
    """Position of its first cluster."""
    clusters: int
    entries: int
    files: tuple[FileRecord, ...]

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class State:
    """The clusters between two rounds, in shards."""

    round: int
    """Rounds done."""
    clusters: int
    entries: int
    shards: tuple[ShardRecord, ...]
    component: str = ""
    """For single linkage, the group that has the component of each node, once there are some."""
    tree: tuple[str, ...] = ()
    """For single linkage, the groups that have the edges of the spanning forest found so far."""
    files: tuple[FileRecord, ...] = ()
    """Of these groups."""

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return sum(shard.bytes for shard in self.shards) + sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class Header:
    """What a run computes, and from what."""

    settings: Settings
    source: str | None
    """Path of the edges, if they are on disk."""
    fingerprint: str
    """What tells the edges from any others."""
    weights: str
    """dtype of the weights as they are given."""
    n_nodes: int | None
    shards: int | None
    """As asked for."""
    versions: dict[str, str]
    format: int = FORMAT


@dataclass(frozen=True)
class Facts:
    """What reading the edges has shown."""

    nodes: int
    edges: int
    """Each once."""
    input_bytes: int
    least: float
    largest: float
    loops: int
    repeats: int
    """Rows that name an edge once more."""


@dataclass(frozen=True)
class Manifest:
    """One step: reading the edges, a round, or all that was left."""

    step: int
    parent: str
    """Digest of the manifest before, or of the header."""
    facts: Facts
    state: State | None
    """None when all is done."""
    merges: tuple[TableRecord, ...]
    records: tuple[RoundRecord, ...]
    peak_disk: int
    """The most bytes that the store has held so far."""
    seconds: float
    """Since the run began, pauses apart."""
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds of each phase of its tasks, over all of them."""
    traffic: dict[str, int] = field(default_factory=dict)
    """Bytes that its tasks read and wrote."""


def write_header(folder: Folder, header: Header) -> bool:
    """Begin a store; says whether it was not there."""
    if not folder.create(HEADER, _encode(header)):
        return False
    if not folder.local and folder.create(HEADER, _encode(header)):
        folder.remove(HEADER)
        raise StoreError(
            f"{folder.url}: its server writes over what is there though asked not to (If-None-Match), so that two runs "
            "could both take it for theirs: use a server that honours conditional writes, or a folder"
        )
    return True


def read_header(folder: Folder) -> Header:
    """What the run of a store computes."""
    try:
        data = folder.read(HEADER)
    except (FileNotFoundError, NotADirectoryError):
        there = f"is no store of dask_rac: it has no {HEADER}" if folder.exists() else "does not exist"
        raise StoreError(f"{folder.url} {there}; give the folder of a run") from None
    try:
        fields = json.loads(data)
        found = fields["format"]
    except (ValueError, LookupError, TypeError):
        raise DamagedStoreError(_no_header(folder)) from None
    if found != FORMAT:
        raise StoreError(
            f"{folder.url} has format {found}, this dask_rac reads {FORMAT}: use the version that wrote it, or start "
            "anew in another folder"
        )
    try:
        fields = _sound(data)
        return Header(**fields | {"settings": Settings(**fields["settings"])})
    except (ValueError, LookupError, TypeError):
        raise DamagedStoreError(_no_header(folder)) from None


def _no_header(folder: Folder) -> str:
    """What to say of a header that is not what was written."""
    return f"{folder.at(HEADER)} is damaged: start the run anew in another folder"


def commit(folder: Folder, manifest: Manifest) -> bool:
    """Make a step count; says whether nobody else has done so."""
    return folder.create(_step_name(manifest.step), _encode(manifest))


def withdraw(folder: Folder, step: int) -> None:
    """Take back this step and all after it, which do not hold."""
    for name in _manifests(folder):
        if f"{STEPS}/{name}" >= _step_name(step):
            folder.remove(f"{STEPS}/{name}")


def parent_digest(folder: Folder, step: int) -> str:
    """What the manifest of a step calls its parent."""
    return sha256(folder.read(_step_name(step - 1) if step else HEADER)).hexdigest()


def read_chain(folder: Folder) -> list[Manifest]:
    """The manifests from the first to the newest that follows from the header; what comes after it does not count."""
    chain: list[Manifest] = []
    parent = ""
    while True:
        try:
            data = folder.read(_step_name(len(chain)))
            manifest = _decode(data)
            parent = parent or parent_digest(folder, 0)
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, LookupError):
            return chain
        if manifest.parent != parent:
            return chain
        chain.append(manifest)
        parent = sha256(data).hexdigest()


def count_manifests(folder: Folder) -> int:
    """Manifests that are there, whether they hold or not."""
    return len(_manifests(folder))


def _manifests(folder: Folder) -> list[str]:
    """Names of the manifests that are there."""
    return [name for name in folder.names(STEPS) if name.endswith(".json")]


def check_files(folder: Folder, manifest: Manifest) -> None:
    """Raise unless the files of a step are what it wrote."""
    for table in manifest.merges:
        check_table(folder, table)
    for group in sorted({file.name.rpartition("/")[0] for file in _arrays(manifest)}):
        check_group(folder, group)
    for file in _arrays(manifest):
        check_array(folder, file)


def file_names(manifest: Manifest) -> Iterator[str]:
    """The files of a step that have to be on disk when it counts."""
    for table in manifest.merges:
        yield table.name
    for file in _arrays(manifest):
        yield f"{file.name}/zarr.json"
        yield f"{file.name}/0"


def _arrays(manifest: Manifest) -> Iterator[FileRecord]:
    """The arrays of a step's state."""
    if manifest.state is not None:
        for shard in manifest.state.shards:
            yield from shard.files
        yield from manifest.state.files


def _step_name(step: int) -> str:
    """The file of a manifest."""
    return f"{STEPS}/{step:05d}.json"


def _encode(record: Header | Manifest) -> bytes:
    """As JSON, unlike any other, with a digest of itself."""
    fields = asdict(record) | {"written": uuid.uuid4().hex}
    return json.dumps(fields | {"sha256": _own_digest(fields)}, indent=1).encode()


def _own_digest(fields: dict[str, Any]) -> str:
    """The digest of a record, whatever the order and the spacing of its fields."""
    return sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _sound(data: bytes) -> dict[str, Any]:
    """The fields of a record; ValueError unless they are what was written."""
    fields: dict[str, Any] = json.loads(data)
    if fields.pop("sha256") != _own_digest(fields):
        raise ValueError("the digest does not fit")
    fields.pop("written", None)
    return fields


def _decode(data: bytes) -> Manifest:
    """From JSON."""
    fields = _sound(data)
    state = fields["state"]
    if state is not None:
        shards = tuple(
            ShardRecord(**shard | {"files": tuple(FileRecord(**file) for file in shard["files"])})
            for shard in state["shards"]
        )
        files = tuple(FileRecord(**file) for file in state["files"])
        state = State(**state | {"shards": shards, "tree": tuple(state["tree"]), "files": files})
    return Manifest(
        **fields
        | {
            "facts": Facts(**fields["facts"]),
            "state": state,
            "merges": tuple(TableRecord(**table) for table in fields["merges"]),
            "records": tuple(RoundRecord(**record) for record in fields["records"]),
        }
    )
