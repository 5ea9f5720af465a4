"""Partially filled vectors, for the ends of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..jit.element import ADDRESS, HALF, INT32, intrinsic
from .lanes import Lanes
from .vectors import WIDTH, VectorType

_BITS = {32: INT32, 16: HALF}


@intrinsic
def first_elements(typing: Any, address: Any, count: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Loads the bits of ``count`` contiguous input elements, then zeros; memory past the elements is not touched."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        integer, vector = ir.IntType(32), ir.VectorType(ir.IntType(zero.bitwidth), WIDTH)
        pointer, flags = vector.as_pointer(), ir.VectorType(ir.IntType(1), WIDTH)
        name = f"llvm.masked.load.v{WIDTH}i{zero.bitwidth}.p0v{WIDTH}i{zero.bitwidth}"
        loading = ir.FunctionType(vector, [pointer, integer, flags, vector])
        function = builder.module.globals.get(name) or ir.Function(builder.module, loading, name)
        mask = _before(builder, args[1])
        given = [builder.inttoptr(args[0], pointer), integer(zero.bitwidth // 8), mask, ir.Constant(vector, None)]
        return builder.call(function, given)

    return VectorType(_BITS[zero.bitwidth])(ADDRESS, ADDRESS, zero), code


@intrinsic
def first_elements_apart(typing: Any, address: Any, step: Any, count: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Like ``first_elements``, with a stride of ``step`` elements; ``count`` must be at least 1."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, step, count, _ = args
        integer, bits = ir.IntType(32), ir.IntType(zero.bitwidth)
        vector, pointer = ir.VectorType(bits, WIDTH), builder.inttoptr(address, bits.as_pointer())
        last = builder.sub(count, ir.Constant(count.type, 1))
        found = ir.Constant(vector, ir.Undefined)
        for i in range(WIDTH):
            place = ir.Constant(count.type, i)
            place = builder.select(builder.icmp_signed("<", place, last), place, last)
            element = builder.load(builder.gep(pointer, [builder.mul(place, step)]))
            found = builder.insert_element(found, element, integer(i))
        return builder.select(_before(builder, count), found, ir.Constant(vector, None))

    return VectorType(_BITS[zero.bitwidth])(ADDRESS, ADDRESS, ADDRESS, zero), code


def _before(builder: Any, count: Any) -> Any:
    """Returns a mask of the first ``count`` lanes."""
    counts = Lanes(builder, WIDTH).spread(builder.trunc(count, ir.IntType(32)))
    return builder.icmp_signed("<", ir.Constant(counts.type, list(range(WIDTH))), counts)
