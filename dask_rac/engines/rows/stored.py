"""Average, complete and weighted linkage out of core: the edges into rows, a round, the rest in memory."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dask_rac.base.errors import DamagedStoreError, StoppedError
from dask_rac.base.events import Event, RoundRecord
from dask_rac.base.spans import even_entries, starts_of
from dask_rac.base.text import at_least, size_text
from dask_rac.edges.checks import check_missing, check_total
from dask_rac.edges.conflicts import ConflictError
from dask_rac.edges.source import EdgeSource
from dask_rac.engines.contract import Step, Work
from dask_rac.engines.rows.columns import Copied, copied_bytes, round_groups
from dask_rac.engines.rows.good_tasks import good_graph, settling_graph
from dask_rac.engines.rows.handover import Rest, finish_rest
from dask_rac.engines.rows.intake import Built, intake_graph, save_rows
from dask_rac.engines.rows.layout import lay_out
from dask_rac.engines.rows.load import Graph
from dask_rac.engines.rows.needs import (
    EntrySizes,
    alone_bytes,
    due_bytes,
    ending_bytes,
    finisher_room,
    good_bytes,
    good_fits,
    good_room,
    good_shard_entries,
    good_task_bytes,
    good_threads,
    rest_fits,
    settled_entries,
)
from dask_rac.engines.rows.pace import JUDGED, pays, rounds_until, stalls
from dask_rac.engines.rows.receipts import Arranged, Borders, Folded, Gathered, Job, Moved, Receipt, United, new_job
from dask_rac.engines.rows.routing import Routed
from dask_rac.engines.rows.scanning import Histogram, Scanned, count_entries, counts_of, remove_counts, scan_graph
from dask_rac.engines.rows.sizes import (
    batch_rows,
    check_reading,
    expected_shards,
    planned_shards,
    projected_disk,
    shard_entries,
    unit_rows,
)
from dask_rac.engines.rows.sweeper import GoodSweeper, IntakeSweeper, Sweeper
from dask_rac.engines.rows.tasks import round_graph
from dask_rac.engines.rows.within import merges_within
from dask_rac.files.tables import TableRecord
from dask_rac.store.manifest import Facts, State
from dask_rac.tasks.machine import new_team
from dask_rac.tasks.task_graph import single_task

GOOD = "good"
"""Key of a state, as its engine's own, whose clusters good merges have put in an order of their own."""
MOST_SHARDS = 512
"""For good merges; with more of them, hardly any two near clusters would be in the same one."""


def begin(given: EdgeSource | Graph, work: Work) -> Step:
    """Read the edges into the first state."""
    return _ingest(given, work) if isinstance(given, EdgeSource) else _save(given, work)


def advance(state: State, work: Work) -> Step:
    """Do one round, or all that are left if they fit in memory."""
    if rest_is_due(state, work):
        return _rest(state, work)
    _refuse_stall(state, work)
    if merges_within(work.settings) and work.settings.finisher and state.round and not pays_still(state, work):
        return _good_round(state, work)
    return _round(state, work)


def facts_of(work: Work) -> Facts:
    """What reading the edges has shown."""
    assert work.facts is not None
    return work.facts


def entry_sizes(work: Work) -> EntrySizes:
    """Bytes of what this run holds."""
    facts = facts_of(work)
    return EntrySizes.of(work.settings, facts.nodes, facts.edges, work.header.weights)


def step_job(work: Work, shard_entries: int = 0) -> Job:
    """What the tasks of this step receive."""
    facts = facts_of(work)
    return new_job(work, facts.nodes, facts.edges, shard_entries)


def require_room(state: State, work: Work, copied: int = 0) -> None:
    """Raise if the next round, which copies so many bytes of the state, cannot end for lack of disk."""
    remedy = f": make room, then resume with dask_rac.resume({work.store.url!r})"
    work.require_disk(int(1.3 * state.bytes) + copied, "the next round", remedy, StoppedError)


