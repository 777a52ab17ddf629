"""What a run would take, before it runs."""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass, fields
from os import PathLike
from typing import Any

from dask_rac.base.errors import InputError
from dask_rac.base.events import Event, Listener
from dask_rac.base.settings import Settings
from dask_rac.base.text import size_text
from dask_rac.edges.source import BATCH_ROWS, EdgeSource, open_edges
from dask_rac.engines import engine_for
from dask_rac.engines.choice import choose_engine, expected_pairs
from dask_rac.engines.contract import Expected, Passes, Sizes
from dask_rac.engines.given import open_pairs
from dask_rac.engines.rows.scanning import scan_graph
from dask_rac.runs.options import PlanOptions, check_options
from dask_rac.show.cards import card
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.client import choose_scheduler
from dask_rac.tasks.scheduler import Scheduler

HUBS = "of memory would end it once rounds merge few clusters"


@dataclass(frozen=True)
class Plan:
    """What a run would need, worked out before it starts; `dask_rac.plan` returns it."""

    nodes: int
    """Number of nodes of the graph."""
    edges: int
    """Rows of the input, including self loops and repeated edges; or all pairs of vectors."""
    shards: int
    """How many shards the graph is cut into at first."""
    shard_bytes: int
    """Bytes of each shard in memory: its entries and its rows."""
    memory: int
    """Bytes of arrays at the peak, in all processes together."""
    budget: Budget
    """What the run may use: memory, processes, and threads per process."""
    disk: int
    """Typical size of the store at its peak, in bytes."""
    input_bytes: int
    """Size of the edges on disk, in bytes."""
    graph: Any
    """The first round as a Dask graph; `plan.graph.visualize()` draws it."""
    node_bytes: int = 0
    """Bytes that each process needs for the nodes alone, however many shards there are; part of `memory`."""
    metric: str = ""
    """For all pairs, how vectors are compared; empty for the edges of a graph."""
    engine: str = ""
    """For all pairs, which engine would run."""
    passes: Passes | None = None
    """For all pairs beyond memory, how often they are gone through, and for what."""
    ending: int = 0
    """Bytes that end the run in memory as soon as rounds merge few clusters, as they do where hubs touch everything."""

    def visualize(self, *arguments: Any, **keywords: Any) -> Any:
        """Draw the graph of the first round, like `visualize` of Dask's own collections."""
        return self.graph.visualize(*arguments, **keywords)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self.facts().items())
        return f"<Plan: {facts}>"

    def _repr_html_(self) -> str:
        return card("dask_rac.Plan", self.facts())

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a dict, for other programs."""
        known = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "graph"}
        passes = None if self.passes is None else asdict(self.passes)
        return {**known, "budget": asdict(self.budget), "passes": passes, "tasks": len(self.graph.tasks)}

    def facts(self) -> dict[str, str]:
        """Return a short summary: a text for each name."""
        memory = f"{size_text(self.memory)} of {size_text(self.budget.memory)}"
        if self.metric:
            return {
                "nodes": f"{self.nodes:,}",
                "pairs": f"{self.edges:,}",
                "engine": self.engine,
                **_pass_facts(self.passes),
                "memory": memory,
                "disk": size_text(self.disk) if self.passes else f"{size_text(self.disk)} for merges",
                "processes": f"{self.budget.processes} of {self.budget.threads} threads",
            }
        return {
            "nodes": f"{self.nodes:,}",
            "edges": f"{self.edges:,}",
            "shards": f"{self.shards:,} of {size_text(self.shard_bytes)}",
            "memory": memory,
            "for nodes": f"{size_text(self.node_bytes)} in each process",
            "disk": f"{size_text(self.disk)} beside {size_text(self.input_bytes)} of edges",
            "processes": f"{self.budget.processes} of {self.budget.threads} threads",
            **({"with hubs": f"{size_text(self.ending)} {HUBS}"} if self.ending > self.budget.memory else {}),
            "first round": f"{self.graph!r}".strip("<>").removeprefix("Graph of "),
        }


def _pass_facts(passes: Passes | None) -> dict[str, str]:
    """Return what to say of the passes over all pairs."""
    if passes is None:
        return {}
    facts = {"passes": f"about {passes.pairs:.1f} over all pairs, in {passes.tiles:,} tiles"}
    facts |= {"near": passes.near} if passes.near else {}
    return facts | ({"left for a matrix": f"about {passes.left:,} clusters"} if passes.left else {})


def plan_stored(edges: Any, settings: Settings, options: PlanOptions, report: Listener) -> Plan:
    """Estimate the resources of a run."""
    check_options(options)
    scheduler = choose_scheduler(options.client)
    budget = scheduler.budget(options.memory)
    if settings.metric:
        return plan_pairs(expected_pairs(open_pairs(edges, settings), sampled=True), settings, budget, options.engine)
    if not isinstance(edges, str | PathLike):
        raise InputError("plan() needs edges on disk: give the path of a Parquet file or folder, or of a Zarr group")
    source = open_edges(edges)
    if source.text and options.n_nodes is None:
        raise InputError(
            f"the ids in {source.name} are text, and how many nodes they name shows only when all are read: estimate "
            "it with n_nodes=, or convert the edges with dask_rac.ingest first"
        )
    nodes = options.n_nodes if options.n_nodes is not None else count_nodes(source, settings, scheduler, report)
    given = Expected(nodes, source.rows, source.weight_dtype, source.bytes, source.whole_rows)
    return plan_sizes(given, settings, options.shards, budget)


def plan_pairs(given: Expected, settings: Settings, budget: Budget, name: str = "") -> Plan:
    """What a run on all pairs would take, by the engine of this name or the one that fits."""
    engine, sizes = choose_engine(given, settings, budget, name)
    if engine.name == "matrix":
        budget = Budget(budget.process, 1, budget.threads)
    return plan_of(given, settings, budget, sizes, engine.name)


def plan_sizes(given: Expected, settings: Settings, shards: int | None, budget: Budget) -> Plan:
    """What a run on edges of this size would take; `shards` is the number that the user wants, if any."""
    return plan_of(given, settings, budget, engine_for(settings).sizes(given, settings, shards, budget))


def plan_of(given: Expected, settings: Settings, budget: Budget, sizes: Sizes, engine: str = "") -> Plan:
    """Return what an engine would take as people read it."""
    return Plan(
        nodes=given.nodes,
        edges=given.rows,
        budget=budget,
        input_bytes=given.bytes,
        metric=settings.metric,
        engine=engine,
        **vars(sizes),
    )


def count_nodes(source: EdgeSource, settings: Settings, scheduler: Scheduler, report: Listener) -> int:
    """Return the number of nodes from the metadata of the files, from their statistics, or by reading them."""
    if source.nodes is not None:
        return source.nodes
    if source.largest_id is not None:
        return source.largest_id + 1
    report(Event("scan"))
    token = uuid.uuid4().hex[:8]
    graph = scan_graph(token, source, source.units(BATCH_ROWS), (None, settings))
    scanned = scheduler.compute(graph, lambda *_: None)
    return 1 + max((receipt.largest_id for receipt in scanned.get("scan", [])), default=-1)
