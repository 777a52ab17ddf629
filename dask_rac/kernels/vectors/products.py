"""Products of a few dense vectors with many others at once, in vector registers.

The order of additions is that of the dimensions, one fused multiplication and addition each, so that the bits of a
product depend on its two vectors only: those of the linear algebra libraries depend on the shapes of matrices as well.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dask_rac.kernels.vectors.lanes import INDEX

TALL = 4  # rows at a time: each register of the others is used as often as it is loaded
WIDE = 128  # bytes of the others at a time: two registers of AVX-512 for each row


def _compiled(_context: Any, own: Any, _row: Any, panels: Any, _panel: Any, tile: Any) -> Any:
    """Return what numba needs to compile `multiply_lanes`."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors, others, out = (
            context.make_array(signature.args[place])(context, builder, arguments[place]) for place in (0, 2, 4)
        )
        dimensions, width = builder.extract_value(vectors.shape, 1), builder.extract_value(out.shape, 1)
        register = _Register(builder, own.dtype.bitwidth)
        lanes = builder.mul(arguments[3], INDEX(register.lanes))
        rows = [
            builder.gep(vectors.data, [builder.mul(builder.add(arguments[1], INDEX(r)), dimensions)])
            for r in range(TALL)
        ]
        panel = builder.gep(others.data, [builder.mul(lanes, dimensions)])
        sums = _emit_sums(register, rows, panel, dimensions)
        for r in range(TALL):
            line = builder.add(builder.mul(builder.add(arguments[1], INDEX(r)), width), lanes)
            for group, place in enumerate(sums[r]):
                at = register.address(out.data, builder.add(line, INDEX(group * register.width)))
                builder.store(builder.load(place), at, align=register.bytes)
        return context.get_dummy_value()

    return types.void(own, types.intp, panels, types.intp, tile), emit


class _Register:
    """What is emitted for registers of float32 or float64."""

    def __init__(self, builder: Any, bits: int) -> None:
        self.builder, self.bytes = builder, bits // 8
        self.lanes = WIDE // self.bytes
        self.width = self.lanes // 2
        self.kind = ir.VectorType(ir.FloatType() if bits == 32 else ir.DoubleType(), self.width)
        shape = ir.FunctionType(self.kind, [self.kind] * 3)
        self.fused = cgutils.get_or_insert_function(builder.module, shape, f"llvm.fma.v{self.width}f{bits}")

    def zero(self) -> Any:
        """Return a register of zeros."""
        return ir.Constant(self.kind, [0.0] * self.width)

    def address(self, data: Any, at: Any) -> Any:
        """Emit the address of as many values as a register holds."""
        return self.builder.bitcast(self.builder.gep(data, [at]), self.kind.as_pointer())

    def repeated(self, value: Any) -> Any:
        """Emit a register that holds the value in all places."""
        number, undefined = ir.IntType(32), ir.Constant(self.kind, ir.Undefined)
        places = ir.Constant(ir.VectorType(number, self.width), [0] * self.width)
        one = self.builder.insert_element(undefined, value, number(0))
        return self.builder.shuffle_vector(one, undefined, places)


def _emit_sums(register: _Register, rows: list[Any], panel: Any, dimensions: Any) -> list[list[Any]]:
    """Emit the loop over dimensions; return the places of the sums, by row and register."""
    builder, groups = register.builder, range(2)
    sums = [[cgutils.alloca_once(builder, register.kind) for _ in groups] for _ in rows]
    for place in (place for row in sums for place in row):
        builder.store(register.zero(), place)
    with cgutils.for_range_slice(builder, INDEX(0), dimensions, INDEX(1)) as (dimension, _):
        first = builder.mul(dimension, INDEX(register.lanes))
        at = [register.address(panel, builder.add(first, INDEX(group * register.width))) for group in groups]
        others = [builder.load(address, align=register.bytes) for address in at]
        for row, places in zip(rows, sums, strict=True):
            x = register.repeated(builder.load(builder.gep(row, [dimension])))
            for other, place in zip(others, places, strict=True):
                builder.store(builder.call(register.fused, [x, other, builder.load(place)]), place)
    return sums


def _plain(own: Any, row: int, panels: Any, panel: int, tile: Any) -> None:
    """Do the same when the JIT is off, with products rounded before they are added."""
    lanes = WIDE // own.itemsize
    others = panels[panel].reshape(-1, lanes)
    total = np.zeros((TALL, lanes), own.dtype)
    for dimension in range(own.shape[1]):
        total += own[row : row + TALL, dimension, None] * others[dimension]
    tile[row : row + TALL, panel * lanes : (panel + 1) * lanes] = total


multiply_lanes = _plain if numba.config.DISABLE_JIT else intrinsic(_compiled)
"""Write the products of the vectors `own[row : row + TALL]` with the others of `panels[panel]` to their place in
`tile`. A panel holds dimension after dimension, WIDE bytes each. All three arrays are float32, or all float64."""
