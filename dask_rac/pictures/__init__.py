"""Pictures of a clustering, made with Bokeh from a few plain numbers."""

try:
    import bokeh  # noqa: F401
except ImportError as error:
    raise ImportError("pictures are made with Bokeh, which is not installed: pip install 'dask-rac[plot]'") from error

from dask_rac.pictures.alpha_beta import alpha_beta_picture
from dask_rac.pictures.dendrogram import dendrogram_picture
from dask_rac.pictures.heights import CutMark, heights_picture
from dask_rac.pictures.phases import phases_picture
from dask_rac.pictures.picture import Picture
from dask_rac.pictures.rounds import rounds_picture
from dask_rac.pictures.sizes import sizes_columns, sizes_picture

__all__ = [
    "CutMark",
    "Picture",
    "alpha_beta_picture",
    "dendrogram_picture",
    "heights_picture",
    "phases_picture",
    "rounds_picture",
    "sizes_columns",
    "sizes_picture",
]
