"""The engines, and which of them runs."""

from dask_rac.base.settings import Settings
from dask_rac.engines.contract import Engine
from dask_rac.engines.forest.engine import ForestEngine
from dask_rac.engines.rows.engine import RowsEngine

ENGINES: tuple[Engine, ...] = (RowsEngine(), ForestEngine())


def engine_for(settings: Settings, name: str = "") -> Engine:
    """The engine of this name, or the one for a linkage."""
    return next(engine for engine in ENGINES if (engine.name == name if name else settings.linkage in engine.linkages))
