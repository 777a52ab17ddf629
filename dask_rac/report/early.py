"""The report of a run that has no tree to show: its edges are still being read, or its store is damaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dask_rac.config import RoundRecord, size_text
from dask_rac.overview import Overview
from dask_rac.report.facts import ReportFacts
from dask_rac.report.findings import Findings, count_deferred, merged_last
from dask_rac.report.remarks import remarks_of
from dask_rac.report.words import graph_of, parameters_of

if TYPE_CHECKING:
    from dask_rac.pictures import Picture


def early_page(found: Overview) -> ReportFacts:
    """What the manifests alone tell."""
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
        finisher=merged_last(found.rounds),
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
        pictures=_pictures(found.rounds),
        remarks=remarks_of(findings),
        versions=header.versions,
    )


def _pictures(records: Sequence[RoundRecord]) -> list[Picture]:
    """Of the rounds, as far as they are known."""
    from dask_rac.pictures import alpha_beta_picture, rounds_picture  # noqa: PLC0415 - Bokeh is an extra

    return [rounds_picture(records), alpha_beta_picture(records)] if records else []


def _result(found: Overview) -> dict[str, str]:
    """How far it has come."""
    words = {"disk": size_text(found.bytes), "time": f"{found.seconds:,.1f} s"}
    if found.facts is None:
        return {"state": "the edges are not read yet"} | words
    return {"nodes": f"{found.facts.nodes:,}", "merges": f"{found.merges:,}", "rounds": str(len(found.rounds))} | words
