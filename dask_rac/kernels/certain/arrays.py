"""The bundles of arrays that a pass over all pairs reads."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Order(NamedTuple):
    """Vectors in the order of a pass, cluster after cluster; a place is a position in this order."""

    row: NDArray[np.int64]  # the row of the vector at each place
    begin: NDArray[np.int64]  # where the places of each cluster begin, and where the last ones end
    cluster: NDArray[np.int64]  # of each place
    share: NDArray[np.float64]  # what the vector at each place counts for


class Part(NamedTuple):
    """The part of a triangle that a kernel adds to: pairs of some places with the places of some clusters."""

    first: int  # the places
    last: int
    column: int  # the places they are compared with; pairs of a cluster with itself or an earlier one are left out
    end: int
    base: int  # where the row of slot 0 would begin in what is written to: minus the entries before its first row
    open: NDArray[np.float64]  # by first place of a piece: its sum with a cluster whose columns go on in the next tile
