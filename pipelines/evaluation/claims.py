"""The theorems of the paper: each as a claim, the tests that check it, and what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

Numbers = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """A theorem, in one sentence of our own."""

    number: str
    text: str
    tests: tuple[str, ...]
    measured: Callable[[Numbers], str]


def claim_rows(numbers: Numbers) -> Iterable[Sequence[str]]:
    """Return the rows of the table."""
    for claim in CLAIMS:
        yield claim.number, claim.text, ", ".join(f"`{test}`" for test in claim.tests), claim.measured(numbers)


def listed(values: Iterable[object]) -> str:
    """Return values one after the other."""
    *most, last = map(str, values)
    return f"{', '.join(most)} and {last}"


def _same(numbers: Numbers) -> str:
    found = numbers["same"].values()
    same, merges = (sum(each[name] for each in found) for name in ("same", "merges"))
    apart = max(each["apart"] for each in found)
    points = next(iter(found))["merges"] + 1
    return (
        f"{points:,} points in 16 dimensions, three linkages: {same:,} of {merges:,} merges are those of scipy, "
        f"heights the same to {apart:.0e} of themselves"
    )


def _reciprocal(numbers: Numbers) -> str:
    found = numbers["reciprocal"]
    return f"of the same points {found['pairs']:,} pairs are such; scipy merges {found['merged']:,} of them"


def _early(numbers: Numbers) -> str:
    found = numbers["early"]
    early, others, same = (f"{found[name]:,}" for name in ("early", "others", "same"))
    return f"{early} merges of two points were made first; {same} of the {others} others stayed"


def _chains(numbers: Numbers) -> str:
    found = numbers["chains"]
    heights, rounds = (listed(each[name] for each in found.values()) for name in ("height", "rounds"))
    return f"trees of height {heights}, of {listed(found)} points, took {rounds} rounds"


def _stable(numbers: Numbers) -> str:
    heights, rounds = (listed(each[name] for each in numbers["stable"].values()) for name in ("height", "rounds"))
    return f"trees of height {heights} took {rounds} rounds"


def _line(numbers: Numbers) -> str:
    found = numbers["line"]
    return (
        f"{found['nodes']:,} nodes on a line with random gaps: {found['least']:.3f} of the clusters or more merge in a "
        f"round of more than 1,000, so {found['bound']:.0f} rounds would do; it took {found['rounds']}"
    )


def _pairs(numbers: Numbers) -> str:
    found = numbers["pairs"]
    nodes, passes = listed(f"{each['nodes']:,}" for each in found), listed(f"{each['passes']:.1f}" for each in found)
    return f"all rounds of {nodes} descriptors go through all pairs {passes} times"


def _degrees(numbers: Numbers) -> str:
    found = numbers["degrees"]
    shares, expected = (listed(f"{each[name]:.4f}" for each in found.values()) for name in ("first", "expected"))
    squares = listed(f"{each['squares']:.1f}" for each in found.values())
    same = listed(f"{each['same']:,}" for each in found.values())
    return (
        f"degree {listed(found)}: {shares} of the nodes merge first, where {expected} are expected; the squares of the "
        f"numbers of clusters of all rounds sum up to {squares} n²; {same} heights are those of "
        "the package's single linkage"
    )


def _lattices(numbers: Numbers) -> str:
    found = numbers["lattices"]
    beta, passes = (listed(f"{each[name]:.2f}" for each in found) for name in ("beta", "passes"))
    nodes = listed(f"{each['nodes']:,}" for each in found)
    first, last = found[0], found[-1]
    growth = log(last["processor"] / first["processor"]) / log(last["nodes"] / first["nodes"])
    return (
        f"lattices of {nodes} nodes: {passes} passes over the edges, {beta} updates per merge, time as n to the "
        f"{growth:.2f} (caches hold less of larger graphs); for P see [workers](#speed-up-with-workers)"
    )


CLAIMS = (
    Claim(
        "1",
        "If no merge brings a third cluster nearer, merging all pairs that are each other's nearest, round by round, "
        "gives the tree of merging the nearest pair again and again.",
        ("test_naive_hac.py::test_equals_naive_hac", "test_naive_hac.py::test_rounds_are_those_of_the_paper"),
        _same,
    ),
    Claim(
        "2",
        "Two clusters that are each other's nearest will merge with each other, whatever merges before.",
        ("test_paper.py::test_lemma_2_pairs_that_are_each_others_nearest_in_any_state_merge",),
        _reciprocal,
    ),
    Claim(
        "3",
        "A merge that is made earlier than in its turn changes no other merge.",
        ("test_paper.py::test_lemma_3_merges_done_too_early_change_no_other",),
        _early,
    ),
    Claim(
        "4",
        "There are trees of height n for which the number of rounds grows like 2 to the n.",
        ("test_paper.py::test_theorem_4_a_low_tree_may_take_exponentially_many_rounds",),
        _chains,
    ),
    Claim(
        "5",
        "If every cluster is tighter than what is around it, on all levels, there are as many rounds as the tree is "
        "high.",
        ("test_paper.py::test_a_stable_tree_takes_as_many_rounds_as_it_is_high",),
        _stable,
    ),
    Claim(
        "6",
        "If each round is expected to merge a constant share of the clusters, the number of rounds grows like the "
        "logarithm of the nodes.",
        (
            "test_paper.py::test_theorem_6_each_factor_of_the_nodes_adds_the_same_number_of_rounds",
            "test_paper.py::test_random_weights_on_a_bounded_degree_finish_in_logarithmically_many_rounds",
        ),
        _line,
    ),
    Claim(
        "7",
        "If each round merges a constant share, all pairs take a time that grows like their number, and not faster.",
        ("test_paper.py::test_theorem_7_all_rounds_go_through_a_few_times_all_pairs",),
        _pairs,
    ),
    Claim(
        "8",
        "The same holds for the expected time on graphs of bounded degree with weights in random order, by single "
        "linkage.",
        ("test_paper.py::test_theorem_8_the_share_that_merges_has_the_mean_and_the_spread_of_the_model",),
        _degrees,
    ),
    Claim(
        "9",
        "If each round merges a constant share, every cluster has at most k neighbours, and a merge takes the nearest "
        "from a bounded number of them, P processors need a time like n k / P.",
        ("test_paper.py::test_theorem_9_bounded_ratios_make_the_work_linear",),
        _lattices,
    ),
)
