"""`dask_rac.forecast`: what is given, what it means, and the model that answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from dask_rac.base.checks import check_whole
from dask_rac.base.errors import InputError, ResourceError
from dask_rac.base.events import RoundRecord
from dask_rac.base.ids import edge_id_dtype
from dask_rac.base.settings import Settings, checked_settings
from dask_rac.base.text import quoted, size_text
from dask_rac.edges.source import open_edges
from dask_rac.engines.contract import Expected
from dask_rac.engines.rows.sizes import project
from dask_rac.forecasts.bounds import bounds_of
from dask_rac.forecasts.calibrate import calibrated
from dask_rac.forecasts.decay import Decay
from dask_rac.forecasts.forecast import Forecast, counted
from dask_rac.forecasts.kinds import Kind, kind_of
from dask_rac.forecasts.machine import Machine
from dask_rac.forecasts.model import Fleet, Model
from dask_rac.forecasts.observe import Run, observe, place_of
from dask_rac.forecasts.probe import probed
from dask_rac.results.clustering import Clustering
from dask_rac.results.stored import StoredClustering
from dask_rac.runs.plan import Plan, plan_of
from dask_rac.tasks.admission import MOST_SHARE
from dask_rac.tasks.budget import SHARE, Budget, memory_bytes
from dask_rac.tasks.machine import new_team
from dask_rac.tasks.task_graph import TaskGraph

Like = str | PathLike[str] | StoredClustering


@dataclass(frozen=True)
class Known:
    """What is known of machines and of graphs."""

    machine: Machine
    decay: Decay


def forecast(
    edges: str | PathLike[str] | int | float,
    linkage: str = "average",
    missing: str | float | None = None,
    weights: str = "distance",
    n_nodes: int | float | None = None,
    *,
    like: Like | Sequence[Like] | None = None,
    like_on: str | None = None,
    sample: Like | Clustering | None = None,
    constants: str | PathLike[str] | Machine | None = None,
    kind: str | PathLike[str] | Mapping[str, Any] = "here",
    machines: int = 1,
    remote: bool | None = None,
    memory: str | float | None = None,
    shards: int | None = None,
) -> Forecast:
    """Forecast the time, memory, disk, requests and price of `cluster(..., store=...)`, without running it.

    Parameters
    ----------
    edges : path, URL or number
        The edges, of which only metadata is read; or how many there are, in a graph that need not exist.
    linkage, missing, weights
        As for `cluster`: average, complete or weighted linkage.
    n_nodes : int, optional
        The number of nodes; needed with a number of edges.
    like : store or list of stores, optional
        Finished runs on the machine whose time is to be forecast, on graphs of any size: what their steps have taken
        gives the constants. Runs of two sizes also show how much slower a larger graph is per edge.
    like_on : str, optional
        Where these runs computed: processes x threads, such as `"1x8"`. By default the threads of this process.
    sample : store or Clustering, optional
        A run on a graph of the same kind, also a small one, also in memory: how its clusters and edges decay from round
        to round is taken for the graph. By default the largest run in `like`.
    constants : path, optional
        Constants that `dask-rac probe` has written. Without these and without `like`, this machine is probed, which
        takes up to a minute.
    kind : str, mapping or path
        The kind of machine: `"here"`; one of the examples `"small"`, `"large"` and `"workstation"`; or a mapping, or a
        JSON file, with `cores`, `memory`, `disk`, `network`, `processes`, `speed`, `hour` and more.
    machines : int
        How many of them.
    remote : bool, optional
        Whether the store is an object store. By default it is if there is more than one machine, or no disk.
    memory, shards
        As for `cluster`. By default half of the memory of all machines.

    Returns
    -------
    Forecast
        Its `seconds`, `price`, `phases`, `rounds` and `bounds`; `scaling` simulates other numbers of machines.

    Raises
    ------
    ResourceError
        If the run would not fit. The message states which setting would.
    """
    settings = checked_settings(linkage, missing, weights)
    if linkage == "single":
        raise InputError("linkage='single' is not forecast: use average, complete or weighted, or dask_rac.plan")
    if constants is not None and like is not None:
        raise InputError("both constants= and like= say how fast a machine is: give one of them")
    given = _expected(edges, n_nodes)
    check_whole("machines", machines, 1)
    if shards is not None:
        check_whole("shards", shards, 1)
    chosen = kind_of(kind)
    budget = budget_of(chosen, machines, memory)
    plan = _plan(given, settings, shards, budget)
    known = _known(like, like_on, sample, constants)
    far = remote if remote is not None else machines > 1 or not chosen.disk
    if machines > 1 and not far:
        raise InputError(f"{machines} machines share no disk: leave remote= out, or give machines=1")
    fleet = Fleet(chosen, machines, far, known.machine)
    model = Model(given, settings, budget, fleet, known.decay, plan.shards, shards)
    layers, rounds = model.layers()
    return Forecast(plan, fleet, tuple(layers), tuple(rounds), bounds_of(model, plan, layers))


def budget_of(kind: Kind, machines: int, memory: str | float | None = None) -> Budget:
    """Return what a run may use on machines of a kind, as on workers; refuse more than their memory."""
    total, processes = machines * kind.memory, machines * kind.processes
    asked = memory_bytes(memory, int(SHARE * total))
    if asked > total:
        raise InputError(f"memory={quoted(memory)} is more than the {total / 1e9:.3g} GB of {machines} machines")
    most = int(MOST_SHARE * total)
    if processes > 1 and asked > most:
        raise ResourceError(
            f"memory={quoted(memory)} is more than workers may use, {MOST_SHARE:.0%} of the {size_text(total)} that "
            f"{machines} machines have: set memory='{int(most / 1e6)}MB' or less"
        )
    alone = min(asked, int(MOST_SHARE * kind.memory / kind.processes)) if processes > 1 else 0
    return Budget(asked, processes, kind.cores // kind.processes, alone, kind.cores if processes > 1 else 0)


def _plan(given: Expected, settings: Settings, shards: int | None, budget: Budget) -> Plan:
    """Return shards, memory and disk; without the tasks of the first round, of which there may be ten thousands."""
    return plan_of(given, settings, budget, project(given, settings, shards, budget, lambda *_: TaskGraph("")))


def _expected(edges: str | PathLike[str] | int | float, n_nodes: int | float | None) -> Expected:
    """Return the size of a graph: as it was given, or from the metadata of its files."""
    nodes = None if n_nodes is None else counted(n_nodes, "n_nodes")
    if nodes is not None:
        check_whole("n_nodes", nodes, 1)
    if isinstance(edges, int | float):
        rows = counted(edges, "edges")
        check_whole("edges", rows, 1)
        if nodes is None:
            raise InputError(f"edges={rows} is a number of edges: give n_nodes= as well")
        return Expected(nodes, rows, "float32", rows * (2 * edge_id_dtype(nodes).itemsize + 4))
    source = open_edges(edges)
    if nodes is None:
        nodes = (
            source.nodes if source.nodes is not None else None if source.largest_id is None else source.largest_id + 1
        )
    if nodes is None:
        raise InputError(f"{source.name} does not say how many nodes there are: give n_nodes=")
    return Expected(nodes, source.rows, source.weight_dtype, source.bytes, source.whole_rows)


def _known(
    like: Like | Sequence[Like] | None,
    like_on: str | None,
    sample: Like | Clustering | None,
    constants: str | PathLike[str] | Machine | None,
) -> Known:
    """Return the constants of a machine, and the decay of a graph."""
    with new_team() as team:
        place = place_of(like_on or f"1x{team.threads}")
    if like is not None:
        stores = like if isinstance(like, Sequence) and not isinstance(like, str) else [like]
        runs = [observe(_store(one), place) for one in stores]
        if not runs:
            raise InputError("like=[] names no run: give a finished run")
        return Known(calibrated(runs), _decay(sample, runs))
    if constants is None:
        machine, runs = probed()
        return Known(machine, _decay(sample, runs))
    machine = constants if isinstance(constants, Machine) else Machine.load_from(str(constants))
    if sample is None:
        raise InputError("constants= says nothing of graphs: give sample=, a run on a graph of the same kind")
    return Known(machine, _decay(sample, []))


def _store(like: Like) -> str | PathLike[str]:
    """Return the path of a store."""
    return like.store if isinstance(like, StoredClustering) else like


def _decay(sample: Like | Clustering | None, runs: Sequence[Run]) -> Decay:
    """Return how a sample decays; without one, the largest of some runs."""
    if sample is None:
        return max(runs, key=lambda run: run.facts.edges).decay
    if isinstance(sample, Clustering) and not isinstance(sample, StoredClustering):
        return decay_of(sample)
    return observe(_store(sample), place_of("1x1")).decay


def decay_of(clustering: Clustering) -> Decay:
    """Return how a graph has decayed in memory."""
    names = ("round", "clusters", "edges", "merges", "finisher")
    rows = clustering.rounds[list(names)].itertuples(index=False)
    records = [RoundRecord(**dict(zip(names, row, strict=True))) for row in rows]
    return Decay.of(records, clustering.n_nodes, records[0].edges if records else 0)
