"""The laws that every engine keeps, in every way of running it. An engine that is registered needs no test of its own.

`engine` goes over the `ENGINES` of graphs, each with all its linkages, `way` over the ways of running: in memory,
through stores of 1, 3 and 7 shards, on workers. A law is checked for named graphs (empty, stars, hubs, ties, edges
given twice) and for generated ones. `test_matrix_laws.py` has the same laws for all pairs.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args
from unittest import mock

import dask
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import csgraph

import dask_rac
from dask_rac.base.parameters import Linkage
from dask_rac.base.settings import Settings, checked_settings
from dask_rac.engines import ENGINES, engine_for
from dask_rac.engines.contract import Engine, Expected, MergeList
from dask_rac.kernels.arrays import Merges
from dask_rac.results.clustering import Clustering
from dask_rac.store import manifest
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.client import choose_scheduler
from tests.reference import SIGN, hac
from tests.support.conformance import STORED_WAYS, WAYS, Kept, Runner, Way, run_in_memory
from tests.support.graphs import columns
from tests.support.results import assert_same, merges_frame
from tests.support.stored import steps_of
from tests.support.strategies import Problem

LINKAGES = [(engine, linkage) for engine in ENGINES for linkage in sorted(engine.linkages) if not engine.all_pairs]
NODE_BYTES = (1, 20, 40, 80, 10**6)
"""Budgets per node: from too little for any run to enough for all that is generated to stay in memory."""


@pytest.fixture(scope="module", params=LINKAGES, ids=lambda pair: f"{pair[0].name}-{pair[1]}")
def pair(request: pytest.FixtureRequest) -> tuple[Engine, str]:
    made: tuple[Engine, str] = request.param
    return made


@pytest.fixture(scope="module")
def engine(pair: tuple[Engine, str]) -> Engine:
    return pair[0]


@pytest.fixture(scope="module")
def linkage(pair: tuple[Engine, str]) -> str:
    return pair[1]


def runner(way: Way, request: pytest.FixtureRequest) -> Runner:
    """A way with a folder, and with the workers of this module if it needs them."""
    client = request.getfixturevalue("client") if way.on_workers else None
    return Runner(way, client, request.getfixturevalue("shared_folder"), request.getfixturevalue("kept"))


@pytest.fixture(scope="module")
def kept() -> Kept:
    return {}


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.name)
def way(request: pytest.FixtureRequest) -> Runner:
    return runner(request.param, request)


@pytest.fixture(scope="module", params=STORED_WAYS, ids=lambda way: way.name)
def stored_way(request: pytest.FixtureRequest) -> Runner:
    return runner(request.param, request)


def sign_of(problem: Problem) -> int:
    return SIGN[problem.options.get("weights", "distance")]


def settings_of(problem: Problem) -> Settings:
    asked: dict[str, Any] = {"weights": "distance", "max_height": None} | problem.options
    return checked_settings(**asked, duplicates=problem.duplicates, finisher=problem.ending != "rounds")


def rows_of(found: Clustering) -> list[tuple[int, int, float, int]]:
    """The merges in their order, without rounds."""
    frame = merges_frame(found)[["left", "right", "height", "size"]]
    return list(frame.itertuples(index=False, name=None))


def test_merges_are_those_of_naive_hac(linkage: str, way: Runner) -> None:
    def law(problem: Problem, found: Clustering) -> None:
        oracle = hac(problem.graph.n_nodes, problem.graph.edges, **problem.options)
        assert sorted(rows_of(found)) == sorted((m.left, m.right, float(m.height), m.size) for m in oracle)

    way.hold(law, linkage)


def test_bits_are_those_of_one_thread_in_memory(linkage: str, way: Runner) -> None:
    def law(problem: Problem, found: Clustering) -> None:
        with dask.config.set(num_workers=1):
            assert_same(found, run_in_memory(problem))

    way.hold(law, linkage)


def test_a_cluster_is_its_smallest_node_and_comes_after_its_parts(linkage: str, way: Runner) -> None:
    def law(problem: Problem, found: Clustering) -> None:
        live = {node: {node} for node in range(problem.graph.n_nodes)}
        for left, right, _, size in rows_of(found):
            live[left] |= live.pop(right)
            assert left == min(live[left])
            assert size == len(live[left])
        assert found.n_trees == len(live)

    way.hold(law, linkage)


def test_heights_never_fall(linkage: str, way: Runner) -> None:
    def law(problem: Problem, found: Clustering) -> None:
        sign, below = sign_of(problem), dict.fromkeys(range(problem.graph.n_nodes), -np.inf)
        highest = problem.options.get("max_height")
        for left, right, height, _ in rows_of(found):
            assert max(below[left], below[right]) <= sign * height < np.inf
            assert highest is None or sign * height <= sign * highest
            below[left] = sign * height

    way.hold(law, linkage)


def test_a_forest_stays_a_forest(linkage: str, way: Runner) -> None:
    def law(problem: Problem, found: Clustering) -> None:
        nodes, (u, v, _) = problem.graph.n_nodes, columns(problem.graph)
        matrix = sparse.coo_array((np.ones(len(u)), (u, v)), shape=(nodes, nodes))
        n_parts, part = csgraph.connected_components(matrix, directed=False) if nodes else (0, np.empty(0, int))
        assert len(set(zip(part.tolist(), found.labels.tolist(), strict=True))) == found.n_trees >= n_parts
        parted = problem.options.get("max_height") is not None or problem.options["missing"] == "infinite"
        assert parted or found.n_trees == n_parts

    way.hold(law, linkage)


class StopError(Exception):
    """What stops a run."""


@contextmanager
def stopped_at_commit() -> Iterator[None]:
    """Stop a run as soon as it has committed a step, unless that is its last."""
    commit = manifest.commit

    def commit_and_stop(folder: Any, step: manifest.Manifest) -> bool:
        assert commit(folder, step)
        if step.state is not None:
            raise StopError
        return True

    with mock.patch.object(manifest, "commit", commit_and_stop):
        yield


def test_stopped_after_every_step_it_comes_out_the_same(engine: Engine, linkage: str, stored_way: Runner) -> None:
    # The linkages of an engine stop alike: they share the named graphs, and each has generated ones of its own.
    linkages = sorted(engine.linkages)

    def law(problem: Problem) -> None:
        with stored_way.place() as folder:
            with stopped_at_commit(), pytest.raises(StopError):
                stored_way.run(problem, folder)
            found = None
            while found is None:
                steps = len(steps_of(folder / "run"))
                try:
                    with stopped_at_commit():
                        found = stored_way.resume(problem, folder)
                except StopError:
                    assert len(steps_of(folder / "run")) == steps + 1
            assert_same(found, run_in_memory(problem))

    stored_way.hold_for(law, linkage, share=(linkages.index(linkage), len(linkages)))


def changed(found: Clustering, problem: Problem) -> Clustering | None:
    """The same hierarchy with the height of one merge farther; None if there is no merge."""
    frame = merges_frame(found)
    if frame.empty:
        return None
    merges = Merges(*(frame[name].to_numpy().copy() for name in Merges._fields))
    merges.height[len(problem.rows.edges) % len(frame)] += sign_of(problem) * 0.25
    return Clustering(MergeList(found.n_nodes, merges, frame["round"].to_numpy(), []), found._settings)


def test_an_audit_accepts_it_and_rejects_a_changed_height(linkage: str, way: Runner) -> None:
    def law(problem: Problem, found: Clustering) -> None:
        edges = columns(problem.rows)
        assert found.verify(edges).merges == len(merges_frame(found))
        if isinstance(found, dask_rac.StoredClustering) and way.way.on_disk:
            assert found.verify(client=way.client).merges == len(merges_frame(found))
        wrong = changed(found, problem)
        if wrong is not None:
            with pytest.raises(dask_rac.AuditError):
                wrong.verify(edges)

    way.hold(law, linkage)


def planned(engine: Engine, problem: Problem, shards: int | None, budget: Budget) -> int | None:
    """The shards that the plan names; None if nothing fits."""
    rows = len(problem.rows.edges)
    given = Expected(problem.rows.n_nodes, rows, "float64", 20 * rows)
    try:
        return engine.sizes(given, settings_of(problem), shards, budget).shards
    except dask_rac.ResourceError:
        return None


def first_shards(store: str | Path) -> int:
    """The shards of the first state of a run."""
    state = steps_of(store)[0].state
    assert state is not None
    return len(state.shards)


def test_a_plan_names_at_least_the_shards_that_occur(engine: Engine, linkage: str, stored_way: Runner) -> None:
    budget = choose_scheduler(stored_way.client).budget(None)

    def law(problem: Problem, found: Clustering) -> None:
        assert isinstance(found, dask_rac.StoredClustering)
        known = planned(engine, problem, stored_way.way.shards, budget)
        assert known is not None
        assert known >= first_shards(found.store)

    stored_way.hold(law, linkage)


@pytest.mark.parametrize("stored_way", STORED_WAYS[1::2], indirect=True, ids=lambda way: way.name)
def test_what_a_plan_refuses_for_lack_of_memory_a_run_refuses(engine: Engine, linkage: str, stored_way: Runner) -> None:
    place = choose_scheduler(stored_way.client)

    def law(problem: Problem) -> None:
        rows, nodes = len(problem.rows.edges), problem.rows.n_nodes
        memory = max(1, nodes * NODE_BYTES[rows % len(NODE_BYTES)])
        known = planned(engine, problem, None, place.budget(memory))
        with stored_way.place() as folder:
            try:
                found = stored_way.run(problem, folder, memory=memory, shards=None)
            except dask_rac.ResourceError:
                assert known is None
                assert not Path(folder, "run").exists()
            else:
                assert known is not None
                assert known >= first_shards(folder / "run")
                # Where the finisher has no room, rounds go on: the merges are the same, their rounds are not.
                assert sorted(rows_of(found)) == sorted(rows_of(run_in_memory(problem)))
                if problem.ending != "hand over":
                    assert_same(found, run_in_memory(problem))

    stored_way.hold_for(law, linkage)


def test_a_forest_without_merges_ends_with_little_memory_too(folder: Path) -> None:
    edges = np.array([0]), np.array([1]), np.array([1.0])
    found = dask_rac.cluster(edges, "single", max_height=0.5, n_nodes=100, store=folder / "run", memory=80 * 100)
    assert found.n_trees == 100


def test_where_nothing_fits_a_plan_says_what_would(engine: Engine, linkage: str) -> None:
    given = Expected(10**6, 10**7, "float64", 10**8)
    settings = checked_settings(linkage, 1.0, "distance", None, "error", True)
    for shards, memory in ((None, 10**6), (2, 10**8)):
        with pytest.raises(dask_rac.ResourceError, match="memory="):
            engine.sizes(given, settings, shards, Budget(memory, 1, 2))


@pytest.mark.parametrize("all_pairs", [False, True], ids=["edges", "all pairs"])
def test_the_linkages_of_engines_are_public_and_each_has_one_engine(all_pairs: bool) -> None:
    public = set(get_args(Linkage)) - (set() if all_pairs else {"ward"})
    known = [linkage for engine in ENGINES if engine.all_pairs == all_pairs for linkage in engine.linkages]
    assert set(known) == public
    assert all_pairs or len(known) == len(public)  # all pairs have several engines, of which the plan chooses one
    assert len({engine.name for engine in ENGINES}) == len(ENGINES)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_an_engine_is_chosen_by_its_linkage_and_by_its_name(engine: Engine) -> None:
    given: dict[str, Any] = {"missing": None, "metric": "euclidean"} if engine.all_pairs else {"missing": 1.0}
    for linkage in engine.linkages:
        settings = checked_settings(linkage, weights="distance", **given)
        assert engine_for(settings).name == ("matrix" if engine.all_pairs else engine.name)
        for other in ENGINES:
            assert engine_for(settings, other.name) is other


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_an_engine_has_the_members_of_the_contract(engine: Engine) -> None:
    assert isinstance(engine.name, str)
    assert engine.name.isidentifier()
    assert isinstance(engine.linkages, frozenset)
    methods = {name: method for name, method in vars(Engine).items() if inspect.isfunction(method) and name[0] != "_"}
    assert {"sizes", "begin", "advance", "in_memory", "pieces"} <= methods.keys()
    for name, method in methods.items():
        own = inspect.signature(getattr(type(engine), name))
        assert own == inspect.signature(method), name
        assert inspect.getdoc(getattr(type(engine), name)), name
