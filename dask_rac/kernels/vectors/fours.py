"""The weight of two dense float64 vectors with the four sums of `pairs.weigh` in one register: the same bits."""

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dask_rac.kernels.jit import inlined
from dask_rac.kernels.vectors.lanes import INDEX, SUMS
from dask_rac.kernels.vectors.pairs import INNER, dense_inner, dense_square, of_square

DOUBLE = ir.DoubleType()
FOUR = ir.VectorType(DOUBLE, SUMS)

Term = Callable[[Any, Any, Any], Any]
"""Emits what a dimension, or four of them, add to the sums."""


def _square(builder: Any, x: Any, y: Any) -> Any:
    """Emit the squared difference."""
    difference = builder.fsub(x, y)
    return builder.fmul(difference, difference)


def _product(builder: Any, x: Any, y: Any) -> Any:
    """Emit the product."""
    return builder.fmul(x, y)


def _summer(term: Term) -> Any:
    """Return a function of vectors, a row, other vectors and a row that adds up the terms of two rows."""

    def add_up(_context: Any, own: Any, _row: Any, others: Any, _other: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            arrays = [context.make_array(signature.args[p])(context, builder, arguments[p]) for p in (0, 2)]
            dimensions = builder.extract_value(arrays[0].shape, 1)
            rows = [
                builder.gep(array.data, [builder.mul(arguments[place], dimensions)])
                for array, place in zip(arrays, (1, 3), strict=True)
            ]
            return _emit_sum(builder, term, rows, dimensions)

        return types.float64(own, types.intp, others, types.intp), emit

    return intrinsic(add_up)


def _emit_sum(builder: Any, term: Term, rows: list[Any], dimensions: Any) -> Any:
    """Emit the loop over whole fours of dimensions and the loop over the rest; return the sum."""
    sums, rest = cgutils.alloca_once(builder, FOUR), cgutils.alloca_once(builder, DOUBLE)
    builder.store(ir.Constant(FOUR, [0.0] * SUMS), sums)
    whole = builder.and_(dimensions, INDEX(-SUMS))
    with cgutils.for_range_slice(builder, INDEX(0), whole, INDEX(SUMS)) as (dimension, _):
        at = [builder.bitcast(builder.gep(row, [dimension]), FOUR.as_pointer()) for row in rows]
        x, y = (builder.load(address, align=8) for address in at)
        builder.store(builder.fadd(builder.load(sums), term(builder, x, y)), sums)
    a, b, c, d = (builder.extract_element(builder.load(sums), ir.IntType(32)(lane)) for lane in range(SUMS))
    builder.store(a, rest)
    with cgutils.for_range_slice(builder, whole, dimensions, INDEX(1)) as (dimension, _):
        x, y = (builder.load(builder.gep(row, [dimension])) for row in rows)
        builder.store(builder.fadd(builder.load(rest), term(builder, x, y)), rest)
    return builder.fadd(builder.fadd(builder.load(rest), b), builder.fadd(c, d))


if numba.config.DISABLE_JIT:

    def sum_squares(own: Any, row: int, others: Any, other: int) -> Any:
        """Return the squared distance of two rows."""
        return dense_square(own[row], others[other])

    def sum_products(own: Any, row: int, others: Any, other: int) -> Any:
        """Return the product of two rows."""
        return dense_inner(own[row], others[other])

else:
    sum_squares, sum_products = _summer(_square), _summer(_product)


@inlined
def weigh_rows(own, row, others, other, metric):
    """Return the weight of two rows, by any metric but manhattan; for cosines they have length 1."""
    if metric == INNER:
        return -sum_products(own, row, others, other)
    return of_square(sum_squares(own, row, others, other), metric)
