"""Linkage as the kernels know it."""

from __future__ import annotations

import math

from dask_rac.base.settings import Settings
from dask_rac.kernels import rule as rules
from dask_rac.kernels.arrays import Rule


def rule_of(settings: Settings) -> Rule:
    """Return the kernels' rule for a run's settings, once it is known what absent pairs weigh."""
    code, absent = rule_code(settings), settings.absent
    assert absent != "far", "the edges have not been read"
    undefined = math.nan if code in (rules.HALF_FILLED, rules.SQUARES_FULL) else 0.0
    fill = undefined if isinstance(absent, str) else settings.sign * absent
    return Rule(code, fill, settings.sign * settings.max_height, settings.sign)


def rule_code(settings: Settings) -> int:
    """Return the kernels' code for linkage and `missing`; "far" is a number above 0, whether it is known or not."""
    mean, missing = settings.linkage == "average", settings.missing
    if settings.linkage == "weighted":
        return rules.HALF_FILLED
    if settings.linkage == "ward":
        return rules.SQUARES_FULL
    if missing == "ignore":
        return rules.MEAN_PRESENT if mean else rules.MAX_PRESENT
    if missing == "infinite":
        return rules.MEAN_FULL if mean else rules.MAX_FULL
    if mean and missing == 0:
        return rules.MEAN_ALL
    return rules.MEAN_FILLED if mean else rules.MAX_FILLED


def needs_counts(settings: Settings) -> bool:
    """Whether W depends on the number of edges folded into one."""
    return rule_code(settings) not in (rules.MEAN_ALL, rules.HALF_FILLED, rules.MAX_PRESENT)
