"""The page: the paper's tables beside those of the runs, from numbers alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log, log2
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined

from evaluation.claims import claim_rows
from evaluation.pictures import Numbers, fit, rounds_of, timed
from evaluation.sets import JOBS, REPORTED

TEMPLATE = Path(__file__).with_name("page.md.jinja")
NAMES = {
    "web88m": "WEB88M",
    "sift1b": "SIFT1B",
    "sift1b_knn": "SIFT1B, neighbours",
    "sift1m": "SIFT1M",
    "sift200k": "SIFT200K",
    "sift30k": "SIFT200K, fewer",
    "news20": "News20",
    "rcv1": "RCV1",
}
CROWD = 1_000
"""Rounds of fewer clusters have too few merges for a rise to mean something."""


def page_text(numbers: Numbers) -> str:
    """Return the page."""
    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False).from_string(
        TEMPLATE.read_text()
    )
    return template.render(**_tables(numbers), **_words(numbers))


def _tables(numbers: Numbers) -> dict[str, str]:
    return {
        "sets": table(("", "nodes in the paper", "here", "edges in the paper", "here", "graph"), _sets(numbers)),
        "merges": table(("", "nodes", "merges per node", "rounds", "time per merge", "per edge"), _merges(numbers)),
        "missing": table(
            ("", "`ignore`: rounds", "merges", "`far`", "merges", "`infinite`", "merges"), _others(numbers)
        ),
        "humps": table(("", "low: round", "merges", "updates", "peak", "merges", "updates", "rise"), _humps(numbers)),
        "ratios": table(("", "alpha", "updates per merge", "at most in a round", "passes"), _ratios(numbers)),
        "slopes": table(("", "slope against merges m", "against m c, or edges left", "rounds"), _slopes(numbers)),
        "workers": table(
            ("", "workers", "processor s of each", "if no one waited", "s by the clock", "other processes"),
            _workers(numbers),
        ),
        "theorems": table(("", "claim", "test", "measured"), claim_rows(numbers["theorems"])),
    }


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def short(count: float) -> str:
    """Return a count as papers write it: 720B, 1.2M, 20,000."""
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:,.0f}"


GRAPHS = {"radius": "pairs within a radius", "neighbours": "mutual 30 neighbours", "": "all pairs"}


def _sets(numbers: Numbers) -> Iterable[Sequence[str]]:
    for key, name in NAMES.items():
        job, found = JOBS[key], numbers[key]
        reported = REPORTED[job.of]
        here = f"{found['nodes']:,}", short(2 * found["edges"])
        yield name, short(reported.nodes), here[0], short(reported.edges), here[1], GRAPHS[job.graph]


def _merges(numbers: Numbers) -> Iterable[Sequence[str]]:
    web, paper = numbers["web88m"], REPORTED["WEB88M"]
    for key, name in NAMES.items():
        job, found = JOBS[key], numbers[key]
        reported, rounds = REPORTED[job.of], len(found["rounds"]["merges"])
        if reported.rounds and key == job.of.lower():
            per_node = f"{reported.merges / reported.nodes:.2f}"
            costs = reported.cost / paper.cost, reported.edge_cost / paper.edge_cost
            yield f"{name}, the paper", short(reported.nodes), per_node, str(reported.rounds), *map(figures, costs)
        costs = spent(found) / spent(web), spent(found, "edges") / spent(web, "edges")
        per_node = f"{found['merges'] / found['nodes']:.2f}"
        yield f"**{name}, here**", f"{found['nodes']:,}", per_node, f"{rounds:,}", *map(figures, costs)


def _others(numbers: Numbers) -> Iterable[Sequence[str]]:
    for key, name in NAMES.items():
        if JOBS[key].graph:
            found = numbers[key]
            several = {"rounds": len(found["rounds"]["merges"]), "merges": found["merges"]}, *found["others"].values()
            yield name, *(f"{each[count]:,}" for each in several for count in ("rounds", "merges"))


def spent(found: Mapping[str, Any], per: str = "merges") -> float:
    """Return processor seconds per merge or edge: of the rounds, and for all pairs those of their distances as well."""
    seconds = found["processor"] if found["trees"] == 1 else sum(found["rounds"]["processor"])
    return float(seconds / found[per])


def figures(value: float) -> str:
    """Return a number with two figures, or as a whole number."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _humps(numbers: Numbers) -> Iterable[Sequence[str]]:
    for key, name in NAMES.items():
        if JOBS[key].engine != "certain":
            low, peak = hump(numbers, key)
            ends = (text for at in (low, peak) for text in (f"{at.round:,}", f"{at.merges:,}", f"{at.updates:.1f}"))
            yield name, *ends, f"{peak.merges / low.merges:.1f} times"


