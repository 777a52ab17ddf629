"""The engines, and which of them runs."""

from dask_rac.base.settings import Settings
from dask_rac.engines.certain.engine import CertainEngine
from dask_rac.engines.contract import Engine
from dask_rac.engines.forest.engine import ForestEngine
from dask_rac.engines.matrix.engine import MatrixEngine
from dask_rac.engines.points.engine import PointsEngine
from dask_rac.engines.rows.engine import RowsEngine

ENGINES: tuple[Engine, ...] = (RowsEngine(), ForestEngine(), MatrixEngine(), PointsEngine(), CertainEngine())


def engine_for(settings: Settings, name: str = "") -> Engine:
    """The engine of this name, or the one for a linkage of edges or of all pairs."""
    if name:
        return next(engine for engine in ENGINES if engine.name == name)
    all_pairs = bool(settings.metric)
    return next(e for e in ENGINES if e.all_pairs == all_pairs and settings.linkage in e.linkages)
