"""Tiles that no matrix product can compute: products of sparse vectors, and sums of absolute differences."""

from dask_rac.kernels.jit import kernel


@kernel
def spread_rows(own, rows, postings, cursor, tile) -> None:
    """Write the products of sparse rows with all vectors of a span, using the list of vectors for each term.

    `own` holds starts, terms and values by row, `postings` starts, places and values by term. `cursor` is the first
    posting of each term that is needed. If both sides are the same it advances with the rows, so that each pair is met
    once; otherwise it stays.
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
    """Write the negated sums of absolute differences between dense rows and the columns of a matrix."""
    for row in range(own.shape[0]):
        line = tile[row]
        line[:] = 0
        for t in range(own.shape[1]):
            x, column = own[row, t], others[t]
            for c in range(len(line)):
                line[c] -= abs(x - column[c])
