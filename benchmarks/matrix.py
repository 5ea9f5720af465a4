"""The measured cells: operator, data type, layout and size, with their inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from opwire.tensor import Array, DataType

KIB = 1 << 10
MIB = 1 << 20

SIZES = {"4KB": 4 * KIB, "256KB": 256 * KIB, "16MB": 16 * MIB, "64MB": 64 * MIB}

FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
WIDE_INTEGERS = (DataType.INT32, DataType.INT64)
BYTES = (DataType.INT8, DataType.UINT8)

FUNCTIONS: dict[str, tuple[DataType, ...]] = {
    "SUM": (*FLOATS, *WIDE_INTEGERS),
    "AVERAGE": FLOATS,
    "L1": (*FLOATS, *WIDE_INTEGERS),
    "L2": FLOATS,
    "SUM_SQUARE": (*FLOATS, *WIDE_INTEGERS),
    "MULTIPLY": (*FLOATS, *WIDE_INTEGERS),
    "LOG_SUM": FLOATS,
    "LOG_SUM_EXP": FLOATS,
    "MIN": (*FLOATS, *WIDE_INTEGERS, *BYTES),
    "MAX": (*FLOATS, *WIDE_INTEGERS, *BYTES),
    "ARGMIN": (*FLOATS, *WIDE_INTEGERS, *BYTES),
    "ARGMAX": (*FLOATS, *WIDE_INTEGERS, *BYTES),
}
"""The REDUCE functions and the operators of the same names, with the measured data types."""

EXACT = frozenset({"SUM", "AVERAGE", "L1", "L2", "SUM_SQUARE", "MULTIPLY"})
"""The functions that opwire rounds correctly on floats, which no peer does."""

EXTREMES = frozenset({"MIN", "MAX", "ARGMIN", "ARGMAX"})


@dataclass(frozen=True, slots=True)
class Layout:
    """The position of the reduced axes.

    Attributes:
        split: the logarithms of the sizes, as fractions of that of the element count.
        axes: the reduced axes.
        order: dimensions from outermost to innermost in memory, if not in their natural order.
    """

    split: tuple[float, ...]
    axes: tuple[int, ...]
    order: tuple[int, ...] | None = None


LAYOUTS = {
    "last": Layout((0.5, 0.5), (1,)),
    "first": Layout((0.5, 0.5), (0,)),
    "middle": Layout((0.3, 0.3, 0.4), (1,)),
    "all": Layout((0.5, 0.5), (0, 1)),
    "two_outer": Layout((0.25, 0.35, 0.4), (0, 1)),
    "channels_last": Layout((0.2, 0.3, 0.25, 0.25), (2, 3), (0, 2, 3, 1)),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement: an operator on an input.

    Attributes:
        name: function or pooling, layout, data type and size.
        function: the REDUCE function, or ``MAX_POOLING2``.
        operator: the operator as passed to ``check``.
        source: the input.
        attributes: parameters of the peers: ``axes``, or ``window``, ``stride``, ``padding``, ``spatial`` and
            ``indices``.
    """

    name: tuple[str, str, str, str]
    function: str
    operator: Mapping[str, Any]
    source: Array
    attributes: Mapping[str, Any]

    @property
    def is_float(self) -> bool:
        return self.source.dtype.kind == "f"


def sizes_of(layout: Layout, elements: int) -> tuple[int, ...]:
    """Returns power-of-two sizes with ``elements`` elements, itself a power of two."""
    bits = elements.bit_length() - 1
    parts = [round(part * bits) for part in layout.split[:-1]]
    return tuple(1 << part for part in (*parts, bits - sum(parts)))


def values(function: str, data_type: DataType, count: int) -> Array:
    """Returns values for which the function's result is neither zero nor infinite, if possible."""
    random = np.random.default_rng(count)
    if not data_type.is_float:
        info = np.iinfo(data_type.dtype)
        low, high = (1, 4) if function == "MULTIPLY" else (max(int(info.min), -1000), min(int(info.max), 1000))
        return random.integers(low, high, count, data_type.dtype, endpoint=True)
    normal = random.standard_normal(count, np.float32)
    if function == "MULTIPLY":
        normal = np.exp2(np.float32(0.01) * normal)
    if function == "LOG_SUM":
        normal = np.abs(normal)
    return normal.astype(data_type.dtype)


