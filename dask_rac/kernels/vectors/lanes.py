"""The weights of one vector with LANES others at once, in vector registers.

The compiler vectorises only innermost loops, and over dimensions that would change the order of the additions, and with
it the last bits. So registers run over the other vectors, whose values lie side by side. Each pair has the four sums of
`pairs.weigh`, added in the same order, so that both give the same bits; nothing is fused.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

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


class Arithmetic(NamedTuple):
    """How numbers are combined: by numpy, or by emitting instructions."""

    subtract: Callable[[Any, Any], Any]
    multiply: Callable[[Any, Any], Any]
    absolute: Callable[[Any], Any]
    root: Callable[[Any], Any]
    negative: Callable[[Any], Any]
    half: Any


PLAIN = Arithmetic(np.subtract, np.multiply, np.abs, np.sqrt, np.negative, 0.5)


def _emitted(builder: Any) -> Arithmetic:
    """Return arithmetic that emits instructions on registers."""

    def call(name: str) -> Callable[[Any], Any]:
        shape = ir.FunctionType(VECTOR, [VECTOR])
        function = cgutils.get_or_insert_function(builder.module, shape, f"llvm.{name}.v{WIDTH}f64")
        return lambda x: builder.call(function, [x])

    half = ir.Constant(VECTOR, [0.5] * WIDTH)
    return Arithmetic(builder.fsub, builder.fmul, call("fabs"), call("sqrt"), builder.fneg, half)


class Weight(NamedTuple):
    """What each dimension adds to the sum, and what becomes of the sum."""

    term: Callable[[Arithmetic, Any, Any], Any]
    end: Callable[[Arithmetic, Any], Any]


def _square(on: Arithmetic, x: Any, y: Any) -> Any:
    """Square the difference."""
    difference = on.subtract(x, y)
    return on.multiply(difference, difference)


def _as_it_is(_on: Arithmetic, total: Any) -> Any:
    """Leave the sum as it is."""
    return total


def _weigher(weight: Weight) -> Any:
    """Return a function that writes the weights of the vector `own[row]` with the LANES others of `panels[panel]`.

    A panel holds dimension after dimension, LANES values each. The weights go to the place of the panel in `line`.
    """
    return _plain(weight) if numba.config.DISABLE_JIT else intrinsic(_compiled(weight))


def _plain(weight: Weight) -> Any:
    """Return the function for when the JIT is off."""

    def weigh(own: Any, row: int, panels: Any, panel: int, line: Any) -> None:
        sums = np.zeros((SUMS, LANES))
        others = panels[panel].reshape(-1, LANES)
        whole = len(others) - len(others) % SUMS
        for dimension, x in enumerate(own[row]):
            sums[dimension % SUMS if dimension < whole else 0] += weight.term(PLAIN, x, others[dimension])
        line[panel * LANES : (panel + 1) * LANES] = weight.end(PLAIN, (sums[0] + sums[1]) + (sums[2] + sums[3]))

    return weigh


def _compiled(weight: Weight) -> Any:
    """Return what numba needs to compile the function."""

    def weigh(_context: Any, own: Any, _row: Any, panels: Any, _panel: Any, line: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vectors, others, out = (
                context.make_array(signature.args[place])(context, builder, arguments[place]) for place in (0, 2, 4)
            )
            dimensions = builder.extract_value(vectors.shape, 1)
            lanes = builder.mul(arguments[3], INDEX(LANES))
            places = builder.mul(arguments[1], dimensions), builder.mul(lanes, dimensions), lanes
            arrays = zip((vectors, others, out), places, strict=True)
            _emit_weights(builder, weight, [builder.gep(array.data, [at]) for array, at in arrays], dimensions)
            return context.get_dummy_value()

        return types.void(own, types.intp, panels, types.intp, line), emit

    return weigh


def _emit_weights(builder: Any, weight: Weight, data: list[Any], dimensions: Any) -> None:
    """Emit the loop over whole fours of dimensions, the loop over the rest, and the stores."""
    vector, panel, out = data
    on, groups = _emitted(builder), range(LANES // WIDTH)
    sums = [[cgutils.alloca_once(builder, VECTOR) for _ in range(SUMS)] for _ in groups]
    for place in (place for group in sums for place in group):
        builder.store(ir.Constant(VECTOR, [0.0] * WIDTH), place)

    def step(dimension: Any, number: int) -> None:
        x = _repeated(builder, builder.load(builder.gep(vector, [dimension])))
        for group in groups:
            at = builder.add(builder.mul(dimension, INDEX(LANES)), INDEX(group * WIDTH))
            y = builder.load(_register_at(builder, panel, at), align=8)
            place = sums[group][number]
            builder.store(builder.fadd(builder.load(place), weight.term(on, x, y)), place)

    whole = builder.and_(dimensions, INDEX(-SUMS))
    with cgutils.for_range_slice(builder, INDEX(0), whole, INDEX(SUMS)) as (dimension, _):
        for number in range(SUMS):
            step(builder.add(dimension, INDEX(number)), number)
    with cgutils.for_range_slice(builder, whole, dimensions, INDEX(1)) as (dimension, _):
        step(dimension, 0)
    for group in groups:
        a, b, c, d = (builder.load(place) for place in sums[group])
        total = weight.end(on, builder.fadd(builder.fadd(a, b), builder.fadd(c, d)))
        builder.store(total, _register_at(builder, out, INDEX(group * WIDTH)), align=8)


def _repeated(builder: Any, value: Any) -> Any:
    """Emit a register that holds the value in all places."""
    number = ir.IntType(32)
    undefined = ir.Constant(VECTOR, ir.Undefined)
    places = ir.Constant(ir.VectorType(number, WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(builder.insert_element(undefined, value, number(0)), undefined, places)


def _register_at(builder: Any, data: Any, at: Any) -> Any:
    """Emit the address of as many values as a register holds."""
    return builder.bitcast(builder.gep(data, [at]), VECTOR.as_pointer())


euclidean_lanes = _weigher(Weight(_square, lambda on, total: on.root(total)))
squared_lanes = _weigher(Weight(_square, _as_it_is))
cosine_lanes = _weigher(Weight(_square, lambda on, total: on.multiply(on.half, total)))
inner_lanes = _weigher(Weight(lambda on, x, y: on.multiply(x, y), lambda on, total: on.negative(total)))
manhattan_lanes = _weigher(Weight(lambda on, x, y: on.absolute(on.subtract(x, y)), _as_it_is))
