"""The journal of a run: a header, then one manifest per step, each naming its parent.

    rac.json                    the header: format, settings, input
    manifests/00003.json        step 3: its files with their digests, its records, the digest of its parent
    rounds/00003-1f0c/...       the shards that step 3 wrote
    merges/00003-1f0c-00000...  its merges, which are kept

A manifest is created exclusively, after all the files it names: creating it is the commit. It is durable at once, what
it names not always: a power failure may leave a step whose files are damaged, and one before it that is intact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

from dask_rac.base.errors import DamagedStoreError
from dask_rac.base.events import RoundRecord
from dask_rac.base.names import (
    HEADER,
    MANIFESTS,
    MERGES,
    ROUNDS,
    TREE,
    is_ours,
    is_temporary,
    manifest_name,
    refuse_names,
)
from dask_rac.base.records import decoded
from dask_rac.files.arrays import check_array, check_group
from dask_rac.files.folder import FileRecord, Folder
from dask_rac.files.stored_names import NamesRecord, decode_names
from dask_rac.files.tables import TableRecord, check_table
from dask_rac.store.header import encode, sound_fields

UNUSED: dict[str, Any] = {"component": "", "tree": []}
"""Keys that every state of format 1 has, used or not: they are the forest engine's own."""


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
    """The clusters between two steps, in shards: what the next step begins with."""

    round: int
    """Rounds completed."""
    clusters: int
    shards: tuple[ShardRecord, ...]
    files: tuple[FileRecord, ...] = ()
    """Arrays of groups that are not shards."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """What only its engine understands, as JSON has it."""
    engine: str = ""
    """Name of the engine that continues from here, where it is not that of the header; only then it is written."""

    @property
    def entries(self) -> int:
        """Entries of all shards."""
        return sum(shard.entries for shard in self.shards)

    @property
    def arrays(self) -> tuple[FileRecord, ...]:
        """All its arrays."""
        return (*(file for shard in self.shards for file in shard.files), *self.files)

    @property
    def groups(self) -> set[str]:
        """The groups that its arrays are in."""
        return {file.name.rpartition("/")[0] for file in self.arrays}

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return sum(file.bytes for file in self.arrays)

    def fields(self) -> dict[str, Any]:
        """What is written."""
        fields = {
            "round": self.round,
            "clusters": self.clusters,
            "entries": self.entries,
            "shards": [asdict(shard) for shard in self.shards],
            "files": [asdict(file) for file in self.files],
        }
        return UNUSED | fields | dict(self.own) | ({"engine": self.engine} if self.engine else {})


@dataclass(frozen=True)
class Facts:
    """What was found out when the edges were read."""

    nodes: int
    edges: int
    """Each edge counted once."""
    input_bytes: int
    least: float
    largest: float
    loops: int
    repeats: int
    """Rows that repeat an edge."""
    first: int = 0
    """The smallest id, if the number of nodes was not given; written only where it is not 0."""


@dataclass(frozen=True)
class Manifest:
    """One step: reading the edges, one round, or all remaining rounds."""

    step: int
    parent: str
    """Digest of the previous manifest, or of the header."""
    facts: Facts
    state: State | None
    """None once the run is complete."""
    merges: tuple[TableRecord, ...]
    records: tuple[RoundRecord, ...]
    peak_disk: int
    """The largest size of the store so far, in bytes."""
    seconds: float
    """Seconds since the run began, without pauses."""
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds of each phase, summed over its tasks."""
    traffic: dict[str, int] = field(default_factory=dict)
    """Bytes read and written by its tasks."""
    names: NamesRecord | None = None
    """The names of the nodes, if reading the edges has shown them; only the first step has them, and writes them."""


def commit(folder: Folder, manifest: Manifest) -> bool:
    """Commit a step; return False if another run has already committed it."""
    return folder.create(manifest_name(manifest.step), encode(_fields(manifest)))


def withdraw(folder: Folder, step: int) -> None:
    """Take back this step and all later ones, which are not valid."""
    for name in reversed(_manifests(folder)):  # whenever this ends, no gap is left
        if f"{MANIFESTS}/{name}" >= manifest_name(step):
            folder.remove(f"{MANIFESTS}/{name}")


def parent_digest(folder: Folder, step: int) -> str:
    """Return the digest of a step's parent."""
    return sha256(folder.read(manifest_name(step - 1) if step else HEADER)).hexdigest()


