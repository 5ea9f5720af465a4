"""Runs plans with every tensor between protected pages: ``python -m tests.support.guarded NOTES EXAMPLES OPERATOR...``.

Reading or writing past a tensor's pages ends the process, and so does writing to an input; NOTES is a file that holds
the last plan. Bytes between the elements and the protected pages hold a canary, which must survive. Every plan runs
twice, with different canaries and with its tensors at either end of their pages, and must give the same bits. Some
plans get hostile indices, which may give any result.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from opwire.check import Plan, check
from opwire.operator import Operator
from opwire.tensor import Array, BufferTensorDesc
from opwire_service.devices.base import Device
from opwire_service.devices.cpu import CpuDevice
from opwire_service.kernels.executable import EXECUTABLE
from tests.oracles import inputs_of
from tests.strategies.operators import Case, any_desc, cases
from tests.support.execution import UNITS, never_stop, unit_addresses

CANARIES = 0xA5, 0x5A

SIZES = (1, 2, 3, 9, 17, 33)
"""Sizes of dimensions: some longer than vectors, all with a rest."""

_NO_ACCESS = 0

_LIBC = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """Memory whose neighbors cannot be touched.

    Args:
        size: number of bytes.
        at_end: whether they end at a protected page; otherwise, they begin after one.
        canary: the value of the other bytes of their pages.

    Attributes:
        buffer: the bytes.
        address: address of the first.
    """

    def __init__(self, size: int, *, at_end: bool, canary: int) -> None:
        page = mmap.PAGESIZE
        self._length = -(-size // page) * page
        self._map = mmap.mmap(-1, self._length + 2 * page)
        self._inside = np.frombuffer(self._map, np.uint8, self._length, page)
        self._inside.fill(canary)
        first = self._length - size if at_end else 0
        self._canary, self._outside = canary, [slice(0, first), slice(first + size, self._length)]
        self.buffer: Array = self._inside[first : first + size]
        self._start = self._inside.ctypes.data
        self.address = self._start + first
        for each in (self._start - page, self._start + self._length):
            _protect(each, page, _NO_ACCESS)

    def seal(self) -> None:
        """Protects the bytes from writes."""
        _protect(self._start, self._length, mmap.PROT_READ)

    def is_intact(self, elements: Array) -> bool:
        """Whether all bytes but those of elements hold the canary; ``elements`` is a mask of the bits of elements."""
        gaps = (self.buffer ^ self._canary) & ~elements
        return not gaps.any() and all((self._inside[each] == self._canary).all() for each in self._outside)


def _protect(address: int, length: int, protection: int) -> None:
    if _LIBC.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(length), protection):
        raise OSError(ctypes.get_errno(), "mprotect failed")


def size_of(desc: BufferTensorDesc) -> int:
    """Returns the number of bytes up to the last element."""
    return -(-desc.extent * desc.data_type.bits // 8)


def bits_of_elements(desc: BufferTensorDesc) -> Array:
    """Returns a mask of the bits that belong to elements."""
    mask = np.zeros(size_of(desc), np.uint8)
    if desc.data_type.is_packed:
        for address in unit_addresses(desc):
            mask[address // UNITS] |= 15 << 4 * (address % UNITS)
    else:
        view = desc.view(mask)
        view.view(f"u{view.itemsize}")[...] = 2 ** (8 * view.itemsize) - 1
    return mask


def run(device: Device, plan: Plan, buffers: Mapping[str, bytes], *, at_end: bool, canary: int) -> dict[str, Array]:
    """Runs a plan in guarded memory and returns the bytes of its outputs, with zeros in the gaps."""
    inputs, outputs = (
        {name: Guarded(size_of(desc), at_end=at_end, canary=canary) for name, desc in descs.items()}
        for descs in (plan.inputs, plan.outputs)
    )
    for name, memory in inputs.items():
        memory.buffer[:] = np.frombuffer(buffers[name], np.uint8, memory.buffer.size)
        memory.seal()
    given = {name: desc.view(inputs[name].buffer) for name, desc in plan.inputs.items()}
    device.run(plan, given, {name: desc.view(outputs[name].buffer) for name, desc in plan.outputs.items()}, never_stop)
    found = {}
    for name, desc in plan.outputs.items():
        elements = bits_of_elements(desc)
        assert outputs[name].is_intact(elements), f"bytes beside the elements of {name} were written"
        found[name] = outputs[name].buffer & elements
    return found


def check_case(device: Device, case: Case, *, is_hostile: bool) -> None:
    """Runs a case at both ends of its pages."""
    plan = check(case.operator, case.level)
    first, second = (
        run(device, plan, case.buffers, at_end=at_end, canary=canary)
        for at_end, canary in zip((True, False), CANARIES, strict=True)
    )
    for name, desc in plan.outputs.items():
        if not is_hostile:
            one, other = desc.view(first[name]), desc.view(second[name])
            assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f"), (
                f"{name} depends on bytes beside tensors"
            )


def check_operator(device: Device, operator: Operator[Any], count: int, notes: Path) -> None:
    """Runs drawn cases of an operator, small ones and larger ones, with right and with hostile indices."""
    has_indices = inputs_of(operator.name) is not None
    drawn = [(cases((operator.name,)), False), (any_desc(operator, SIZES), False)]
    drawn += [(any_desc(operator, sizes, is_hostile=True), True) for sizes in ((1, 2, 3), SIZES) if has_indices]

    @settings(
        max_examples=count * len(drawn),
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        strategy, is_hostile = data.draw(st.sampled_from(drawn))
        case = data.draw(strategy)
        notes.write_text(json.dumps(case.operator), encoding="utf-8")
        check_case(device, case, is_hostile=is_hostile)

    holds()


def main(notes: str, count: str, *names: str) -> None:
    device = CpuDevice(2)
    device.warm_up()
    for name in names:
        check_operator(device, EXECUTABLE[name], int(count), Path(notes))
    device.close()


def command(notes: Path, count: int, names: Sequence[str]) -> list[str]:
    """Returns the command that checks some operators."""
    return [sys.executable, "-m", __name__, str(notes), str(count), *names]


if __name__ == "__main__":
    main(*sys.argv[1:])
