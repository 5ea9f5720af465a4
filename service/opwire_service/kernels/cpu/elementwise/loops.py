"""Loops in LLVM code."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from .machine_code import INTEGER


class CountedLoop:
    """A loop over 0, step, 2 * step, ... below a count."""

    def __init__(self, builder: Any, function: ir.Function, count: Any, step: int) -> None:
        self._builder = builder
        self._function = function
        self._count = count
        self._step = step

    def __enter__(self) -> Any:
        builder = self._builder
        before = builder.block
        self._head, self._body, self._after = (
            self._function.append_basic_block(name) for name in ("head", "body", "after")
        )
        builder.branch(self._head)
        builder.position_at_end(self._head)
        self._index = builder.phi(INTEGER)
        self._index.add_incoming(long_of(0), before)
        builder.cbranch(builder.icmp_signed("<", self._index, self._count), self._body, self._after)
        builder.position_at_end(self._body)
        return self._index

    def __exit__(self, *_: object) -> None:
        builder = self._builder
        self._index.add_incoming(builder.add(self._index, long_of(self._step)), builder.block)
        builder.branch(self._head)
        builder.position_at_end(self._after)


def long_of(number: int) -> Any:
    return ir.Constant(INTEGER, number)