def read_chain(folder: Folder) -> list[Manifest]:
    """Return the manifests that form an unbroken chain from the header; later ones do not count."""
    chain: list[Manifest] = []
    parent, merged = "", 0
    while True:
        try:
            data = folder.read(manifest_name(len(chain)))
            manifest = _decode(data)
            parent = parent or parent_digest(folder, 0)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError, TypeError, LookupError):
            return chain
        merged += sum(table.rows for table in manifest.merges)
        if manifest.parent != parent or merged >= max(1, manifest.facts.nodes):
            return chain
        chain.append(manifest)
        parent = sha256(data).hexdigest()


def count_manifests(folder: Folder) -> int:
    """Count the manifests in a store, valid or not."""
    return len(_manifests(folder))


def _manifests(folder: Folder) -> list[str]:
    """Return the names of all manifests in a store."""
    return [name for name in folder.names(MANIFESTS) if is_ours(MANIFESTS, name) and not is_temporary(name)]


def check_merges(folder: Folder, manifest: Manifest) -> None:
    """Raise unless the merges of a step are exactly what it wrote."""
    for table in manifest.merges:
        check_table(folder, table)


def check_state(folder: Folder, state: State) -> None:
    """Raise unless the files of a state are exactly what was written; one that was deleted is noticed at once."""
    if missing := missing_groups(folder, state):
        raise DamagedStoreError(f"{folder.at(min(missing))} is missing")
    for group in sorted(state.groups):
        check_group(folder, group)
    for file in state.arrays:
        check_array(folder, file)


def missing_groups(folder: Folder, state: State) -> set[str]:
    """Return the groups of a state that do not exist, from a look into the folders they should be in."""
    groups = state.groups
    folders = {group.rpartition("/")[0] for group in groups}
    return groups - {f"{above}/{name}" for above in folders for name in folder.names(above)}


def file_names(manifest: Manifest) -> Iterator[str]:
    """Yield the files of a step; an array without items has no file of chunks."""
    for table in manifest.merges:
        yield table.name
    if manifest.names is not None:
        yield from manifest.names.file_names()
    for group in sorted(manifest.state.groups) if manifest.state else ():
        yield f"{group}/zarr.json"
    for file in manifest.state.arrays if manifest.state else ():
        yield f"{file.name}/zarr.json"
        yield f"{file.name}/0"


def _fields(manifest: Manifest) -> dict[str, Any]:
    """What is written of a step."""
    fields = asdict(replace(manifest, state=None)) | {"state": manifest.state.fields() if manifest.state else None}
    fields["merges"] = [table.fields() for table in manifest.merges]
    if not manifest.facts.first:
        del fields["facts"]["first"]
    if manifest.names is None:
        del fields["names"]
    return fields


def _decode(data: bytes) -> Manifest:
    """A step as it was written."""
    fields = sound_fields(data)
    manifest = decoded(
        Manifest,
        fields
        | {
            "facts": decoded(Facts, fields["facts"]),
            "state": None if fields["state"] is None else _decode_state(fields["state"]),
            "merges": tuple(decoded(TableRecord, table) for table in fields["merges"]),
            "records": tuple(decoded(RoundRecord, record) for record in fields["records"]),
            "names": decode_names(fields["names"]) if "names" in fields else None,
        },
    )
    refuse_names([table.name for table in manifest.merges], MERGES)
    for numbers in (manifest.phases, manifest.traffic):
        if not all(type(value) in (float, int) and value >= 0 for value in numbers.values()):
            raise ValueError("seconds and bytes are numbers")
    return manifest


def _decode_state(fields: Any) -> State:
    """A state as it was written; keys that are not every engine's are its engine's own."""
    if not isinstance(fields, dict):
        raise ValueError("a state is a record")
    shards = tuple(
        decoded(ShardRecord, shard | {"files": tuple(decoded(FileRecord, file) for file in shard["files"])})
        for shard in fields.pop("shards")
    )
    files = tuple(decoded(FileRecord, file) for file in fields.pop("files"))
    known = {name: fields.pop(name) for name in ("round", "clusters", "engine") if name in fields}
    state = decoded(State, known | {"shards": shards, "files": files})
    refuse_names([file.name for file in state.arrays], ROUNDS, TREE)
    if fields.pop("entries") != state.entries:
        raise ValueError("the entries of the shards do not add up")
    return replace(state, own={name: value for name, value in fields.items() if UNUSED.get(name) != value})
