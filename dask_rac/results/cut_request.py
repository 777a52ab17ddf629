"""What users may ask of a flat cut, checked before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dask_rac.base.checks import check_whole, check_word, checked_finite
from dask_rac.base.errors import InputError
from dask_rac.base.settings import Settings
from dask_rac.base.text import quoted
from dask_rac.tree.condensed import Selection
from dask_rac.tree.cuts import CutRule
from dask_rac.tree.far import far_of

METHODS = ("eom", "leaf")
MIN_CLUSTER_SIZE = 5
"""The `min_cluster_size` of scikit-learn and hdbscan, if none is given."""


@dataclass(frozen=True)
class CutRequest:
    """The arguments of `Clustering.cut` that say which clusters are wanted; None where nothing was given."""

    height: ArrayLike | None = None
    n_clusters: ArrayLike | None = None
    min_size: int | None = None
    max_size: int | None = None
    method: str | None = None
    min_cluster_size: ArrayLike | None = None
    cluster_selection_epsilon: float | None = None
    allow_single_cluster: bool | None = None
    max_cluster_size: int | None = None

    def checked(self, settings: Settings | None = None) -> tuple[CutRule, NDArray[Any]]:
        """Return the rule of the cut of a hierarchy, and the values, one or a list, at which it is made."""
        if self.method is not None:
            return self._by_stability(settings)
        self._refuse(
            ("min_cluster_size", "cluster_selection_epsilon", "allow_single_cluster", "max_cluster_size"),
            "is for method='eom' or method='leaf'; cuts at a height or into a number of clusters take min_size= and "
            "max_size=",
        )
        if (self.height is None) == (self.n_clusters is None):
            raise InputError("cut() takes either height= or n_clusters=, or instead of them method=")
        if self.min_size is not None:
            check_whole("min_size", self.min_size, 1)
        if self.max_size is not None:
            check_whole("max_size", self.max_size, 1)
            if self.min_size is not None and self.min_size > self.max_size:
                raise InputError(f"min_size={self.min_size} is more than max_size={self.max_size}: no size is both")
        sizes = 1 if self.min_size is None else int(self.min_size), self.max_size
        if self.height is None:
            return CutRule("n_clusters", *sizes), numbers("n_clusters", self.n_clusters, "iu", "whole number")
        return CutRule("height", *sizes), numbers("height", self.height, "iuf", "number").astype(np.float64)

    def _by_stability(self, settings: Settings | None) -> tuple[CutRule, NDArray[Any]]:
        """Return the rule of clusters that are chosen by their stability, and their least sizes."""
        check_word("method", self.method, METHODS)
        self._refuse(
            ("height", "n_clusters", "min_size", "max_size"),
            f"and method={self.method!r} exclude each other: it finds heights by itself, and takes min_cluster_size= "
            "and, for 'eom', max_cluster_size=",
        )
        least = MIN_CLUSTER_SIZE if self.min_cluster_size is None else self.min_cluster_size
        values = numbers("min_cluster_size", least, "iu", "whole number")
        for value in np.atleast_1d(values).tolist():
            check_whole("min_cluster_size", value, 2)
        if self.max_cluster_size is not None:
            check_whole("max_cluster_size", self.max_cluster_size, 2)
            if self.method == "leaf":
                raise InputError(f"max_cluster_size={self.max_cluster_size} is for method='eom': leave it out")
        single = False if self.allow_single_cluster is None else self.allow_single_cluster
        if not isinstance(single, bool | np.bool):
            raise InputError(f"allow_single_cluster={quoted(single)} is neither True nor False")
        given = 0.0 if self.cluster_selection_epsilon is None else self.cluster_selection_epsilon
        epsilon = checked_finite("cluster_selection_epsilon", given, "give a height")
        if epsilon < 0:
            raise InputError(f"cluster_selection_epsilon={quoted(given)} is below 0: give a height, or 0 for none")
        chosen = Selection(str(self.method), epsilon, bool(single), self.max_cluster_size)
        if settings is not None:
            chosen = replace(chosen, logarithmic=settings.linkage != "single", far=far_of(settings))
        return CutRule("min_cluster_size", selection=chosen), values

    def _refuse(self, names: tuple[str, ...], why: str) -> None:
        """Raise if one of some arguments is given."""
        for name in names:
            if getattr(self, name) is not None:
                raise InputError(f"{name}={quoted(getattr(self, name))} {why}")


def numbers(name: str, value: object, kinds: str, what: str) -> NDArray[Any]:
    """Return a number or a list of numbers as an array."""
    try:
        found = np.asarray(value)
    except ValueError:
        found = np.empty((0, 0))
    if found.ndim == 1 and not len(found):
        return np.empty(0, np.int64)
    if found.ndim > 1 or found.dtype.kind not in kinds or (found.dtype.kind == "f" and np.isnan(found).any()):
        raise InputError(f"{name}={value!r} is neither a {what} nor a list of them")
    return found
