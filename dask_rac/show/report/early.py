"""The report of a run that has no tree yet: its edges are still being read, or its store is damaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dask_rac.base.events import RoundRecord
from dask_rac.base.text import size_text
from dask_rac.show.report.facts import ReportFacts
from dask_rac.show.report.findings import Findings, count_deferred, count_finisher_merges
from dask_rac.show.report.remarks import remarks_of
from dask_rac.show.report.words import graph_of, parameters_of
from dask_rac.store.overview import Overview

if TYPE_CHECKING:
    from dask_rac.show.pictures import Picture


def early_page(found: Overview) -> ReportFacts:
    """Return what the manifests alone contain."""
    header, facts = found.header, found.facts
    findings = Findings(
        header.settings,
        facts.nodes if facts else 0,
        found.merges,
        found.status,
        found.store,
        loops=facts.loops if facts else 0,
        repeats=facts.repeats if facts else 0,
        damaged=found.damaged,
        finisher=count_finisher_merges(found.rounds),
        deferred=count_deferred(found.rounds),
    )
    return ReportFacts(
        found.store,
        found.status,
        facts.nodes if facts else None,
        header.settings.weights == "similarity",
        parameters_of(header.settings),
        graph_of(header, facts),
        _result(found),
        run=found.store,
        pictures=_pictures(found.rounds, bool(header.settings.metric)),
        remarks=remarks_of(findings),
        versions=header.versions,
    )


def _pictures(records: Sequence[RoundRecord], all_pairs: bool) -> list[Picture]:
    """Return pictures of the rounds so far."""
    from dask_rac.show.pictures import alpha_beta_picture, rounds_picture  # noqa: PLC0415 - Bokeh is an extra

    return [rounds_picture(records, all_pairs), alpha_beta_picture(records)] if records else []


def _result(found: Overview) -> dict[str, str]:
    """Return the progress so far."""
    words = {"disk": size_text(found.bytes), "time": f"{found.seconds:,.1f} s"}
    if found.facts is None:
        return {"state": "not merged yet" if found.header.settings.metric else "edges not read yet"} | words
    epsilon = found.settings.epsilon
    words |= {"epsilon": f"{found.epsilon:.6g}, of {epsilon:g} allowed"} if epsilon else {}
    return {"nodes": f"{found.facts.nodes:,}", "merges": f"{found.merges:,}", "rounds": str(len(found.rounds))} | words