@dataclass(frozen=True)
class At:
    """One round of a run."""

    round: int
    merges: int
    updates: float
    """Per merge."""


def hump(numbers: Numbers, key: str) -> tuple[At, At]:
    """Return the low and the peak after it between which merges rise most, as a ratio."""
    rounds = rounds_of(numbers, key)
    merges = rounds["merges"][rounds["clusters"] > min(CROWD, rounds["clusters"][0] / 2)]
    peak = int((merges / np.minimum.accumulate(merges)).argmax())
    low = int(merges[: peak + 1].argmin())
    first, last = (At(at + 1, int(merges[at]), float(rounds["updates"][at] / merges[at])) for at in (low, peak))
    return first, last


def _ratios(numbers: Numbers) -> Iterable[Sequence[str]]:
    for key, name in NAMES.items():
        clusters, merges, updates = (rounds_of(numbers, key)[each] for each in ("clusters", "merges", "updates"))
        passes = "" if JOBS[key].engine == "certain" else f"{_passes(numbers, key):.1f}"
        most = f"{(updates / merges).max():.1f}"
        yield name, f"{merges.sum() / clusters.sum():.3f}", f"{updates.sum() / merges.sum():.1f}", most, passes


def _slopes(numbers: Numbers) -> Iterable[Sequence[str]]:
    for key in ("sift1b", "web88m", "sift30k", "news20", "rcv1"):
        merges, seconds, clusters, edges = timed(numbers, key)
        work = edges if JOBS[key].graph else merges * clusters
        slopes = (f"{fit(of, seconds)[0]:.2f}" for of in (merges, work))
        yield NAMES[key], *slopes, str(len(merges))


WORK = {"edges": "{:,} nodes, {} edges, average", "pairs": "{:,} descriptors, all pairs, complete"}


def _workers(numbers: Numbers) -> Iterable[Sequence[str]]:
    for what, text in WORK.items():
        one, two = (run for run in numbers["workers"] if run["what"] == what)
        for run in (one, two):
            name = text.format(one["nodes"], short(20 * one["nodes"])) if run is one else ""
            each = " and ".join(f"{seconds:.1f}" for seconds in run["each"])
            faster = f"{sum(one['each']) / max(run['each']):.2f} times as fast" if run is two else ""
            others = max(0.0, run["load"] - run["workers"])
            yield name, str(run["workers"]), each, faster, f"{run['seconds']:.0f}", f"about {others:.0f}"


