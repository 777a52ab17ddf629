"""Linkage as the kernels know it."""

from __future__ import annotations

import math

from dask_rac.base.settings import Settings
from dask_rac.kernels import rule as rules
from dask_rac.kernels.arrays import Rule


def rule_of(settings: Settings) -> Rule:
    """Return the kernels' rule for a run's settings."""
    mean, missing = settings.linkage == "average", settings.missing
    if settings.linkage == "weighted":
        code = rules.HALF_FILLED
    elif settings.linkage == "ward":
        code = rules.SQUARES_FULL
    elif missing == "ignore":
        code = rules.MEAN_PRESENT if mean else rules.MAX_PRESENT
    elif missing == "infinite":
        code = rules.MEAN_FULL if mean else rules.MAX_FULL
    elif mean and missing == 0:
        code = rules.MEAN_ALL
    else:
        code = rules.MEAN_FILLED if mean else rules.MAX_FILLED
    undefined = math.nan if code in (rules.HALF_FILLED, rules.SQUARES_FULL) else 0.0
    fill = undefined if isinstance(missing, str) else settings.sign * missing
    return Rule(code, fill, settings.sign * settings.max_height, settings.sign)


def needs_counts(rule: Rule) -> bool:
    """Whether W depends on the number of edges folded into one."""
    return rule.code not in (rules.MEAN_ALL, rules.HALF_FILLED, rules.MAX_PRESENT)
