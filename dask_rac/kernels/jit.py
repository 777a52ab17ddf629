"""How all kernels are compiled: without the GIL, cached on disk, with IEEE arithmetic as written."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import numba
from llvmlite import ir
from numba.core import cgutils, event, types
from numba.extending import intrinsic

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on its first call; later processes load it from the cache."""
    try:
        compiled: Callable[P, R] = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:  # no writable folder for the cache
        compiled = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled


class _Compilations(event.Listener):  # type: ignore[misc]
    """Tells of the first compilation, and of no kernel that is loaded from the cache."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell, self._told = tell, False

    def on_start(self, event: Any) -> None:
        if not self._told:
            self._told = True
            self._tell()

    def on_end(self, event: Any) -> None:
        pass


@contextmanager
def compiling(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` once, before the first kernel is compiled during the block, if any is."""
    with event.install_listener("numba:compile", _Compilations(tell)):
        yield


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` into each kernel that calls it."""
    compiled: Callable[P, R] = numba.njit(nogil=True, inline="always", error_model="numpy")(function)
    return compiled


def _prefetcher(write: bool) -> Any:
    """Return a function of an array and an index that emits LLVM's prefetch of that item."""

    def prefetch(_context: Any, array: Any, _index: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = signature.args[0]
            fields = context.make_array(kind)(context, builder, arguments[0])
            item = cgutils.get_item_pointer(context, builder, kind, fields, [arguments[1]], wraparound=False)
            address = builder.bitcast(item, ir.IntType(8).as_pointer())
            flag = ir.IntType(32)
            shape = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
            function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
            builder.call(function, [address, flag(int(write)), flag(3), flag(1)])
            return context.get_dummy_value()

        return types.void(array, types.intp), emit

    return intrinsic(prefetch)


def _no_prefetch(_array: Any, _index: Any) -> None:
    """Replace a prefetch when the JIT is off."""


# Fetch an item before it is needed: the rows of a pair lie far apart, and half the time of a fold is memory latency.
prefetch_read = _no_prefetch if numba.config.DISABLE_JIT else _prefetcher(False)
prefetch_write = _no_prefetch if numba.config.DISABLE_JIT else _prefetcher(True)
