"""Atomic operations on shared int64 slots and calls by address, with which kernels share work between threads."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from .element import ADDRESS, FLOAT32, INT64, intrinsic, pointer_to

_PAUSES = {
    **dict.fromkeys(("x86_64", "AMD64"), ("llvm.x86.sse2.pause", ())),
    **dict.fromkeys(("aarch64", "arm64"), ("llvm.aarch64.isb", (15,))),
}
"""Spin-wait hint by machine: the LLVM intrinsic and its arguments."""

_NUMBER = ir.IntType(64)


def _place(builder: Any, address: Any, index: Any) -> Any:
    return builder.gep(pointer_to(builder, address, _NUMBER), [index])


@intrinsic
def fetch_add(typing: Any, address: Any, index: Any, number: Any) -> tuple[Any, Callable[..., Any]]:
    """Atomically adds to the int64 at ``index`` slots past an address; returns the previous value."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _place(builder, *args[:2]), args[2], "seq_cst")

    return INT64(ADDRESS, ADDRESS, INT64), code


@intrinsic
def exchange(typing: Any, address: Any, index: Any, number: Any) -> tuple[Any, Callable[..., Any]]:
    """Atomically stores a number and returns the previous value."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("xchg", _place(builder, *args[:2]), args[2], "seq_cst")

    return INT64(ADDRESS, ADDRESS, INT64), code


@intrinsic
def replace(typing: Any, address: Any, index: Any, old: Any, new: Any) -> tuple[Any, Callable[..., Any]]:
    """Compare-and-swap: stores ``new`` if the slot holds ``old``; returns whether it did."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(builder, *args[:2])
        return builder.extract_value(builder.cmpxchg(place, args[2], args[3], "seq_cst", "seq_cst"), 1)

    return types.boolean(ADDRESS, ADDRESS, INT64, INT64), code


@intrinsic
def peek(typing: Any, address: Any, index: Any) -> tuple[Any, Callable[..., Any]]:
    """Atomically loads a slot; the sequentially consistent load makes everything written before it visible."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_place(builder, *args), "seq_cst", 8)

    return INT64(ADDRESS, ADDRESS), code


@intrinsic
def pause(typing: Any) -> tuple[Any, Callable[..., Any]]:
    """Spin-wait hint to the processor; takes some ten nanoseconds."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if platform.machine() in _PAUSES:
            name, numbers = _PAUSES[platform.machine()]
            taken = [ir.Constant(ir.IntType(32), number) for number in numbers]
            kind = ir.FunctionType(ir.VoidType(), [number.type for number in taken])
            function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
            builder.call(function, taken)
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def call(typing: Any, function: Any, zero: Any, *arguments: Any) -> tuple[Any, Callable[..., Any]]:
    """Calls a kernel by the address of its machine code; returns whether it failed.

    ``zero`` must be a FLOAT32 where the kernel's is. Any integer serves for all other kernels: integers of every width
    are passed in the same register, and no kernel reads the value.
    """
    if not isinstance(zero, types.Integer) and zero != FLOAT32:
        return None  # type: ignore[return-value] # tells numba that no such overload exists
    kinds = (zero, *(ADDRESS,) * len(arguments))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        convention = context.call_conv
        kernel = convention.get_function_type(types.none, kinds)
        pointer = builder.inttoptr(args[0], kernel.as_pointer())
        given = [args[1], *(builder.extract_value(args[2], i) for i in range(len(arguments)))]
        status, _ = convention.call_function(builder, pointer, types.none, kinds, given)
        return status.is_error

    return types.boolean(ADDRESS, zero, types.StarArgTuple(kinds[1:])), code  # type: ignore[no-untyped-call] # numba is untyped
