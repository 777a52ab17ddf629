"""The simulator against closed forms, and against a simulation in small steps of time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_rac.forecasts.simulate import Place, Task, simulate

seconds = st.integers(0, 40).map(lambda quarter: quarter / 4)
layers = st.lists(st.lists(seconds, min_size=1, max_size=12), min_size=1, max_size=4)


def tasks_of(work: list[list[float]]) -> list[list[Task]]:
    return [[Task(spent) for spent in layer] for layer in work]


@given(work=layers)
def test_one_worker_takes_the_sum(work: list[list[float]]) -> None:
    assert simulate(tasks_of(work), Place(1))[-1] == pytest.approx(sum(map(sum, work)))


@given(count=st.integers(1, 60), workers=st.integers(1, 9), spent=seconds)
def test_equal_tasks_run_in_waves(count: int, workers: int, spent: float) -> None:
    assert simulate([[Task(spent)] * count], Place(workers)) == [pytest.approx(-(-count // workers) * spent)]


@given(work=layers)
def test_with_enough_workers_every_layer_takes_its_longest_task(work: list[list[float]]) -> None:
    ends = simulate(tasks_of(work), Place(12))
    longest = [max(layer) for layer in work]
    assert ends == [pytest.approx(sum(longest[: place + 1])) for place in range(len(work))]


@given(work=layers, workers=st.integers(1, 8))
def test_lists_are_scheduled_within_the_bounds_of_graham(work: list[list[float]], workers: int) -> None:
    ends = [0.0, *simulate(tasks_of(work), Place(workers))]
    for layer, began, ended in zip(work, ends, ends[1:], strict=False):
        least = max(*layer, sum(layer) / workers)
        assert least - 1e-9 <= ended - began <= (2 - 1 / workers) * least + 1e-9


@given(count=st.integers(1, 40), workers=st.integers(1, 50))
def test_the_scheduler_hands_out_one_task_after_the_other(count: int, workers: int) -> None:
    ends = simulate([[Task(0.0)] * count], Place(workers, dispatch=0.5))
    assert ends == [pytest.approx(0.5 * count)]


@given(count=st.integers(1, 20), workers=st.integers(1, 30))
def test_a_link_is_shared(count: int, workers: int) -> None:
    """However many workers move bytes at a time, the link moves no more of them."""
    ends = simulate([[Task(0.0, bytes=100.0)] * count], Place(workers, bandwidth=50.0))
    assert ends == [pytest.approx(2.0 * count)]


@given(count=st.integers(1, 20))
def test_a_connection_has_its_own_limit(count: int) -> None:
    ends = simulate([[Task(1.0, bytes=100.0, requests=3)] * count], Place(count, latency=0.5, connection=50.0))
    assert ends == [pytest.approx(1.5 + 2.0 + 1.0)]


STEP = 1 / 64


def simulate_in_small_steps(tasks: list[Task], place: Place) -> float:
    """The same for one layer, by moving all running tasks on for a short time, again and again."""
    waiting, running = list(tasks), [[0.0, 0.0, 0.0] for _ in range(0)]
    time, scheduler = 0.0, 0.0
    while waiting or running:
        while waiting and len(running) < place.workers and time >= scheduler + place.dispatch - 1e-9:
            task = waiting.pop(0)
            scheduler = time
            running.append([task.requests * place.latency, task.bytes, task.seconds])
        moving = [one for one in running if one[0] <= 1e-9 and one[1] > 1e-9]
        share = min(place.connection, place.bandwidth / max(1, len(moving)))
        for one in running:
            if one[0] > 1e-9:
                one[0] -= STEP
            elif one[1] > 1e-9:
                one[1] -= share * STEP
            else:
                one[2] -= STEP
        time += STEP
        running = [one for one in running if max(one) > 1e-9]
    return time


@given(
    tasks=st.lists(
        st.builds(Task, seconds, st.integers(0, 8).map(lambda size: 16.0 * size), st.integers(0, 3).map(float)),
        min_size=1,
        max_size=8,
    ),
    workers=st.integers(1, 4),
    dispatch=st.sampled_from([0.0, 0.25]),
    latency=st.sampled_from([0.0, 0.5]),
    connection=st.sampled_from([32.0, math.inf]),
)
def test_events_are_those_of_a_simulation_in_small_steps(
    tasks: list[Task], workers: int, dispatch: float, latency: float, connection: float
) -> None:
    place = Place(workers, dispatch, latency, 64.0, connection)
    found = simulate([tasks], place)[-1]
    rounded = 5 * STEP * len(tasks)  # each task begins, changes what it does, and ends, at a multiple of the step
    assert found == pytest.approx(simulate_in_small_steps(tasks, place), abs=rounded + 0.02 * found)


@given(work=layers, workers=st.integers(1, 8))
def test_a_barrier_holds_back_the_next_layer(work: list[list[float]], workers: int) -> None:
    together = simulate(tasks_of(work), Place(workers))
    alone = [simulate(tasks_of([layer]), Place(workers))[0] for layer in work]
    assert together[-1] == pytest.approx(sum(alone))
