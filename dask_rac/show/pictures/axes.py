"""Ranges and ticks of axes: counts, heights, rounds; linear and logarithmic."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import ceil, exp, floor, log, log10, ulp

import numpy as np
from bokeh.models import (
    Axis,
    BasicTicker,
    BasicTickFormatter,
    FixedTicker,
    LogTicker,
    LogTickFormatter,
    NoOverlap,
    NumeralTickFormatter,
    PrintfTickFormatter,
    Range1d,
)
from bokeh.plotting import figure
from numpy.typing import NDArray

from dask_rac.show.pictures.theme import FRAME, HEIGHT

LEAST = 0.8
"""Where an axis of counts begins: a logarithmic one has no 0."""
SMALLEST, LARGEST = log(ulp(0.0)), log(sys.float_info.max)
"""Logarithms of the smallest and the largest float: no axis can go farther."""
NEAR, TINY = 1e-12, 1e-302
"""A browser cannot separate heights whose relative difference is below NEAR, or whose difference is below TINY."""
FARTHEST = 1e270
"""The largest ratio of an axis's ends: browsers divide one by the other."""
DIGITS, MOST_DIGITS, EXACT = 6, 15, 17
"""Digits of a height where they suffice; of one computed with errors, such as a tick; and to distinguish any two."""
LINEAR_DECADES = 2.0
"""With fewer decades BokehJS puts linear ticks on logarithmic axes; 1, 2, 5, 10 are easier to read."""


@dataclass(frozen=True)
class Scale:
    """The extent of an axis."""

    low: float
    high: float
    log: bool

    @property
    def kind(self) -> str:
        """Its type in Bokeh."""
        return "log" if self.log else "linear"

    def at(self, share: float) -> float:
        """Return the value at a share of the way from low to high; the share may lie outside 0 to 1."""
        if self.log:
            wanted = (1 - share) * log(self.low) + share * log(self.high)
            return exp(min(max(wanted, SMALLEST), LARGEST))
        return self.low + share * (self.high - self.low)

    def share(self, value: float) -> float:
        """Return how far along the axis a value is."""
        if self.log:
            return (log(value) - log(self.low)) / (log(self.high) - log(self.low))
        return (value - self.low) / (self.high - self.low)

    def grown(self, below: float, above: float) -> Scale:
        """Return the scale with more room at its ends, in shares of its length."""
        return Scale(self.at(-below), self.at(1 + above), self.log)

    def range(self, flipped: bool = False) -> Range1d:
        """Return the range for Bokeh."""
        start, end = (self.high, self.low) if flipped else (self.low, self.high)
        return Range1d(start=start, end=end)


def height_scale(heights: NDArray[np.float64], decades: float) -> Scale:
    """Return a scale for finite heights: logarithmic if all are positive and span more than `decades`."""
    low, high = float(heights.min()), float(heights.max())
    if low > 0 and log10(high) - log10(low) > decades:
        return Scale(max(low, high / FARTHEST), high, True)
    if high - low <= max(NEAR * max(abs(low), abs(high)), TINY):
        room = abs(low) / 10
        return Scale(low - room, high + room, False) if room > TINY else Scale(0.0, 1.0, False)
    return Scale(0.0 if 0 < low < 0.3 * high else low, high, False)


def height_format(heights: NDArray[np.float64]) -> str:
    """Return the format of heights in tooltips: the closer they are, the more digits."""
    low, high = float(heights.min()), float(heights.max())
    most = max(abs(low), abs(high))
    if low == high:
        return f"%.{DIGITS}g"
    common = floor(-log10(high / most - low / most))  # leading digits that all share
    return f"%.{min(DIGITS + max(common, 0), EXACT)}g"


def count_scale(most: float, low: float = LEAST) -> Scale:
    """Return a logarithmic scale from slightly below 1 to slightly above `most`."""
    return Scale(low, max(most, 2) * 1.15, True)


def leave_room(plot: figure, scale: Scale, pixels: float) -> Scale:
    """Fit the y axis to a scale, extend the frame above it by `pixels`, and return that room."""
    share = pixels / ((plot.height or HEIGHT) - FRAME)
    whole = scale.grown(0, share / (1 - share))
    plot.y_range = whole.range()
    plot.yaxis.bounds = plot.ygrid.bounds = (scale.low, scale.high)
    return Scale(scale.high, whole.high, scale.log)


def label_counts(axis: Axis, scale: Scale) -> None:
    """Label an axis with plain numbers: 1, 10, 1,000; on short scales 1, 2, 5."""
    axis.formatter = NumeralTickFormatter(format="0,0")
    axis.ticker = _count_ticker(scale)


def no_overlap() -> NoOverlap:
    """Return the policy that drops labels too close to others, with a margin: the last label is shifted inwards."""
    return NoOverlap(min_distance=18)


def label_rounds(axis: Axis) -> None:
    """Label an axis with whole numbers, as many as fit."""
    axis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)
    axis.formatter = NumeralTickFormatter(format="0,0")
    axis.major_label_policy = no_overlap()


def label_heights(axis: Axis, scale: Scale) -> None:
    """Label an axis with plain numbers where these are short; ticks are round, so they have no needless digits."""
    axis.major_label_policy = no_overlap()
    if scale.high >= 1e7:
        axis.formatter = LogTickFormatter() if scale.log else BasicTickFormatter()
    elif scale.high >= 1e4 and (scale.low >= 0.01 or not scale.log):
        decimals = MOST_DIGITS - ceil(log10(scale.high))
        axis.formatter = NumeralTickFormatter(format=f"0,0.[{decimals * '0'}]")
    else:
        axis.formatter = PrintfTickFormatter(format=f"%.{MOST_DIGITS}g")
    if scale.log:
        axis.ticker = LogTicker(num_minor_ticks=0)


def _count_ticker(scale: Scale) -> LogTicker | FixedTicker:
    """Return ticks at powers of ten, or a few more on a short scale."""
    low, high = log10(scale.low), log10(scale.high)
    if high - low >= LINEAR_DECADES:
        return LogTicker(num_minor_ticks=0)
    steps = range(1, 10) if scale.high < 10 else (1, 2, 5)
    ticks = [step * 10.0**power for power in range(floor(low), ceil(high) + 1) for step in steps]
    return FixedTicker(ticks=[tick for tick in ticks if 1 <= tick <= scale.high])