def pays_still(state: State, work: Work) -> bool:
    """Whether another round is worth its work, judged by the last one."""
    if work.last is None:
        return True
    if merges_within(work.settings):
        return not state.own.get(GOOD) and work.last.merges >= work.limits.good_share * work.last.clusters
    return pays(work.last, state.entries // 2, work.limits.hand_over)


def rest_is_due(state: State, work: Work) -> bool:
    """Whether what is left continues in memory; that depends on the data and the budget alone."""
    if merges_within(work.settings):
        return _good_is_due(state, work)
    if work.settings.finisher and not pays_still(state, work):
        return state.entries // 2 <= _finisher_edges(state, work)
    fits = rest_fits(entry_sizes(work), state.clusters, state.entries, work.budget)
    if work.header.shards is None:
        return fits
    return fits and state.entries * work.header.shards <= 2 * facts_of(work).edges


def _good_is_due(state: State, work: Work) -> bool:
    """The same within a factor: good merges need half the memory of rounds, and take over where these do not pay."""
    sizes = entry_sizes(work)
    if work.settings.finisher and state.round and not pays_still(state, work):
        fits = good_fits(sizes, state.clusters, state.entries, work.budget)
    else:
        fits = rest_fits(sizes, state.clusters, state.entries, work.budget)
    if work.header.shards is None:
        return fits
    return fits and state.entries * work.header.shards <= 2 * facts_of(work).edges


def _finisher_edges(state: State, work: Work) -> int:
    """The most edges that the finisher, or good merges, have room for."""
    if merges_within(work.settings):
        return good_room(entry_sizes(work), state.clusters, work.budget)
    return finisher_room(entry_sizes(work), state.clusters, work.budget)


def _refuse_stall(state: State, work: Work) -> None:
    """Raise if the finisher is due and has no room, and rounds make hardly any progress towards it."""
    room = _finisher_edges(state, work)
    if not work.settings.finisher or not stalls(work.recent, state.entries // 2, room):
        return
    rounds = rounds_until(work.recent, state.entries // 2, room)
    more = f"about {rounds:,.0f} more" if rounds < math.inf else "endlessly many"
    raise _stopped(
        f"the last {JUDGED} rounds have merged {sum(record.merges for record in work.recent[-JUDGED:]):,} of "
        f"{work.recent[-JUDGED].clusters:,} clusters, and {more} rounds would follow",
        _ending_bytes(state, work),
        work,
    )


def _ending_bytes(state: State, work: Work) -> int:
    """Bytes with which a process can end the run."""
    if merges_within(work.settings):
        return good_bytes(entry_sizes(work), state.clusters, state.entries)
    return ending_bytes(entry_sizes(work), state.clusters, state.entries)


def _wanted(state: State, work: Work) -> int:
    """The memory of all processes that would end the run, 0 if there is as much: rounds go on for another reason."""
    sizes, budget = entry_sizes(work), work.budget
    needed = due_bytes(sizes, merges_within(work.settings), state.clusters, state.entries)
    return budget.processes * needed if needed > alone_bytes(sizes, state.clusters, budget) else 0


def _stopped(what: str, needed: int, work: Work) -> StoppedError:
    """Say how much memory each process needs to go on."""
    memory = at_least(work.budget.processes * needed)
    return StoppedError(
        f"{what} with memory={size_text(work.budget.memory)!r}: resume with more memory, "
        f"dask_rac.resume({work.store.url!r}, memory={memory!r})"
    )


def _planned(work: Work, nodes: int, edges: int, widest: int) -> tuple[EntrySizes, int]:
    """Sizes, and the load of a shard; raises if memory or disk do not suffice."""
    sizes = EntrySizes.of(work.settings, nodes, edges, work.header.weights)
    room = shard_entries(sizes, nodes, edges, work.budget, work.header.shards, widest)
    remedy = " at its peak: make room, or use another disk"
    shards = planned_shards(sizes, nodes, edges, room, work.budget if work.header.shards is None else None)
    work.require_disk(projected_disk(sizes, nodes, edges, shards, work.limits), "the run", remedy)
    return sizes, room


def _first_job(work: Work, nodes: int, edges: int, room: int, largest: float) -> Job:
    """What the tasks receive that make the first state; nodes alone lack no pair, so a bound of "far" will do."""
    return replace(new_job(work, nodes, edges, room), settings=work.settings.resolved(largest))


def _save(graph: Graph, work: Work) -> Step:
    """Write a graph that is in memory as the first state."""
    rows = graph.rows
    nodes, before = len(rows.start), starts_of(rows.stop - rows.start)
    edges = int(before[-1]) // 2
    sizes, room = _planned(work, nodes, edges, int(np.diff(before).max(initial=0)))
    load = before + sizes.node_load * np.arange(nodes + 1)
    used = [span for span in even_entries(load, -(-int(load[-1]) // room)) if span[0] < span[1]] or [(0, 0)]
    spans = [(number, lo, hi) for number, (lo, hi) in enumerate(used)]
    job = _first_job(work, nodes, edges, room, graph.largest)
    work.report(Event("ingest", nodes))
    with new_team() as team:
        built: list[Built] = team.run(save_rows, spans, job, rows)
    state = State(0, nodes, tuple(receipt.shard for receipt in built))
    _check_mirrors(state, sum(receipt.later for receipt in built))
    size = edges * (2 * sizes.ids + sizes.weight)  # about what it would have as Parquet
    return Step(state, facts=Facts(nodes, edges, size, graph.least, graph.largest, graph.loops, 0, graph.first))


def _ingest(source: EdgeSource, work: Work) -> Step:
    """Check the input, then read it into the first state."""
    settings, n_nodes = work.settings, work.header.n_nodes
    check_reading(source.whole_rows, work.budget)
    source = replace(source, batch_rows=min(source.batch_rows, batch_rows(work.budget, work.limits)))
    units = source.units(unit_rows(EntrySizes.of(settings, 1, 1, work.header.weights), work.budget, work.limits))
    work.report(Event("scan"))
    expected = EntrySizes.of(settings, n_nodes or 1, source.rows, work.header.weights)
    shards = expected_shards(expected, source.rows, work.budget, work.header.shards)
    histogram = Histogram.of(shards, new_job(work, 0, 0, 0))
    found = work.compute(scan_graph(uuid.uuid4().hex[:8], source, units, (n_nodes, settings), histogram))
    scanned: list[Scanned] = found.get("scan", [])
    work.account(scanned)
    largest_id = max((receipt.largest_id for receipt in scanned), default=-1)
    nodes = largest_id + 1 if n_nodes is None else n_nodes
    edges = sum(receipt.rows - receipt.loops for receipt in scanned)
    counted = count_entries(counts_of(found), nodes, histogram)
    remove_counts(found, work.store)
    sizes, room = _planned(work, nodes, edges, int(counted.bins.max(initial=0)))
    least = min((receipt.least for receipt in scanned), default=math.inf)
    largest = max((receipt.largest for receipt in scanned), default=-math.inf)
    check_total(max(0.0, largest), edges)
    if settings.duplicates == "error":
        check_missing(settings.resolved(largest), nodes, least, largest)
    evened = work.budget if work.header.shards is None else None
    layout = lay_out(counted, nodes, room, sizes.node_load, evened).within(len(units), work.limits)
    job = _first_job(work, nodes, edges, room, largest)
    work.report(Event("ingest", nodes))
    rows, sweeper = unit_rows(sizes, work.budget, work.limits), IntakeSweeper(work.store, layout)
    results = work.compute(intake_graph(job, source, units, layout, rows), sweeper)
    built: list[Built] = results["build"]
    routed: list[Routed] = [part for name in ("route", "sort") for sent in results.get(name, []) for part in sent.parts]
    work.account(routed)
    work.account(built)
    if conflicts := [receipt.conflict for receipt in built if receipt.conflict]:
        raise ConflictError(min(conflicts))
    repeats = sum(receipt.repeats for receipt in built) // 2
    state = State(0, nodes, tuple(receipt.shard for receipt in built))
    _check_mirrors(state, sum(receipt.later for receipt in built))
    facts = Facts(
        nodes,
        edges - repeats,
        source.bytes,
        min((receipt.least for receipt in built), default=math.inf),
        max((receipt.largest for receipt in built), default=-math.inf),
        sum(receipt.loops for receipt in scanned),
        repeats,
        min((receipt.smallest_id for receipt in scanned if receipt.rows), default=0) if n_nodes is None else 0,
    )
    check_missing(settings.resolved(facts.largest), nodes, facts.least, facts.largest)
    return Step(state, scratch=sweeper.peak - state.bytes, facts=facts)


def _round(state: State, work: Work) -> Step:
    """One round out of core."""
    facts = facts_of(work)
    room = shard_entries(entry_sizes(work), facts.nodes, facts.edges, work.budget, work.header.shards)
    job = step_job(work, room)
    require_room(state, work, copied_bytes(job, state))
    sweeper = Sweeper(work.store, round_groups(job, state))
    results = work.compute(round_graph(job, state), sweeper)
    copied: list[Copied] = results.get("copy", [])
    moved: list[Moved] = [receipt for receipt in results["split"] if receipt is not None]
    gathered: list[Gathered] = [receipt for receipt in results.get("gather", []) if receipt is not None]
    folded: list[Folded] = [receipt for receipt in results["fold"] if receipt is not None]
    borders: Borders = results["cut"][0]
    for layer in (copied, [borders], moved, gathered, folded):
        work.account(layer)
    if borders.short:
        raise _stopped(f"round {state.round + 1} does not fit", borders.short, work)
    if not borders.merges:
        return Step(None)
    after = State(
        state.round + 1,
        sum(receipt.shard.clusters for receipt in folded),
        tuple(receipt.shard for receipt in folded),
    )
    tables = tuple(receipt.merges for receipt in folded if receipt.merges.rows)
    _check_round(borders.live, borders.merges, tables, after, folded)
    record = RoundRecord(
        round=after.round,
        clusters=borders.live,
        edges=state.entries // 2,
        merges=borders.merges,
        nearest_updates=borders.updates,
        match_seconds=_seconds([*copied, borders, *moved, *gathered]),
        fold_seconds=_seconds(folded),
        deferred=work.settings.finisher and not pays_still(state, work),
    )
    wanted = _wanted(after, work) if record.deferred else 0
    event = Event("round", facts.nodes, work.merged + borders.merges, record, wanted=wanted)
    return Step(after, tables, (record,), sweeper.peak - after.bytes, event)


def _good_round(state: State, work: Work) -> Step:
    """One round of good merges out of core: every shard on its own."""
    facts, sizes = facts_of(work), entry_sizes(work)
    threads = good_threads(sizes, state.clusters, state.entries, work.budget)
    room = good_shard_entries(sizes, state.clusters, work.budget, threads)
    if room * MOST_SHARDS < state.entries:
        needed = min(_ending_bytes(state, work), good_task_bytes(sizes, state.clusters, state.entries, work.budget))
        raise _stopped(f"good merges of {state.clusters:,} clusters do not fit", needed, work)
    require_room(state, work)
    sweeper = GoodSweeper(work.store)
    settled = settled_entries(sizes, state.clusters, work.budget)
    job = replace(step_job(work, room), settled_entries=settled, good_threads=threads)
    results = work.compute(good_graph(job, state), sweeper)
    arranged: Arranged = results["arrange"][0]
    sent: list[Moved] = [receipt for receipt in results["send"] if receipt is not None]
    united: list[United] = [receipt for receipt in results["unite"] if receipt is not None]
    merges = sum(receipt.merges.rows for receipt in united)
    if not arranged.live:
        return Step(None)
    if arranged.short or not merges:
        needed = _ending_bytes(state, work)
        if arranged.short:
            needed = min(needed, arranged.short)
        raise _stopped(f"good merges of {state.clusters:,} clusters do not fit", needed, work)
    folded: list[Folded] = work.compute(settling_graph(job, state, arranged, united), sweeper)["settle"]
    for layer in ([arranged], sent, united, folded):
        work.account(layer)
    shards = tuple(receipt.shard for receipt in folded)
    after = State(state.round + 1, sum(shard.clusters for shard in shards), shards, own={GOOD: True})
    tables = tuple(receipt.merges for receipt in united if receipt.merges.rows)
    _check_round(arranged.live, merges, tables, after, folded)
    record = RoundRecord(
        round=after.round,
        clusters=arranged.live,
        edges=state.entries // 2,
        merges=merges,
        match_seconds=_seconds([arranged]) + _seconds(sent),
        finish_seconds=_seconds(united),
        fold_seconds=_seconds(folded),
        deferred=True,
    )
    event = Event("round", facts.nodes, work.merged + merges, record, wanted=_wanted(after, work))
    return Step(after, tables, (record,), sweeper.peak - after.bytes, event)


def _rest(state: State, work: Work) -> Step:
    """Everything that is left, in memory."""
    job = step_job(work)
    work.report(Event("rest", job.nodes, work.merged))
    room, threads = _finisher_edges(state, work), work.budget.most_threads
    with work.listening():
        graph = single_task(finish_rest, job.attempt, job, state, work.merged, pays_still(state, work), room, threads)
        done: Rest = work.compute(graph)["finish_rest"][0]
    if done.short:
        raise _stopped("what is left does not fit in memory", done.short, work)
    return Step(None, done.merges, done.records)


def _check_round(live: int, merges: int, tables: Sequence[TableRecord], after: State, folded: Sequence[Folded]) -> None:
    """Raise unless a round has left what it must."""
    listed = sum(table.rows for table in tables)
    if not listed == merges == live - after.clusters:
        raise DamagedStoreError(
            f"round {after.round} merged {merges} of {live} clusters, wrote {listed} merges and left "
            f"{after.clusters} clusters: something else has changed the store; resume the run"
        )
    _check_mirrors(after, sum(receipt.later for receipt in folded))


def _check_mirrors(state: State, later: int) -> None:
    """Raise unless every edge is in both its rows."""
    if 2 * later != state.entries:
        raise DamagedStoreError(
            f"{later} of {state.entries} entries point to a later cluster, and half of them should: something else has "
            "changed the store; resume the run"
        )


def _seconds(receipts: Sequence[Receipt]) -> float:
    """Seconds of a layer, over all its tasks."""
    return sum(sum(receipt.seconds.values()) for receipt in receipts)
