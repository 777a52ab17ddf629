"""Graphs of tasks against Dask's own delayed calls, and how they grow."""

from __future__ import annotations

import math
import pickle
import time
from typing import Any

import pytest
from dask.delayed import delayed
from dask.order import order
from distributed import Client

from dask_rac.base.settings import Settings
from dask_rac.engines.contract import Expected
from dask_rac.engines.rows.sizes import project
from dask_rac.engines.rows.tasks import round_graph
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.scheduler import Scheduler
from dask_rac.tasks.task_graph import TaskGraph, lazy_list
from dask_rac.tasks.threads import Threads
from dask_rac.tasks.workers import Workers
from tests.support.clients import nothing_left

SETTINGS = Settings("average", "ignore", "similarity", -math.inf, "error", True)


def weigh(factor: int, values: list[int]) -> int:
    """Return a number that depends on all arguments and their order."""
    return factor * sum((k + 1) * value for k, value in enumerate(values))


def pair(*values: Any) -> tuple[Any, ...]:
    """Return the arguments as they arrive."""
    return values


def made() -> TaskGraph:
    """Tasks that take values, lists, constants, other tasks, lists of these, and what others' graphs compute."""
    graph = TaskGraph("token")
    shared = graph.constant([3, 4], "shared")
    first = [graph.add(weigh, k, [k, 1], name="first") for k in range(5)]
    graph.add(weigh, 2, shared, name="second")
    graph.add(weigh, 3, graph.gather(first, "gathered"), name="third")
    graph.add(weigh, 5, first[1:3], name="fourth")
    lazy = [delayed(sum)([k, k]) for k in range(3)]
    graph.add(pair, lazy_list(lazy), lazy[1], "first-token-0", (weigh, 1), name="others")
    return graph


def expected() -> dict[str, list[Any]]:
    """The same, in plain Python; texts and tuples are only what they are, though Dask once gave them a meaning."""
    first = [weigh(k, [k, 1]) for k in range(5)]
    return {
        "first": first,
        "second": [weigh(2, [3, 4])],
        "gathered": [first],
        "third": [weigh(3, first)],
        "fourth": [weigh(5, first[1:3])],
        "others": [([0, 2, 4], 2, "first-token-0", (weigh, 1))],
    }


@pytest.mark.parametrize("place", ["threads", "workers"])
def test_tasks_get_what_they_were_given(place: str, client: Client) -> None:
    scheduler: Scheduler = Threads() if place == "threads" else Workers(client)
    seen: list[tuple[str, Any]] = []
    found = scheduler.compute(made(), lambda layer, result: seen.append((layer, result)))
    assert found == expected()
    assert sorted(layer for layer, _ in seen) == sorted(name for name, tasks in found.items() for _ in tasks)
    assert nothing_left(client)


def test_a_task_may_take_what_a_worker_holds(client: Client) -> None:
    held, graph = client.scatter([1, 2, 3]), TaskGraph("held")
    graph.add(weigh, 1, client.submit(list, held), name="sum")
    time.sleep(0.1)  # a release of what nobody holds would have arrived by now
    assert Workers(client).compute(graph, lambda *_: None) == {"sum": [weigh(1, [1, 2, 3])]}


def test_a_round_of_twenty_thousand_shards_is_planned() -> None:
    """Of two billion nodes: what the scheduler is sent stays small, and nothing is missing in it."""
    budget = Budget(8 * 10**12, 20, 8, 4 * 10**11)
    graph = project(Expected(2 * 10**9, 10**11, "float64", 0), SETTINGS, 20_000, budget, round_graph).graph
    assert len(graph.layers["split"]) == len(graph.layers["fold"]) == 20_000
    sent = pickle.dumps(graph.nodes)
    assert len(sent) < 20_000_000
    ranks = order(pickle.loads(sent))
    assert set(graph.keys) < set(ranks)
    for node in graph.nodes.values():
        assert all(ranks[key] < ranks[node.key] for key in node.dependencies)
