"""What Python's syntax makes us write again, signatures above all, agrees with the tables in base/parameters.py."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, get_overloads

import click
import pytest

import dask_rac
from dask_rac.base.parameters import GRAPHS, METRIC, SETTINGS, Parameter
from dask_rac.base.settings import Settings, checked_settings
from dask_rac.cli import main
from dask_rac.cli.options import Word
from dask_rac.recipes.kinds.graph import BUILDERS
from dask_rac.recipes.schema import GENERATED, STEPS
from dask_rac.show.report.words import parameters_of
from dask_rac.vectors.compare.metrics import METRICS
from dask_rac.vectors.graph.request import Request

IN_PLANS = ("linkage", "missing", "weights", "epsilon")
NEED_MORE = {"weighted", "ward"}
"""Linkages that `missing="ignore"` does not suit."""
CLUSTERING = Settings("average", "ignore", "distance", 1.0, "error", True, 0.1)


def defaults_of(function: Callable[..., Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of the wanted parameters, in the order of the signature."""
    known = inspect.signature(function).parameters
    return {name: None if p.default is p.empty else p.default for name, p in known.items() if name in wanted}


def defaults(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in parameters.items()}


def check_options(command: click.Command, parameters: Mapping[str, Parameter]) -> None:
    options = {option.name: option for option in command.params if option.name in parameters}
    context = click.Context(command)
    assert options.keys() == parameters.keys()
    for name, parameter in parameters.items():
        default = options[name].get_default(context)
        assert (default if isinstance(default, str | int | float) else None) == parameter.default  # else click's own
        if isinstance(options[name].type, Word):
            found = options[name].type.shell_complete(context, options[name], "")
            assert tuple(item.value for item in found) == parameter.words
        else:
            assert not parameter.words


def test_settings_of_a_clustering() -> None:
    names = list(SETTINGS)
    assert [field.name for field in fields(Settings)] == [*names, "metric", "far"]
    assert list(inspect.signature(checked_settings).parameters) == [*names, "metric"]
    assert list(defaults_of(dask_rac.cluster, SETTINGS).items()) == list(defaults(SETTINGS).items())
    assert defaults_of(dask_rac.plan, SETTINGS) == {name: SETTINGS[name].default for name in IN_PLANS}
    assert {name: STEPS["cluster"][name].default for name in SETTINGS} == defaults(SETTINGS)
    assert parameters_of(CLUSTERING).keys() == SETTINGS.keys()


def test_overloads_of_cluster_have_its_parameters() -> None:
    parameters = list(inspect.signature(dask_rac.cluster).parameters)
    overloads = get_overloads(dask_rac.cluster)
    assert len(overloads) == 3
    assert all(list(inspect.signature(overload).parameters) == parameters for overload in overloads)


@pytest.mark.parametrize("name", [name for name, parameter in SETTINGS.items() if parameter.words])
def test_words_of_a_setting_are_those_that_are_accepted(name: str) -> None:
    given = {key: value for key, value in vars(CLUSTERING).items() if key != "far"}
    for word in set(SETTINGS[name].words) - NEED_MORE:
        assert vars(checked_settings(**{**given, name: word}))[name] == word
    with pytest.raises(dask_rac.InputError, match=f"{name}='neither' is unknown"):
        checked_settings(**{**given, name: "neither"})


@pytest.mark.parametrize("linkage", ["average", "complete", "weighted", "single"])
def test_what_is_absent_is_far_by_default(linkage: str) -> None:
    for weights, missing in (("distance", "ignore" if linkage == "single" else "far"), ("similarity", 0.0)):
        assert checked_settings(linkage, None, weights).missing == missing
    assert checked_settings(linkage, "far", "distance").missing == "far"
    assert checked_settings(linkage, "far", "similarity").missing == 0.0
    assert checked_settings(linkage, 3, "distance").missing == 3.0


def test_far_is_known_once_the_largest_weight_is() -> None:
    far = checked_settings("average", None, "distance")
    assert (far.absent, far.missing_text) == ("far", "far")
    known = far.resolved(1.98)
    assert (known.missing, known.absent, known.missing_text) == ("far", 3.96, "far (3.96)")
    assert known.resolved(7.0) == known
    assert [far.resolved(largest).absent for largest in (0.0, -math.inf, 5e-324)] == [1.0, 1.0, 1e-323]
    for missing in ("ignore", "infinite", 3.0):
        given = checked_settings("average", missing, "distance")
        assert given.resolved(1.0) == given


@pytest.mark.parametrize("linkage", SETTINGS["linkage"].words)
def test_among_all_pairs_every_linkage_is_defined_and_nothing_is_missing(linkage: str) -> None:
    assert checked_settings(linkage, None, "distance", metric="euclidean").missing == "ignore"
    given: list[str | float] = [*SETTINGS["missing"].words, 3.0]
    for missing in given:
        with pytest.raises(dask_rac.InputError, match="among all pairs none is missing: leave it out"):
            checked_settings(linkage, missing, "distance", metric="euclidean")


@pytest.mark.parametrize("linkage", SETTINGS["linkage"].words)
def test_among_all_pairs_only_ward_needs_distances(linkage: str) -> None:
    if linkage == "ward":
        with pytest.raises(dask_rac.InputError, match="weights='similarity' are not distances: use 'average'"):
            checked_settings(linkage, None, "similarity", metric="euclidean")
    else:
        assert checked_settings(linkage, None, "similarity", metric="euclidean").linkage == linkage


@pytest.mark.parametrize("linkage", ["centroid", "median"])
def test_among_all_pairs_too_some_linkages_are_not_reducible(linkage: str) -> None:
    with pytest.raises(dask_rac.InputError, match=f"{linkage} linkage is not reducible"):
        checked_settings(linkage, None, "distance", metric="euclidean")


def test_settings_on_the_command_line() -> None:
    check_options(main.commands["cluster"], SETTINGS)
    check_options(main.commands["plan"], {name: SETTINGS[name] for name in IN_PLANS})


@pytest.mark.parametrize("kind", GRAPHS)
def test_graphs_of_vectors(kind: str) -> None:
    function, wanted = getattr(dask_rac, f"{kind}_graph"), {"metric": METRIC, **GRAPHS[kind]}
    assert BUILDERS[kind] is function
    every = {"metric", *(name for graph in GRAPHS.values() for name in graph)}
    assert defaults_of(function, dict.fromkeys(every)) == defaults(wanted)
    graph = main.commands["graph"]
    assert isinstance(graph, click.Group)
    check_options(graph.commands[kind], wanted)


def test_kinds_of_graphs() -> None:
    assert BUILDERS.keys() == GRAPHS.keys()
    assert METRIC.words == tuple(METRICS)
    every = {name for graph in GRAPHS.values() for name in graph}
    assert {field.name for field in fields(Request)} == {"kind", "metric", *every}
    assert every < STEPS["graph"].keys()
    assert STEPS["graph"]["metric"].default == METRIC.default


@pytest.mark.parametrize("kind", GENERATED)
def test_what_can_be_generated(kind: str) -> None:
    parameters = GENERATED[kind]
    assert defaults_of(getattr(dask_rac.datasets, kind), parameters) == defaults(parameters)
    generate = main.commands["generate"]
    assert isinstance(generate, click.Group)
    check_options(generate.commands[kind], parameters)
