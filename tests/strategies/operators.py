"""Hypothesis strategies for valid operator descs, drawn from the operators' support rows, with their tensors."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from opwire.check import check
from opwire.enums import AxisDirection, ReduceFunction
from opwire.level import FeatureLevel
from opwire.operator import Operator
from opwire.operators.max_pooling import MaxPooling
from opwire.support import SupportRow, row_for
from opwire.tensor import Array, BufferTensorDesc, DataType
from opwire_service.kernels.executable import EXECUTABLE
from tests.oracles import inputs_of, oracle
from tests.strategies import SMALL, descs
from tests.strategies.descs import given_tensors
from tests.support.execution import logical

MOST_DRAWN = 1 << 12
"""Maximum number of elements of all tensors of a drawn desc."""

MOST_ELEMENTS = 48
"""Maximum number of elements of a drawn input, so that failures are readable and the oracle is fast enough."""


@dataclass(frozen=True)
class Case:
    """A valid request.

    Attributes:
        operator: The operator as JSON, ``{"type", "desc"}``.
        level: A feature level that accepts it.
        inputs: The logical elements, packed.
        buffers: The bytes that contain them, laid out according to the descs.
    """

    operator: dict[str, Any]
    level: FeatureLevel
    inputs: Mapping[str, Array]
    buffers: Mapping[str, bytes]


@st.composite
def cases(draw: st.DrawFn, operators: tuple[str, ...] = tuple(EXECUTABLE)) -> Case:
    """Draws requests for the given operators, with any data types, ranks and layouts that some level allows."""
    operator = EXECUTABLE[draw(st.sampled_from(operators))]
    return draw(_FAMILIES.get(operator.name, any_desc)(operator))


@st.composite
def one_input_cases(draw: st.DrawFn) -> Case:
    """Draws requests for operators with a single input, ``InputTensor``."""
    return draw(cases(tuple(_FAMILIES)))


@st.composite
def any_desc(
    draw: st.DrawFn, operator: Operator[Any], sizes: Sequence[int] = SMALL, *, is_hostile: bool = False
) -> Case:
    """Draws any desc that the declaration allows, with any layout of the outputs.

    Args:
        draw: Hypothesis's function.
        operator: The operator.
        sizes: Sizes of dimensions.
        is_hostile: Whether inputs that hold indices or regions may hold anything.
    """
    drawn = draw(descs(operator, sizes))
    tensors = given_tensors(tuple(member.name for member in operator.members.tensors), drawn.desc)
    assume(all(math.prod(each["Sizes"]) <= MOST_DRAWN for each in tensors))
    plan = check(drawn.request, drawn.level)
    assume(sum(desc.element_count for desc in (*plan.inputs.values(), *plan.outputs.values())) <= MOST_DRAWN)
    for name, desc in plan.outputs.items():
        if "[" not in name:
            drawn.desc[name] = draw(_outputs(desc.data_type, desc.sizes))
    buffers_of = {name: draw(buffers(desc.data_type, desc.extent)) for name, desc in plan.inputs.items()}
    chosen = None if is_hostile else inputs_of(operator.name)
    for name, array in (chosen(draw, plan) if chosen else {}).items():
        written = bytearray(buffers_of[name])
        plan.inputs[name].put(array, plan.inputs[name].view(written))
        buffers_of[name] = bytes(written)
    inputs = {name: logical(desc, buffers_of[name]) for name, desc in plan.inputs.items()}
    return Case(drawn.request, drawn.level, inputs, buffers_of)


@st.composite
def _reductions(draw: st.DrawFn, operator: Operator[Any]) -> Case:
    function = draw(st.sampled_from(ReduceFunction))
    row, level = draw(_rows(operator, {"Function": function}))
    fields: dict[str, object] = {"Function": draw(st.sampled_from([function.name, int(function)]))}
    return draw(_along_axes(operator, row, level, fields))


@st.composite
def _arg_reductions(draw: st.DrawFn, operator: Operator[Any]) -> Case:
    direction = draw(st.sampled_from(AxisDirection))
    row, level = draw(_rows(operator, {}))
    return draw(_along_axes(operator, row, level, {"AxisDirection": direction.name}))


@st.composite
def _along_axes(
    draw: st.DrawFn, operator: Operator[Any], row: SupportRow, level: FeatureLevel, fields: dict[str, object]
) -> Case:
    limits, output = row.tensors["InputTensor"], row.tensors["OutputTensor"]
    data_type = draw(st.sampled_from(limits.data_types))
    sizes = draw(_sizes(draw(st.integers(*limits.ranks))))
    axes = draw(st.lists(st.sampled_from(range(len(sizes))), unique=True))
    same_type = output.data_types == limits.data_types
    result = data_type if same_type else draw(st.sampled_from(output.data_types))
    reduced = tuple(1 if i in axes else size for i, size in enumerate(sizes))
    fields |= {"Axes": axes, **draw(_maybe("AxisCount", st.just(len(axes))))}
    if draw(st.booleans()):
        fields["OutputTensor"] = draw(_outputs(result, reduced))
    return draw(_with_input(operator, level, fields, data_type, sizes))


@st.composite
def _poolings(draw: st.DrawFn, operator: Operator[Any]) -> Case:
    names = [member.name for member in operator.members.every]
    row, level = draw(_rows(operator, {}))
    limits = row.tensors["InputTensor"]
    data_type = draw(st.sampled_from(limits.data_types))
    sizes = draw(_sizes(draw(st.integers(*limits.ranks))))
    dimensions = [draw(_dimensions(size, dilated="Dilations" in names)) for size in sizes[2:]]
    fields: dict[str, Any] = {
        name: [dimension[name] for dimension in dimensions]
        for name in ("Strides", "WindowSize", "StartPadding", "EndPadding", "Dilations")
        if name in names
    }
    fields |= draw(_maybe("DimensionCount", st.just(len(dimensions))))
    results = (*sizes[:2], *(dimension["size"] for dimension in dimensions))
    if draw(st.booleans()) or any(dimension["ceiling"] for dimension in dimensions):
        fields["OutputTensor"] = draw(_outputs(data_type, results))
    if "OutputIndicesTensor" in names and draw(st.booleans()):
        index_type = draw(st.sampled_from(row.tensors["OutputIndicesTensor"].data_types))
        fields["OutputIndicesTensor"] = draw(_outputs(index_type, results))
    return draw(_with_input(operator, level, fields, data_type, sizes))


_FAMILIES: dict[str, Callable[[Operator[Any]], st.SearchStrategy[Case]]] = {
    "REDUCE": _reductions,
    "MAX_POOLING": _poolings,
    "MAX_POOLING1": _poolings,
    "MAX_POOLING2": _poolings,
    "ARGMIN": _arg_reductions,
    "ARGMAX": _arg_reductions,
}


@st.composite
def _rows(
    draw: st.DrawFn, operator: Operator[Any], attributes: Mapping[str, object]
) -> tuple[SupportRow, FeatureLevel]:
    rows = operator.support.rows(attributes)
    levels = [level for level in FeatureLevel if level >= rows[-1].level]
    level = draw(st.sampled_from(levels[::-1]))
    row = row_for(rows, level)
    assert row is not None
    return row, level


@st.composite
def _maybe(draw: st.DrawFn, name: str, values: st.SearchStrategy[object]) -> dict[str, object]:
    return {name: draw(values)} if draw(st.booleans()) else {}


@st.composite
def _sizes(draw: st.DrawFn, rank: int) -> tuple[int, ...]:
    sizes = []
    left = MOST_ELEMENTS
    for _ in range(rank):
        sizes.append(draw(st.integers(1, min(5, left))))
        left //= sizes[-1]
    return tuple(draw(st.permutations(sizes)))


@st.composite
def _dimensions(draw: st.DrawFn, size: int, *, dilated: bool) -> dict[str, int]:
    """Draws one spatial dimension of a pooling in which every window contains an element."""
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3)) if dilated else 1
    window = draw(st.integers(1, 1 + (size - 1) // dilation))
    start, end = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    if dilated and draw(st.booleans()):
        window = draw(st.integers(1, 1 + (size + start + end - 1) // dilation))
    count = 1 + (size + start + end - 1 - (window - 1) * dilation) // stride
    ceiling = -(-(size + start + end - 1 - (window - 1) * dilation) // stride) + 1
    rounded_up = ceiling > count and draw(st.booleans())
    members = {
        "Strides": stride,
        "WindowSize": window,
        "StartPadding": start,
        "EndPadding": end,
        "Dilations": dilation,
        "size": ceiling if rounded_up else count,
        "ceiling": int(rounded_up),
    }
    if _each_window_reaches(size, members):
        return members
    return members | {
        "WindowSize": 1,
        "StartPadding": 0,
        "EndPadding": 0,
        "size": 1 + (size - 1) // stride,
        "ceiling": 0,
    }


def _each_window_reaches(size: int, members: Mapping[str, int]) -> bool:
    pooling = MaxPooling(
        *((members[name],) for name in ("Strides", "WindowSize", "StartPadding", "EndPadding", "Dilations"))
    )
    return all(
        any(0 <= oracle.window_position(pooling, (at,), (offset,))[0] < size for offset in range(members["WindowSize"]))
        for at in range(members["size"])
    )


@st.composite
def _outputs(draw: st.DrawFn, data_type: DataType, sizes: tuple[int, ...]) -> dict[str, object]:
    fields: dict[str, object] = {"DataType": data_type.name, "Sizes": list(sizes)}
    if draw(st.booleans()):
        fields["Strides"] = draw(_separate_strides(sizes))
    return fields


@st.composite
def _separate_strides(draw: st.DrawFn, sizes: tuple[int, ...]) -> list[int]:
    """Draws strides in any order of the dimensions, with gaps but without overlaps."""
    strides = [0] * len(sizes)
    step = draw(st.integers(1, 2))
    for i in draw(st.permutations(range(len(sizes)))):
        strides[i] = step
        step = step * sizes[i] + (draw(st.integers(0, 2)) if sizes[i] > 1 else 0)
    return strides


@st.composite
def _any_strides(draw: st.DrawFn, sizes: tuple[int, ...]) -> list[int]:
    """Draws strides that only inputs may have, with repeats and overlaps."""
    strides = draw(_separate_strides(sizes))
    return [draw(st.sampled_from([stride, stride, 0, 1])) for stride in strides]


@st.composite
def _with_input(
    draw: st.DrawFn,
    operator: Operator[Any],
    level: FeatureLevel,
    fields: dict[str, Any],
    data_type: DataType,
    sizes: tuple[int, ...],
) -> Case:
    strides = draw(st.none() | _any_strides(sizes))
    desc = BufferTensorDesc(data_type, sizes, None if strides is None else tuple(strides))
    tensor: dict[str, object] = {"DataType": data_type.name, "Sizes": list(sizes)}
    if strides is not None:
        tensor["Strides"] = strides
    buffer = draw(buffers(data_type, desc.extent))
    kind = {"type": draw(st.sampled_from(["", "DML_OPERATOR_"])) + operator.name}
    request = {**kind, "desc": {"InputTensor": tensor, **fields}}
    return Case(request, level, {"InputTensor": logical(desc, buffer)}, {"InputTensor": buffer})


@st.composite
def buffers(draw: st.DrawFn, data_type: DataType, count: int) -> bytes:
    """Draws the bytes of ``count`` elements from a few distinct ones, so that ties and cancellation are common."""
    pool = draw(st.lists(draw(st.sampled_from(_pools(data_type))), min_size=1, max_size=8))
    chosen = random.Random(draw(st.integers(0, 2**16))).choices(pool, k=count)
    if data_type.bits < 8:
        return bytes(low | high << 4 for low, high in zip(chosen[0::2], [*chosen[1::2], 0], strict=False))
    return np.array(chosen, np.dtype(f"<u{data_type.bits // 8}")).tobytes()


def _pools(data_type: DataType) -> tuple[st.SearchStrategy[int], ...]:
    """Returns strategies for the bits of an element."""
    anything = st.integers(0, 2**data_type.bits - 1)
    if data_type.bits < 8:
        return (anything,)
    common = np.array([-2, -1, 0, 1, 2, 3, 7], np.int64).astype(data_type.dtype)
    if not data_type.is_float:
        limits = np.iinfo(data_type.dtype)
        edges = np.array([limits.min, limits.min + 1, limits.max - 1, limits.max], data_type.dtype)
        return anything, _of(common), _of(edges)
    info = np.finfo(data_type.dtype)
    top, one, least = float(info.max), 1 + float(info.eps), float(info.smallest_subnormal)
    specials = [0.0, -0.0, 1.0, -1.0, one, -one, top, -top, least, -least, 3 * least, float(info.smallest_normal)]
    large = 2.0**info.nmant
    halves = [large, -large, large + 1, 0.5, -0.5, 0.25, 1.5, 2 * large, least, -least]
    return (
        anything,
        _of(common),
        _of(np.array(specials, data_type.dtype)),
        _of(np.array([*specials, math.nan, math.inf, -math.inf, -math.nan], data_type.dtype)),
        _of(np.array(halves, data_type.dtype)),
    )


def _of(values: Array) -> st.SearchStrategy[int]:
    return st.sampled_from(values.view(f"<u{values.dtype.itemsize}").tolist())
