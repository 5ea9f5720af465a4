"""What DirectML itself answered: operators, inputs and the outputs that it wrote on two machines.

``data/directml-answers.xz`` holds a line of JSON, ``{"lengths", "cases"}``, and then the bytes of all buffers one after
another, each kept once; a case refers to a buffer by its number. What ran was the library of feature level 6_2 on an
NVIDIA H100 and, for most cases, on a software rasterizer, both through a translation of Direct3D 12 to Vulkan; and one
of level 6_4 on the rasterizer alone. Not kept are cases that DirectML refuses, and 32 of more than 256 KiB, nearly all
of them paddings and tiles.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, pairwise
from typing import Any

from opwire.check import Plan, check
from opwire.tensor import Array, BufferTensorDesc
from opwire_service.devices.base import Device
from tests.support.execution import never_stop
from tests.support.paths import DATA

FILE = DATA / "directml-answers.xz"

UNWRITTEN = 0xCD
"""The value of every byte of an output before DirectML ran."""


@dataclass(frozen=True)
class Computed:
    """A case that DirectML computed.

    Attributes:
        id: Number of the case among those of its level, and the level if it is not 6_2: ``812``, ``6_4-3``.
        level: Highest feature level of the library that ran.
        operator: The operator as JSON, ``{"type", "desc"}``, with every output written out.
        inputs: The buffers of the inputs.
        answers: For each machine that ran the case, the buffers of the outputs; the card comes first.
    """

    id: str
    level: str
    operator: dict[str, Any]
    inputs: Mapping[str, bytes]
    answers: tuple[Mapping[str, bytes], ...]

    @property
    def name(self) -> str:
        """The operator type."""
        name: str = self.operator["type"]
        return name

    @cached_property
    def plan(self) -> Plan:
        """The checked operator."""
        return check(self.operator, self.level)

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """The inputs as arrays of their logical shapes."""
        return {name: desc.view(self.inputs[name]) for name, desc in self.plan.inputs.items()}

    def answer(self, machine: int, name: str) -> Array:
        """Returns an output as one of the machines wrote it."""
        return self.plan.outputs[name].view(self.answers[machine][name])

    def run(self, device: Device) -> dict[str, Array]:
        """Runs the operator on a device and returns the outputs."""
        outputs = {name: _unwritten(desc) for name, desc in self.plan.outputs.items()}
        device.run(self.plan, self.arrays, outputs, never_stop)
        return outputs


def _unwritten(desc: BufferTensorDesc) -> Array:
    return desc.view(bytearray([UNWRITTEN]) * desc.total_size_in_bytes)


@cache
def cases() -> tuple[Computed, ...]:
    """Returns every case, in the order of the recording."""
    head, _, data = lzma.decompress(FILE.read_bytes()).partition(b"\n")
    read = json.loads(head)
    ends = list(accumulate(read["lengths"], initial=0))
    buffers = [data[start:end] for start, end in pairwise(ends)]
    return tuple(_case(case, buffers) for case in read["cases"])


@cache
def by_operator() -> Mapping[str, tuple[Computed, ...]]:
    """Returns the cases of each operator type."""
    found: dict[str, list[Computed]] = {}
    for case in cases():
        found.setdefault(case.name, []).append(case)
    return {name: tuple(of) for name, of in sorted(found.items())}


def _case(read: Mapping[str, Any], buffers: list[bytes]) -> Computed:
    written = [read[machine] for machine in ("card", "rasterizer") if machine in read]
    # What the rasterizer wrote alike is left out.
    answers = [{name: buffers[number] for name, number in (written[0] | each).items()} for each in written]
    return Computed(
        id=str(read["line"]) if read["level"] == "6_2" else f"{read['level']}-{read['line']}",
        level=read["level"],
        operator=read["operator"],
        inputs={name: buffers[number] for name, number in read["inputs"].items()},
        answers=tuple(answers),
    )
