"""Settings in Dask's configuration, under `rac`: how a run is carried out, never what it computes."""

from pathlib import Path
from typing import Any

import dask.config
import dask.utils
import yaml

DEFAULTS = Path(__file__).parent.with_name("dask-rac.yaml")

dask.config.update_defaults(yaml.safe_load(DEFAULTS.read_text()))


def setting(name: str, given: Any = None) -> Any:
    """Return the given value, else that of Dask's configuration: `DASK_RAC__MEMORY`, `rac: {memory: …}` in a file."""
    return dask.config.get(f"rac.{name}") if given is None else given


def setting_seconds(name: str) -> float:
    """Return a time of Dask's configuration, such as `1 minute`, in seconds."""
    return float(dask.utils.parse_timedelta(setting(name)))
