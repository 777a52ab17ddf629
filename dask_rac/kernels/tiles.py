"""Tiles of products where no matrix product gives them: sparse vectors, and sums of differences."""

from dask_rac.kernels.jit import kernel


@kernel
def spread_rows(own, rows, postings, cursor, tile) -> None:
    """Products of sparse rows and all vectors of a span, by the vectors in which each term occurs.

    `own` and `postings` are starts, places and values, the latter by term. `cursor` is where the postings of each term
    begin to matter. It moves on with the rows if both sides are one, so that each pair is met once; else it stays.
    """
    start, term, value = own
    begin, place, weight = postings
    first, last, same = rows
    for row in range(first, last):
        line = tile[row - first]
        line[:] = 0
        for e in range(start[row], start[row + 1]):
            t, x = term[e], value[e]
            p, end = cursor[t], begin[t + 1]
            if same:
                while p < end and place[p] <= row:
                    p += 1
                cursor[t] = p
            for q in range(p, end):
                line[place[q]] += x * weight[q]


@kernel
def differ_rows(own, others, tile) -> None:
    """Minus the sums of differences of dense rows and the columns of a matrix, a vector each."""
    for row in range(own.shape[0]):
        line = tile[row]
        line[:] = 0
        for t in range(own.shape[1]):
            x, column = own[row, t], others[t]
            for c in range(len(line)):
                line[c] -= abs(x - column[c])