def _words(numbers: Numbers) -> dict[str, Any]:
    """Return the numbers that the text names."""
    whole = [key for key, job in JOBS.items() if not job.graph]
    rounds = {key: f"{len(numbers[key]['rounds']['merges']):,}" for key in JOBS}
    counts = [len(numbers[key]["rounds"]["merges"]) for key in whole]
    nodes = [numbers[key]["nodes"] for key in whole]
    matrix, base = numbers["sift30k"], spent(numbers["web88m"])
    humps = [hump(numbers, key) for key, job in JOBS.items() if job.engine != "certain"]
    total = sum(numbers[key]["processor"] + numbers[key]["generate"] + numbers[key]["join"] for key in JOBS)
    return {
        "minutes": f"{numbers['minutes']:g}",
        "cores": numbers["cores"],
        "memory": f"{numbers['memory'] / 1e9:.0f}",
        "processor": f"{total / 60:.0f}",
        "harder": sum(low.updates > peak.updates for low, peak in humps),
        "rises": len(humps),
        "doubling": _doubling(numbers),
        "near": _near(numbers["theorems"]),
        "nodes": {key: f"{numbers[key]['nodes']:,}" for key in JOBS},
        "equal": {key: f"{numbers[key]['merges'] - sum(numbers[key]['rounds']['merges']):,}" for key in JOBS},
        "passes": {key: f"{_passes(numbers, key):.0f}" for key in JOBS},
        "nanoseconds": {key: f"{1e9 * numbers[key]['processor'] / numbers[key]['edges']:.1f}" for key in JOBS},
        "load": f"{np.mean([numbers[key]['load'] for key in JOBS]):.0f}",
        "rounds": rounds,
        "least_rounds": min(counts),
        "most_rounds": max(counts),
        "least_nodes": f"{min(nodes):,}",
        "most_nodes": f"{max(nodes):,}",
        "cost": {key: figures(spent(numbers[key]) / base) for key in JOBS},
        "paper_cost": figures(REPORTED["SIFT200K"].cost / REPORTED["WEB88M"].cost),
        "matrix": {
            "nodes": f"{matrix['nodes']:,}",
            "processor": f"{matrix['processor']:.0f}",
            "pairs": f"{matrix['stages']['pairs']:.1f}",
            "rounds": f"{sum(matrix['rounds']['processor']):.1f}",
        },
        "loading": {key: f"{100 * (1 - merging(numbers[key])):.0f}" for key in ("sift1b", "sift1b_knn", "web88m")},
        "beta": {key: _beta(numbers, key)[0] for key in ("news20", "rcv1")},
        "beta_most": {key: _beta(numbers, key)[1] for key in ("news20", "rcv1")},
        "line": _line(numbers["theorems"]["line"]),
    }


def _doubling(numbers: Numbers) -> dict[str, str]:
    """Return how many rounds are added where the vectors double, in the paper and here."""
    few, many = REPORTED["SIFT200K"], REPORTED["SIFT1M"]
    first, last = numbers["theorems"]["pairs"][0], numbers["sift30k"]
    here = (len(last["rounds"]["merges"]) - first["rounds"]) / log2(last["nodes"] / first["nodes"])
    return {
        "paper": f"{(many.rounds - few.rounds) / log2(many.nodes / few.nodes):.1f}",
        "here": f"{here:.1f}",
        "least": f"{first['nodes']:,}",
        "most": f"{last['nodes']:,}",
    }


def _near(theorems: Mapping[str, Any]) -> dict[str, str]:
    """Return the rounds of the same vectors by two engines."""
    near = theorems["near"]
    (same,) = (each for each in theorems["pairs"] if each["nodes"] == near["nodes"])
    return {"nodes": f"{near['nodes']:,}", "rounds": str(near["rounds"]), "matrix": str(same["rounds"])}


def _passes(numbers: Numbers, key: str) -> float:
    edges = rounds_of(numbers, key)["edges"]
    return float(edges.sum() / edges[0])


def merging(found: Mapping[str, Any]) -> float:
    """Return the share of the processor time that rounds took."""
    return float(sum(found["rounds"]["processor"]) / found["processor"])


def _beta(numbers: Numbers, key: str) -> tuple[str, str]:
    rounds = rounds_of(numbers, key)
    updates, merges = rounds["updates"], rounds["merges"]
    return f"{updates.sum() / merges.sum():.1f}", f"{(updates / merges).max():.0f}"


def _line(line: Mapping[str, Any]) -> dict[str, str]:
    return {
        "nodes": short(line["nodes"]),
        "rounds": str(line["rounds"]),
        "first": f"{line['first']:.3f}",
        "least": f"{line['least']:.3f}",
        "bound": f"{line['bound']:.0f}",
        "third": f"{log(line['nodes']) / -log(1 - 1 / 3):.0f}",
    }
