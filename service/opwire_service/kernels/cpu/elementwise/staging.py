"""Copies tiles between strided tensors and rows of neighbours."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir

from .kernel import Loop
from .lanes import INT, LONG
from .machine_code import INTEGER, MachineCode, begin, compiled

OUTER, INNER, SOURCE, SOURCE_OUTER, SOURCE_INNER, TARGET, TARGET_OUTER, TARGET_INNER = range(8)
"""Places of the arguments: how many elements each way, addresses, and bytes between elements."""


@cache
def copy_of(size: int) -> MachineCode:
    """What copies elements of so many bytes."""
    module, function = begin()
    builder: Any = ir.IRBuilder(function.append_basic_block("entry"))
    arguments = builder.inttoptr(function.args[0], LONG.as_pointer())
    given = [builder.load(builder.gep(arguments, [ir.Constant(INT, place)])) for place in range(8)]
    element = ir.IntType(8 * size)
    with Loop(builder, function, given[OUTER], 1) as outer:
        source = builder.add(given[SOURCE], builder.mul(outer, given[SOURCE_OUTER]))
        target = builder.add(given[TARGET], builder.mul(outer, given[TARGET_OUTER]))
        with Loop(builder, function, given[INNER], 1) as inner:
            here = builder.add(source, builder.mul(inner, given[SOURCE_INNER]))
            there = builder.add(target, builder.mul(inner, given[TARGET_INNER]))
            value = builder.load(builder.inttoptr(here, element.as_pointer()), align=1)
            builder.store(value, builder.inttoptr(there, element.as_pointer()), align=1)
    builder.ret(ir.Constant(INTEGER, 0))
    return compiled(module)
