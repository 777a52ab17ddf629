"""Pictures of a clustering, drawn by Bokeh from a few plain numbers."""

try:
    import bokeh  # noqa: F401
except ImportError as error:
    raise ImportError("pictures need Bokeh, which is not installed: pip install 'dask-rac[plot]'") from error

from dask_rac.show.pictures.alpha_beta import alpha_beta_picture
from dask_rac.show.pictures.dendrogram import dendrogram_picture
from dask_rac.show.pictures.heights import CutMark, heights_picture
from dask_rac.show.pictures.phases import phases_picture
from dask_rac.show.pictures.picture import Picture
from dask_rac.show.pictures.rounds import rounds_picture
from dask_rac.show.pictures.scores import scores_picture
from dask_rac.show.pictures.sizes import sizes_columns, sizes_picture

__all__ = [
    "CutMark",
    "Picture",
    "alpha_beta_picture",
    "dendrogram_picture",
    "heights_picture",
    "phases_picture",
    "rounds_picture",
    "scores_picture",
    "sizes_columns",
    "sizes_picture",
]
