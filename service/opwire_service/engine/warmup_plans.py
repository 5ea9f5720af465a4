"""Plans whose CUDA kernels are compiled ahead of time.

They cover the operators that reduce axes, with every function, and max pooling, in the usual layouts of each data type.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from opwire.check import Plan, check
from opwire.errors import ContractViolation
from opwire.fields import Enumerated
from opwire.schema import CATALOG, schema_of
from opwire.tensor import DataType

FAMILIES = ("reduce", "argreduce")
"""Families whose operators reduce axes."""

LAYOUTS = (([64, 4096], [1]), ([4096, 64], [0]), ([64, 4095], [1]), ([4095, 63], [0]))
"""Sizes and reduced axes: rows and columns, each with rows that are aligned to vectors and with rows that are not."""

WINDOWS = ((3, 2, 1), (2, 2, 0), (3, 1, 1))
"""Window size, stride and padding, the same for both spatial dimensions."""


def usual_plans() -> Iterator[Plan]:
    """Yields the plans, skipping combinations that a data type does not allow."""
    for desc in _operators():
        try:
            yield check(desc)
        except ContractViolation:
            continue


def _operators() -> Iterator[dict[str, object]]:
    for data_type in DataType:
        for kind in CATALOG.values():
            if kind.family in FAMILIES:
                yield from _reductions(kind.name, data_type)
        for window, stride, padding in WINDOWS:
            yield from _poolings(data_type, window, stride, padding)


def _reductions(name: str, data_type: DataType) -> Iterator[dict[str, object]]:
    """Yields an operator with each combination of the values of its enumerated members."""
    chosen = [member for member in schema_of(name).members.attributes if isinstance(member, Enumerated)]
    for sizes, axes in LAYOUTS:
        reduced = {"InputTensor": {"DataType": data_type.name, "Sizes": sizes}, "Axes": axes}
        for values in product(*(member.type for member in chosen)):
            given = {member.name: value.name for member, value in zip(chosen, values, strict=True)}
            yield {"type": name, "desc": {**reduced, **given}}


def _poolings(data_type: DataType, window: int, stride: int, padding: int) -> Iterator[dict[str, object]]:
    desc: dict[str, object] = {
        "InputTensor": {"DataType": data_type.name, "Sizes": [1, 1, 64, 64]},
        "WindowSize": [window] * 2,
        "Strides": [stride] * 2,
        "StartPadding": [padding] * 2,
        "EndPadding": [padding] * 2,
    }
    size = (64 + 2 * padding - window) // stride + 1
    yield {"type": "MAX_POOLING", "desc": desc}
    yield {
        "type": "MAX_POOLING1",
        "desc": {**desc, "OutputIndicesTensor": {"DataType": "UINT32", "Sizes": [1, 1, size, size]}},
    }
