"""Typed loads and stores at raw addresses, and bit manipulation of elements, as numba intrinsics.

A kernel takes a ``zero`` whose numba type is the element type: int8 to int64 and float32 stand for themselves; uint16
holds the bits of a FLOAT16, because numba has no half floats on CPUs and LLVM does the conversion. Sums of integers
depend only on the element width, extremes also on a bit pattern to invert. Addresses are in bytes, strides in elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic as numba_intrinsic

INT8, INT16, INT32, INT64 = types.int8, types.int16, types.int32, types.int64
FLOAT32, FLOAT64, HALF = types.float32, types.float64, types.uint16
ADDRESS = types.intp
"""numba type of an address or an offset."""

# Kernels convert numbers with these. Typed as Any: to mypy, NumPy scalars are not Python numbers, but inside kernels
# they are.
int8: Any = np.int8
int16: Any = np.int16
int32: Any = np.int32
int64: Any = np.int64
uint16: Any = np.uint16
uint64: Any = np.uint64
float32: Any = np.float32
float64: Any = np.float64


def intrinsic(function: Callable[..., tuple[Any, Callable[..., Any]]]) -> Any:
    """Declares an intrinsic for kernels from its typing and its LLVM code; numba infers its result type."""
    return numba_intrinsic(function)


def pointer_to(builder: Any, address: Any, element: Any) -> Any:
    return builder.inttoptr(address, element.as_pointer())


def metadata_of_written(builder: Any) -> Any:
    """Returns the alias scope of kernel output, which tells LLVM that inputs do not change in a loop."""
    module = builder.module
    domain = module.add_metadata(["opwire"])
    return module.add_metadata([module.add_metadata(["opwire written", domain])])


@intrinsic
def load(typing: Any, address: Any, index: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Loads the element ``index`` elements past an address."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = pointer_to(builder, args[0], context.get_value_type(zero))
        return builder.load(builder.gep(pointer, [args[1]]))

    return zero(ADDRESS, ADDRESS, zero), code


@intrinsic
def read(typing: Any, address: Any, index: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Like ``load``, for inputs: memory that no kernel writes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = pointer_to(builder, args[0], context.get_value_type(zero))
        element = builder.load(builder.gep(pointer, [args[1]]))
        element.set_metadata("noalias", metadata_of_written(builder))
        return element

    return zero(ADDRESS, ADDRESS, zero), code


@intrinsic
def store(typing: Any, address: Any, index: Any, value: Any) -> tuple[Any, Callable[..., Any]]:
    """Stores a value ``index`` elements of its type past an address."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = pointer_to(builder, args[0], context.get_value_type(value))
        stored = builder.store(args[2], builder.gep(pointer, [args[1]]))
        stored.set_metadata("alias.scope", metadata_of_written(builder))
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS, value), code


def ask_for_line(builder: Any, address: Any) -> None:
    """Emits a prefetch of the cache line at an address, see ``prefetch``."""
    pointer, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
    asking = ir.FunctionType(ir.VoidType(), [pointer, integer, integer, integer])
    name = "llvm.prefetch.p0i8"
    function = builder.module.globals.get(name) or ir.Function(builder.module, asking, name)
    # Arguments: read access, highest locality, data cache.
    builder.call(function, [builder.inttoptr(address, pointer), *(ir.Constant(integer, how) for how in (0, 3, 1))])


@intrinsic
def prefetch(typing: Any, address: Any) -> tuple[Any, Callable[..., Any]]:
    """Prefetches the cache line at an address, which may be outside of any allocation."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        ask_for_line(builder, args[0])
        return context.get_dummy_value()

    return types.void(ADDRESS), code


@intrinsic
def address_of(typing: Any, array: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns an array's data address as an ``ADDRESS``, so that callees are not specialized by array type."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(array)(context, builder, args[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return ADDRESS(array), code


@intrinsic
def size_of(typing: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the size of an element in bytes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant(ADDRESS, zero.bitwidth // 8)

    return ADDRESS(zero), code


@intrinsic
def integer_zero(typing: Any, number: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns a zero of the signed integer type as wide as a number."""
    integer = types.Integer.from_bitwidth(number.bitwidth, signed=True)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant(integer, 0)

    return integer(number), code


@intrinsic
def cast_to(typing: Any, value: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Truncates or sign-extends an integer to the width of ``zero``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = context.get_value_type(zero)
        if value.bitwidth > zero.bitwidth:
            return builder.trunc(args[0], target)
        return builder.sext(args[0], target) if value.bitwidth < zero.bitwidth else args[0]

    return zero(value, zero), code


@intrinsic
def bits_of(typing: Any, element: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the bits of an element, zero-extended to 64 bits."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], ir.IntType(element.bitwidth))
        return builder.zext(bits, ir.IntType(64)) if element.bitwidth < 64 else bits

    return INT64(element), code


@intrinsic
def of_bits(typing: Any, bits: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the element whose bits are the lowest bits of an integer."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        cut = builder.trunc(args[0], ir.IntType(zero.bitwidth)) if zero.bitwidth < 64 else args[0]
        return builder.bitcast(cut, context.get_value_type(zero))

    return zero(INT64, zero), code


def _reinterpret(source: Any, target: Any) -> Any:
    @intrinsic
    def convert(typing: Any, value: Any) -> tuple[Any, Callable[..., Any]]:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], context.get_value_type(target))

        return target(source), code

    return convert


float_bits = _reinterpret(FLOAT32, INT32)
bits_float = _reinterpret(INT32, FLOAT32)
double_bits = _reinterpret(FLOAT64, INT64)
bits_double = _reinterpret(INT64, FLOAT64)


@intrinsic
def half_to_float(typing: Any, bits: Any) -> tuple[Any, Callable[..., Any]]:
    """Converts a FLOAT16, given as bits, to FLOAT32."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return FLOAT32(HALF), code


@intrinsic
def fused(typing: Any, a: Any, b: Any, c: Any) -> tuple[Any, Callable[..., Any]]:
    """Fused multiply-add: ``a*b + c``, rounded once."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return FLOAT64(FLOAT64, FLOAT64, FLOAT64), code


@intrinsic
def larger(typing: Any, a: Any, b: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the larger of two signed integers of the same width."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.icmp_signed(">", args[0], args[1]), args[0], args[1])

    return a(a, a), code


@intrinsic
def choose(typing: Any, condition: Any, yes: Any, no: Any) -> tuple[Any, Callable[..., Any]]:
    """``yes if condition else no`` without a branch."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(args[0], args[1], args[2])

    return yes(types.boolean, yes, yes), code


@intrinsic
def wrap_add(typing: Any, a: Any, b: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the sum modulo 2**width; numba's own addition would widen."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.add(*args)

    return a(a, a), code


@intrinsic
def wrap_multiply(typing: Any, a: Any, b: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the product modulo 2**width."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.mul(*args)

    return a(a, a), code


@intrinsic
def wrap_absolute(typing: Any, a: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the magnitude; that of the lowest integer wraps to itself."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sign = builder.ashr(args[0], ir.Constant(args[0].type, a.bitwidth - 1))
        return builder.sub(builder.xor(args[0], sign), sign)

    return a(a), code


@intrinsic
def differing(typing: Any, so_far: Any, a: Any, b: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns ``so_far`` with the bits set in which two integers of its width differ."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.or_(args[0], builder.xor(args[1], args[2]))

    return so_far(so_far, so_far, so_far), code
