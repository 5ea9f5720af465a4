"""Generates C for NVRTC from formulas that feed each other: loading, computing and storing their elements.

Every result is rounded to its tensor's type, as if the formula ran alone; intermediates used only by other formulas
are never written to memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .formula_source import FormulaSource
from .job import TYPES

_HEAD = "static __device__ __forceinline__"


class Read(NamedTuple):
    """How the kernel reads a tensor: the type of its elements, and how it is walked."""

    c_type: str
    walk: str
    depth: int


class Formula(NamedTuple):
    """A formula and its connections to others.

    Attributes:
        source: the source of the formula.
        operands: for each tensor it reads, the index of a read, or ``~n`` for the result of formula ``n``.
        target: index of the output it is written to; None if only other formulas use it.
    """

    source: FormulaSource
    operands: tuple[int, ...]
    target: int | None

    @property
    def c_type(self) -> str:
        """The C type of the result."""
        return TYPES[self.source.formula.output]


def element_source(
    reads: Sequence[Read], formulas: Sequence[Formula], texts: Sequence[str] = (), at_first: Sequence[str] = ()
) -> str:
    """Returns the generated part of ``elementwise.cu``.

    Args:
        reads: the tensors that are read.
        formulas: the formulas, in order of evaluation.
        texts: the functions of the formulas, if not their own.
        at_first: statements at the start of a block.
    """
    written = [(formula.target, formula.c_type) for formula in formulas if formula.target is not None]
    given = [(number, read.c_type) for number, read in enumerate(reads)]
    lines = [
        *_struct("Element", [f"{c_type} x{i}" for i, c_type in given]),
        *_struct("Row", [f"Pack<{c_type}, LANES> x{i}" for i, c_type in given]),
        *_struct("Result", [f"{c_type} y{i}" for i, c_type in written]),
        *_struct("ResultRow", [f"Pack<{c_type}, LANES> y{i}" for i, c_type in written]),
        *_function("void read(Row &row, const Task &task, u32 place)", map(_load, range(len(reads)), reads)),
        *_function("void read(Element &element, const Task &task, u32 place)", map(_one, range(len(reads)), reads)),
        *_function(
            "Element lane(const Row &row, int k)",
            ["Element element", *(f"element.x{i} = row.x{i}.lane[k]" for i, _ in given), "return element"],
        ),
        *_function(
            "void put(ResultRow &row, int k, const Result &result)",
            (f"row.y{i}.lane[k] = result.y{i}" for i, _ in written),
        ),
        *_function(
            "void write(const Task &task, u32 place, const ResultRow &row)",
            (f"*(Pack<{c_type}, LANES> *)(({c_type} *)task.target[{i}] + place) = row.y{i}" for i, c_type in written),
        ),
        *_function(
            "void write(const Task &task, u32 place, const Result &result)",
            (f"(({c_type} *)task.target[{i}])[place] = result.y{i}" for i, c_type in written),
        ),
    ]
    texts = texts or [formula.source.text(number) for number, formula in enumerate(formulas)]
    ways = (*_function("void begin_block()", at_first), *_way("quick", formulas), *_way("settle", formulas))
    return "\n".join(lines) + "\n" + "".join(texts) + "\n".join(ways) + "\n"


def _struct(name: str, members: Iterable[str]) -> list[str]:
    return [f"struct {name} {{", *(f"    {member};" for member in members), "};"]


def _function(head: str, statements: Iterable[str]) -> list[str]:
    return [f"{_HEAD} {head} {{", *(f"    {statement};" for statement in statements), "}"]


def _load(number: int, read: Read) -> str:
    return f"load<{read.c_type}, {read.walk}, {read.depth}>(row.x{number}, task, {number}, place)"


def _one(number: int, read: Read) -> str:
    return f"element.x{number} = one<{read.c_type}, {read.walk}, {read.depth}>(task, {number}, place)"


def _way(name: str, formulas: Sequence[Formula]) -> list[str]:
    """Returns a function that evaluates all formulas in order by one method, and returns whether all are settled."""
    statements = ["bool settled = true"]
    for number, formula in enumerate(formulas):
        operands = [f"z{~operand}" if operand < 0 else f"element.x{operand}" for operand in formula.operands]
        statements += [
            f"{formula.c_type} z{number}{{}}",
            f"settled &= {name}_{number}({', '.join([*operands, f'z{number}'])})",
        ]
        if formula.target is not None:
            statements.append(f"result.y{formula.target} = z{number}")
    return _function(f"bool {name}(const Element &element, Result &result)", [*statements, "return settled"])
