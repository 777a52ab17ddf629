"""Graphs and vectors of any size, to try things on."""

from dask_rac.datasets.bags import documents
from dask_rac.datasets.descriptors import sift
from dask_rac.datasets.lattices import lattice

__all__ = ["documents", "lattice", "sift"]