def reduction(function: str, data_type: DataType, layout: str, size: str) -> Cell:
    """Returns the cell of a function along the axes of a layout."""
    shape = LAYOUTS[layout]
    sizes = sizes_of(shape, SIZES[size] // data_type.dtype.itemsize)
    order = shape.order or tuple(range(len(sizes)))
    stored = values(function, data_type, prod(sizes)).reshape([sizes[axis] for axis in order])
    source = stored.transpose(np.argsort(order))
    tensor = {
        "DataType": data_type.name,
        "Sizes": list(sizes),
        "Strides": [step // source.itemsize for step in source.strides],
    }
    desc: dict[str, Any] = {"InputTensor": tensor, "Axes": list(shape.axes)}
    if function.startswith("ARG"):
        operator = {"type": function, "desc": {**desc, "AxisDirection": "INCREASING"}}
    else:
        operator = {"type": "REDUCE", "desc": {**desc, "Function": function}}
    return Cell((function, layout, data_type.name, size), function, operator, source, {"axes": shape.axes})


POOLINGS: dict[str, tuple[tuple[int, ...], int, int, int]] = {
    "global": ((64, 256, 32, 32), 32, 1, 0),
    "2x2/2": ((8, 64, 112, 112), 2, 2, 0),
    "3x3/2 p1": ((8, 64, 112, 112), 3, 2, 1),
    "3x3/1 p1": ((8, 64, 112, 112), 3, 1, 1),
    "3x3x3/2 p1": ((2, 16, 32, 80, 80), 3, 2, 1),
}
"""Sizes, window, stride and padding, the last three for each spatial dimension."""

POOLED_TYPES = (DataType.FLOAT32, DataType.FLOAT16, DataType.INT8, DataType.UINT8)


def pooling(name: str, data_type: DataType, indices: bool) -> Cell:
    """Returns the cell of a max pooling, with or without the positions of the winners."""
    sizes, window, stride, padding = POOLINGS[name]
    spatial = len(sizes) - 2
    source = values("MAX", data_type, prod(sizes)).reshape(sizes)
    desc: dict[str, Any] = {
        "InputTensor": {"DataType": data_type.name, "Sizes": list(sizes)},
        "Strides": [stride] * spatial,
        "WindowSize": [window] * spatial,
        "StartPadding": [padding] * spatial,
        "EndPadding": [padding] * spatial,
        "Dilations": [1] * spatial,
    }
    if indices:
        pooled = [(size + 2 * padding - window) // stride + 1 for size in sizes[2:]]
        desc["OutputIndicesTensor"] = {"DataType": "UINT64", "Sizes": [*sizes[:2], *pooled]}
    attributes = {"window": window, "stride": stride, "padding": padding, "spatial": spatial, "indices": indices}
    title = (f"MAX_POOLING {name}", "indices" if indices else "values", data_type.name, f"{source.nbytes / MIB:.0f}MB")
    return Cell(title, "MAX_POOLING2", {"type": "MAX_POOLING2", "desc": desc}, source, attributes)


def class_map(data_type: DataType) -> Cell:
    """Returns the cell of an ARGMAX over the classes of an image's logits."""
    sizes = (1, 150, 256, 256)
    source = values("ARGMAX", data_type, prod(sizes)).reshape(sizes)
    tensor = {"DataType": data_type.name, "Sizes": list(sizes)}
    desc = {"InputTensor": tensor, "Axes": [1], "AxisDirection": "INCREASING"}
    title = ("ARGMAX", "class map", data_type.name, f"{source.nbytes / MIB:.0f}MB")
    return Cell(title, "ARGMAX", {"type": "ARGMAX", "desc": desc}, source, {"axes": (1,)})


Make = Callable[[], Cell]


def cells(functions: list[str], types: list[str], layouts: list[str], sizes: list[str]) -> Iterator[Make]:
    """Yields factories of the selected cells; all their inputs together would not fit into memory.

    Image cells are included regardless of ``sizes``.
    """
    for function in functions:
        for data_type in FUNCTIONS.get(function, ()):
            if data_type.name in types:
                for size in sizes:
                    for layout in layouts:
                        yield partial(reduction, function, data_type, layout, size)
    if "ARGMAX" in functions:
        yield from (partial(class_map, data_type) for data_type in FLOATS if data_type.name in types)
    if "MAX_POOLING" in functions:
        for name in POOLINGS:
            for data_type in POOLED_TYPES:
                if data_type.name in types:
                    yield partial(pooling, name, data_type, indices=False)
                    yield partial(pooling, name, data_type, indices=True)
