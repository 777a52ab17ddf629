"""The sums over all dimensions of one vector with LANES others at once, in vector registers.

The compiler vectorises only innermost loops, and over dimensions that would change the order of the additions, and with
it the last bits. So registers run over the other vectors, whose values lie side by side. Each pair has the four sums of
`pairs.weigh`, added in the same order, so that both give the same bits; nothing is fused.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 16  # others at a time: two registers of AVX-512 for each of the four sums
SUMS = 4
WIDTH = 8  # values per register; where registers are narrower, the compiler uses several

VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
INDEX = ir.IntType(64)

Term = Callable[[Any, Any, Any], Any]
"""Emits what one dimension adds to the sum, from a builder and both values."""


def _square(builder: Any, x: Any, y: Any) -> Any:
    """Emit the squared difference."""
    difference = builder.fsub(x, y)
    return builder.fmul(difference, difference)


def _distance(builder: Any, x: Any, y: Any) -> Any:
    """Emit the absolute difference."""
    shape = ir.FunctionType(VECTOR, [VECTOR])
    absolute = cgutils.get_or_insert_function(builder.module, shape, f"llvm.fabs.v{WIDTH}f64")
    return builder.call(absolute, [builder.fsub(x, y)])


def _product(builder: Any, x: Any, y: Any) -> Any:
    """Emit the product."""
    return builder.fmul(x, y)


def _adder(term: Term) -> Any:
    """Return a function of a vector, a panel of LANES others, and room for their sums, that emits the loop.

    The panel holds dimension after dimension, LANES values each.
    """

    def add(_context: Any, own: Any, panel: Any, total: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            given = zip(signature.args, arguments, strict=True)
            arrays = [context.make_array(kind)(context, builder, argument) for kind, argument in given]
            dimensions = builder.extract_value(arrays[0].shape, 0)
            _emit_loops(builder, term, [array.data for array in arrays], dimensions)
            return context.get_dummy_value()

        return types.void(own, panel, total), emit

    return intrinsic(add)


def _emit_loops(builder: Any, term: Term, data: Any, dimensions: Any) -> None:
    """Emit the loop over whole fours of dimensions, the loop over the rest, and the stores."""
    own, panel, total = data
    groups = range(LANES // WIDTH)
    sums = [[cgutils.alloca_once(builder, VECTOR) for _ in range(SUMS)] for _ in groups]
    for kept in (kept for group in sums for kept in group):
        builder.store(ir.Constant(VECTOR, [0.0] * WIDTH), kept)

    def step(dimension: Any, number: int) -> None:
        x = _repeated(builder, builder.load(builder.gep(own, [dimension])))
        for group in groups:
            at = builder.add(builder.mul(dimension, INDEX(LANES)), INDEX(group * WIDTH))
            y = builder.load(_vector_at(builder, panel, at), align=8)
            kept = sums[group][number]
            builder.store(builder.fadd(builder.load(kept), term(builder, x, y)), kept)

    whole = builder.and_(dimensions, INDEX(-SUMS))
    with cgutils.for_range_slice(builder, INDEX(0), whole, INDEX(SUMS)) as (dimension, _):
        for number in range(SUMS):
            step(builder.add(dimension, INDEX(number)), number)
    with cgutils.for_range_slice(builder, whole, dimensions, INDEX(1)) as (dimension, _):
        step(dimension, 0)
    for group in groups:
        a, b, c, d = (builder.load(kept) for kept in sums[group])
        result = builder.fadd(builder.fadd(a, b), builder.fadd(c, d))
        builder.store(result, _vector_at(builder, total, INDEX(group * WIDTH)), align=8)


def _repeated(builder: Any, value: Any) -> Any:
    """Emit a register that holds the value in all places."""
    number = ir.IntType(32)
    undefined = ir.Constant(VECTOR, ir.Undefined)
    places = ir.Constant(ir.VectorType(number, WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(builder.insert_element(undefined, value, number(0)), undefined, places)


def _vector_at(builder: Any, data: Any, at: Any) -> Any:
    """Emit the address of WIDTH values."""
    return builder.bitcast(builder.gep(data, [at]), VECTOR.as_pointer())


def _plain_adder(term: Callable[[Any, Any], Any]) -> Any:
    """Return the same function for when the JIT is off."""

    def add(own: Any, panel: Any, total: Any) -> None:
        sums = np.zeros((SUMS, LANES))
        whole = len(own) - len(own) % SUMS
        for dimension, x in enumerate(own):
            at = dimension * LANES
            sums[dimension % SUMS if dimension < whole else 0] += term(x, panel[at : at + LANES])
        total[:LANES] = (sums[0] + sums[1]) + (sums[2] + sums[3])

    return add


PLAIN = numba.config.DISABLE_JIT
add_squares = _plain_adder(lambda x, y: (x - y) * (x - y)) if PLAIN else _adder(_square)
add_distances = _plain_adder(lambda x, y: abs(x - y)) if PLAIN else _adder(_distance)
add_products = _plain_adder(lambda x, y: x * y) if PLAIN else _adder(_product)
