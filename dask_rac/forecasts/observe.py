"""What a finished run shows: the work and the seconds of each of its steps, and how its graph decays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike

from dask_rac.base.errors import InputError
from dask_rac.base.events import RoundRecord
from dask_rac.base.text import quoted
from dask_rac.engines.rows.needs import EntrySizes
from dask_rac.files.folder import Folder
from dask_rac.forecasts.decay import Decay, Level
from dask_rac.forecasts.layout import HEIGHT, Shape
from dask_rac.store.committed import read_committed
from dask_rac.store.header import Header, read_header
from dask_rac.store.manifest import Facts, Manifest


@dataclass(frozen=True)
class Place:
    """Where a run computed."""

    processes: int
    threads: int
    """Of each process."""
    slowdown: float = 1.0
    """Seconds that passed for each that the run would have taken on a machine that did nothing else."""

    @property
    def workers(self) -> int:
        """Tasks at a time."""
        return self.processes * self.threads


@dataclass(frozen=True)
class Observed:
    """A round through the store."""

    shape: Shape
    seconds: Mapping[str, float]
    """Of each phase, over all threads."""
    spent: tuple[float, float]
    """Seconds of all threads until rows may be folded, and of folding."""
    wall: float
    """Seconds of the whole step."""


@dataclass(frozen=True)
class Rest:
    """What was done in memory at the end."""

    before: Level
    """The state that was loaded, with all merges that followed."""
    records: tuple[RoundRecord, ...]
    seconds: float


@dataclass(frozen=True)
class Run:
    """A finished run, as a model sees it."""

    name: str
    place: Place
    sizes: EntrySizes
    facts: Facts
    shards: int
    intake: Mapping[str, float]
    """Seconds of each phase of reading the edges, over all threads."""
    intake_seconds: float
    by_groups: bool
    """Whether edges went to their shards by way of groups."""
    rounds: tuple[Observed, ...]
    rest: Rest | None
    decay: Decay


def place_of(text: str, slowdown: float = 1.0) -> Place:
    """Return a place from text such as "2x1": two processes of one thread."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})x([1-9][0-9]{0,5})", text)
    if found is None:
        raise InputError(f"like_on={quoted(text)} is not a place: give processes x threads, such as '1x8'")
    return Place(int(found[1]), int(found[2]), slowdown)


def observe(store: str | PathLike[str], place: Place) -> Run:
    """Return what a finished run shows."""
    folder = Folder(store)
    header, chain = read_header(folder), read_committed(folder).chain
    settings = header.settings
    if settings.metric or settings.linkage == "single" or settings.epsilon:
        raise InputError(
            f"{folder.url} is not a run of average, complete or weighted linkage on a graph, without epsilon: give "
            "another one, as only these are forecast"
        )
    if not chain or chain[-1].state is not None or chain[0].state is None or not chain[0].phases:
        raise InputError(
            f"{folder.url} is not a finished run on edges that were on disk: finish it, or give another one"
        )
    return _run(folder.url, header, chain, place)


def _run(name: str, header: Header, chain: Sequence[Manifest], place: Place) -> Run:
    """Return what the steps of a run show."""
    facts, first = chain[0].facts, chain[0].state
    assert first is not None
    sizes = EntrySizes.of(header.settings, facts.nodes, facts.edges, header.weights)
    records = [record for manifest in chain for record in manifest.records]
    decay = Decay.of(records, facts.nodes, facts.edges)
    pairs = list(pairwise(chain))
    stored = [(before, after) for before, after in pairs if after.state is not None and len(after.records) == 1]
    decay = _placed(decay, [(_shape(*pair, place, sizes, decay), pair[1]) for pair in stored])
    rounds = tuple(_observed(*pair, place, sizes, decay) for pair in stored)
    last = [pair for pair in pairs if pair[1].state is None]
    return Run(
        name,
        place,
        sizes,
        facts,
        len(first.shards),
        _slower(chain[0].phases, place),
        chain[0].seconds / place.slowdown,
        _by_groups(chain[0], facts, sizes),
        rounds,
        _rest(*last[0], place) if last else None,
        decay,
    )


def _by_groups(intake: Manifest, facts: Facts, sizes: EntrySizes) -> bool:
    """Whether edges were written more than once on their way."""
    row, state = 2 * sizes.ids + sizes.weight, 2 * (sizes.ids + sizes.weight)
    return intake.traffic.get("write", 0) > facts.edges * (1.5 * row + state) + 40 * facts.nodes


def _slower(seconds: Mapping[str, float], place: Place) -> dict[str, float]:
    """Return seconds as on a machine that does nothing else."""
    return {name: value / place.slowdown for name, value in seconds.items()}


def _shape(before: Manifest, after: Manifest, place: Place, sizes: EntrySizes, decay: Decay) -> Shape:
    """Return the states before and after a round."""
    assert before.state is not None
    assert after.state is not None
    (record,) = after.records
    return Shape(
        after.state.round,
        Level(before.state.clusters, before.state.entries, record.merges),
        Level(after.state.clusters, after.state.entries, 0),
        len(before.state.shards),
        len(after.state.shards),
        place.processes,
        sizes,
        decay,
    )


def _observed(before: Manifest, after: Manifest, place: Place, sizes: EntrySizes, decay: Decay) -> Observed:
    """Return what a round shows."""
    (record,) = after.records
    spent = record.match_seconds / place.slowdown, record.fold_seconds / place.slowdown
    seconds = (after.seconds - before.seconds) / place.slowdown
    return Observed(_shape(before, after, place, sizes, decay), _slower(after.phases, place), spent, seconds)


def _rest(before: Manifest, after: Manifest, place: Place) -> Rest:
    """Return what the end of a run shows."""
    assert before.state is not None
    merges = sum(record.merges for record in after.records)
    level = Level(before.state.clusters, before.state.entries, merges)
    return Rest(level, after.records, (after.seconds - before.seconds) / place.slowdown)


def _placed(decay: Decay, steps: Sequence[tuple[Shape, Manifest]]) -> Decay:
    """Find out from the bytes of each round how many rows move, and which share of a shard is read for these."""
    moved = could = read = shards = 0.0
    for shape, manifest in steps:
        if shape.shards_after < 2 or not manifest.traffic:
            continue
        could += shape.moved_bytes
        moved += max(0.0, manifest.traffic["write"] - shape.next_bytes)
    scatter = min(1.0, moved / could) if could else 1.0
    for shape, manifest in steps:
        if shape.shards_after < 2 or not manifest.traffic:
            continue
        read += manifest.traffic["read"] - _without_sending(shape, scatter)
        shards += shape.before.entries * shape.disk_entry(shape.first)
    return decay.placed(scatter, min(1.0, max(0.0, read / shards)) if shards else 1.0)


def _without_sending(shape: Shape, scatter: float) -> float:
    """Return the bytes that tasks count as read, but for the entries that are looked through for rows that move."""
    sizes, before = shape.sizes, shape.before
    counts = sizes.entry - sizes.ids - 10
    entry = sizes.ids + (sizes.weight if shape.first else 10 + counts)
    moved_rows, moved_entries = scatter * shape.moved_rows, scatter * shape.moved_entries
    own = 2 * sizes.ids if shape.first else 3 * sizes.ids + HEIGHT
    clusters = (own + HEIGHT) * before.clusters + (own + sizes.ids) * moved_rows
    looked = 0 if shape.first else (2 * sizes.ids + HEIGHT) * before.clusters
    return 2 * sizes.ids * before.clusters + looked + clusters + entry * (before.entries + moved_entries)
