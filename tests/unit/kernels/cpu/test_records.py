"""Records: what Python writes by name, kernels read by name."""

from __future__ import annotations

from array import array

import pytest

from opwire_service.kernels.cpu.jit.compiler import Kernel, inner, uncached_kernel
from opwire_service.kernels.cpu.jit.element import FLOAT64, INT64, store
from opwire_service.kernels.cpu.jit.records import Record, Row, packed, rows


class Loop(Record):
    size: int
    step: int


class Nest(Record):
    number: int
    share: float
    is_last: bool
    middle: Loop
    loops = rows(Loop, 3)
    offsets = rows(int, 2)


class Deeper(Nest):
    depth: int


def nest() -> Deeper:
    return Deeper(
        number=-5,
        share=0.1,
        is_last=True,
        middle=(7, 8),
        loops=[Loop(size=1, step=2), (3, 4)],
        offsets=(10, 20),
        depth=9,
    )


def test_python_reads_what_it_wrote() -> None:
    record = nest()
    assert (record.number, record.share, record.is_last, record.depth) == (-5, 0.1, True, 9)
    assert (record.middle.size, record.middle.step) == (7, 8)
    assert [(loop.size, loop.step) for loop in record.loops] == [(1, 2), (3, 4), (0, 0)]
    assert list(record.offsets) == [10, 20]
    record.middle.step = 11
    record.loops[2].size = 12
    assert (record.middle.step, record.loops[2].size) == (11, 12)


def test_a_copy_with_other_values_leaves_the_record_alone() -> None:
    record = nest()
    other = record.replaced(number=6)
    other.middle.size = 1
    assert (record.number, record.middle.size, other.number, other.depth) == (-5, 7, 6, 9)


def test_unknown_names_and_too_many_values_are_refused() -> None:
    with pytest.raises(TypeError, match="Loop has no width"):
        Loop(width=1)
    with pytest.raises(ValueError, match="more than 2"):
        Nest(offsets=(1, 2, 3))
    with pytest.raises(ValueError, match="3 numbers for a Loop"):
        Nest(middle=(1, 2, 3))
    with pytest.raises(IndexError):
        _ = nest().offsets[2]


@inner
def _total(loop: Loop) -> int:
    return loop.size * 100 + loop.step


@uncached_kernel
def read(zero: int, source: int, target: int, states: int, geometry: Deeper, begin: int, end: int) -> None:
    """Stores each field."""
    store(target, 0, geometry.number)
    store(target, 1, _total(geometry.middle))
    for i in range(3):
        store(target, 2 + i, _total(geometry.loops[i]))
    store(target, 5, geometry.offsets[1])
    store(target, 6, 1 if geometry.is_last else 0)
    store(target, 7, geometry.depth)
    store(states, 0, geometry.share * 2)


@uncached_kernel
def read_row(zero: int, source: int, target: int, states: int, geometry: Row[Loop], begin: int, end: int) -> None:
    """Stores each record."""
    for i in range(begin, end):
        store(target, i, _total(geometry[i]))


def _run(function: object, geometry: int, end: int) -> tuple[list[int], float]:
    target, states = array("q", [0] * 8), array("d", [0.0])
    places = target.buffer_info()[0], states.buffer_info()[0]
    Kernel(function, INT64).compile().call(0, 0, *places, geometry, 0, end)
    return list(target), states[0]


def test_a_kernel_reads_what_python_wrote() -> None:
    record = nest()
    assert _run(read, record.buffer_info()[0], 1) == ([-5, 708, 102, 304, 0, 20, 1, 9], 0.2)


def test_a_kernel_reads_records_one_after_the_other() -> None:
    numbers = packed([Loop(size=1, step=2), Loop(size=3, step=4)])
    assert _run(read_row, numbers.buffer_info()[0], 2)[0][:2] == [102, 304]


def test_a_kernels_signature_names_its_record() -> None:
    assert [str(kind) for kind in Kernel(read, FLOAT64).signature][4].endswith("test_records.Deeper")
