"""Constants: known ones are found again in what runs with them would take, and a finished run gives some."""

from dataclasses import replace
from pathlib import Path

import dask
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.forecasts.calibrate import Sample, calibrated, fitted
from dask_rac.forecasts.machine import Machine, Rate, sorting_seconds
from dask_rac.forecasts.observe import Place, observe, place_of
from tests.support.folders import quick_folder

rates = st.builds(Rate, st.floats(1e-9, 1e-6), st.floats(1e-10, 1e-7))


@given(rate=rates, nodes=st.lists(st.integers(10, 10**9), min_size=2, max_size=6, unique=True))
def test_a_rate_is_found_again(rate: Rate, nodes: list[int]) -> None:
    samples = [Sample(20 * count * rate.at(count), 20 * count, count, 1 / count) for count in nodes]
    found = fitted(samples)
    for count in nodes:
        assert found.at(count) == pytest.approx(rate.at(count), rel=1e-6)


def test_constants_are_never_negative() -> None:
    falling = [Sample(100.0, 100, 2**4), Sample(50.0, 100, 2**20)]
    assert min(fitted(falling).flat, fitted(falling).doubling) >= 0
    assert fitted([]) == Rate()


def test_a_finished_run_gives_constants_and_is_forecast_by_them() -> None:
    with quick_folder() as folder, dask.config.set(num_workers=2):
        edges = dask_rac.datasets.lattice(4_000, 20, 0, folder / "edges", weights="similarity")
        stored = dask_rac.cluster(edges, weights="similarity", store=folder / "run", shards=5)
        run = observe(folder / "run", Place(1, 2))
        machine = calibrated([run])
        forecast = dask_rac.forecast(
            edges, weights="similarity", like=stored, like_on="1x2", kind={"cores": 2, "memory": "2GB"}, shards=5
        )
    spent = machine.fold, machine.read, machine.write, machine.scan, machine.build, machine.rest_fold
    assert min(rate.at(4_000) for rate in spent) > 0
    assert len(run.rounds) == sum(1 for one in forecast.levels if one.shards)
    assert forecast.plan.shards == 5
    assert forecast.seconds > 0
    read, written = (stored.phases[f"{name}_bytes"].sum() for name in ("read", "write"))
    assert sum(seen.shape.layers()["fold"].written for seen in run.rounds) < written
    assert forecast.traffic.read == pytest.approx(read, rel=0.25)
    assert forecast.traffic.written == pytest.approx(written, rel=0.1)


def test_seconds_in_which_threads_have_waited_do_not_count() -> None:
    with quick_folder() as folder, dask.config.set(num_workers=2):
        edges = dask_rac.datasets.lattice(2_000, 20, 0, folder / "edges", weights="similarity")
        dask_rac.cluster(edges, weights="similarity", store=folder / "run", shards=3)
        fast, slow = (observe(folder / "run", Place(1, 2, slowdown)) for slowdown in (2.0, 1.0))
    assert fast.intake_seconds == pytest.approx(slow.intake_seconds / 2)
    for one, other in zip(fast.rounds, slow.rounds, strict=True):
        assert [one.wall, one.spent[1]] == pytest.approx([other.wall / 2, other.spent[1] / 2])


def test_what_only_groups_take_is_no_constant() -> None:
    """A run by way of groups gives the constants of the run by block that its intake is longer than."""
    with quick_folder() as folder, dask.config.set(num_workers=2):
        edges = dask_rac.datasets.lattice(4_000, 20, 0, folder / "edges", weights="similarity")
        dask_rac.cluster(edges, weights="similarity", store=folder / "run", shards=5)
        seen = observe(folder / "run", Place(1, 2))
    # Long beside what groups add, as it is for graphs that need them: of so small a graph any phase may take less.
    longer = {name: seconds + 1.0 for name, seconds in seen.intake.items()}
    run = replace(seen, intake=longer, intake_seconds=seen.intake_seconds + len(longer) / seen.place.workers)
    machine, nodes, row = calibrated([run]), run.facts.nodes, 2 * run.sizes.ids + run.sizes.weight
    size = run.facts.edges * row * (2 - 1 / run.shards)
    more = {
        "read": machine.read.at(nodes) * size,
        "route": machine.move.at(nodes) * size / row,
        "write": machine.write.at(nodes) * 1.5 * size,
    }
    again = machine.write.at(nodes) * size / 2  # what `route` writes only by group
    assert sum(more.values()) == pytest.approx(sorting_seconds(machine, nodes, (size, size), row) + again)
    intake = {name: seconds + more.get(name, 0.0) for name, seconds in run.intake.items()}
    seconds = run.intake_seconds + sum(more.values()) / run.place.workers
    found = calibrated([replace(run, intake=intake, intake_seconds=seconds, by_groups=True)])
    for name in ("scan", "route", "build"):
        assert getattr(found, name).at(nodes) == pytest.approx(getattr(machine, name).at(nodes))


def test_constants_are_read_as_they_were_written(tmp_path: Path) -> None:
    machine = Machine(fold=Rate(1e-9, 2e-10), step=0.5, disk_read=1e9, sources=("a run",))
    machine.save(tmp_path / "machine.json")
    assert Machine.load_from(tmp_path / "machine.json") == machine


@pytest.mark.parametrize("text", ["", "[]", "{}x", '{"speed": 3}', '{"step": -1}', '{"fold": {"flat": "fast"}}'])
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(text)
    with pytest.raises(dask_rac.InputError, match=r"machine\.json"):
        Machine.load_from(path)
    with pytest.raises(dask_rac.InputError, match="holds no constants"):
        Machine.load_from(tmp_path / "missing.json")


@pytest.mark.parametrize("text", ["", "2", "0x1", "2 x 1", "x", "-1x2"])
def test_places(text: str) -> None:
    assert place_of("2x8").workers == 16
    with pytest.raises(dask_rac.InputError, match="processes x threads"):
        place_of(text)


def test_runs_that_are_not_forecast_are_refused(tmp_path: Path) -> None:
    edges = ([0, 1, 2], [1, 2, 3], [1.0, 2.0, 3.0])
    dask_rac.cluster(edges, "single", store=tmp_path / "single")
    with pytest.raises(dask_rac.InputError, match="average, complete or weighted"):
        observe(tmp_path / "single", Place(1, 1))
    dask_rac.cluster(edges, store=tmp_path / "memory")
    with pytest.raises(dask_rac.InputError, match="edges that were on disk"):
        observe(tmp_path / "memory", Place(1, 1))
