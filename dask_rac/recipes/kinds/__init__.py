"""The kinds of steps, a module each. Their keys are in `schema`, which the command line reads without numpy."""

from __future__ import annotations

from dask_rac.recipes.kinds.cluster import CLUSTER
from dask_rac.recipes.kinds.cut import CUT
from dask_rac.recipes.kinds.export import EXPORT
from dask_rac.recipes.kinds.generate import GENERATE
from dask_rac.recipes.kinds.graph import GRAPH
from dask_rac.recipes.kinds.ingest import INGEST
from dask_rac.recipes.kinds.report import REPORT
from dask_rac.recipes.kinds.verify import VERIFY

KINDS = {kind.name: kind for kind in (GENERATE, INGEST, GRAPH, CLUSTER, VERIFY, CUT, EXPORT, REPORT)}
"""Every kind of step by its name, as in `schema.STEPS`."""
