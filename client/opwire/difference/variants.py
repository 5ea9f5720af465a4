"""Operators as they are when somebody gets a detail wrong: other flags, axes, paddings, epsilons, gates, ties."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Any

import numpy as np

from ..fields import Enumerated
from ..schema import CATALOG, schema_of
from ..tensor import Array
from .chain import Operation, shaped

Inputs = dict[str, Array]

Run = Callable[[Operation, Inputs], Inputs]
"""Runs an operator."""


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """Another way to compute an operator.

    Attributes:
        name: what is different.
        compute: returns the elements of its outputs, given a function that runs an operator.
    """

    name: str
    compute: Callable[[Operation, Inputs, Run], Inputs]


def variants(operation: Operation) -> Iterator[Variant]:
    """Yields the variants of an operator, those that are mistaken most often first."""
    for name, rows in _SPECIAL.items():
        if name in (operation.type, CATALOG[operation.type].family):
            for row in rows:
                yield from row(operation)
    for general in (_without_tensors, _other_flags, _other_axes, _other_epsilon, _other_padding, _other_choices):
        yield from general(operation)


def _desc(name: str, **changes: Any) -> Variant:
    def compute(operation: Operation, inputs: Inputs, run: Run) -> Inputs:
        return run(replace(operation, desc={**operation.desc, **changes}), inputs)

    return Variant(name, compute)


def _without_tensors(operation: Operation) -> Iterator[Variant]:
    for member, name in (
        ("BiasTensor", "bias left out"),
        ("CTensor", "bias left out"),
        ("ScaleTensor", "scale left out"),
    ):
        if member in operation.inputs:
            yield Variant(name, _dropping(member))


def _dropping(member: str) -> Callable[..., Inputs]:
    def compute(operation: Operation, inputs: Inputs, run: Run) -> Inputs:
        value = inputs[member].dtype.type(1 if member == "ScaleTensor" else 0)
        return run(operation, {**inputs, member: np.full_like(inputs[member], value)})

    return compute


_ROUNDINGS = {
    "HALVES_TO_NEAREST_EVEN": "halves rounded to even",
    "TOWARD_ZERO": "rounded toward zero",
    "TOWARD_INFINITY": "rounded toward infinity",
}

_FLAGS = {
    ("IncludePadding", False): "padding counted",
    ("IncludePadding", True): "padding not counted",
    ("UseMean", True): "mean not subtracted",
    ("UseVariance", True): "not divided by the deviation",
    ("NormalizeVariance", True): "not divided by the deviation",
}


def _other_flags(operation: Operation) -> Iterator[Variant]:
    for name, value in operation.desc.items():
        if isinstance(value, bool):
            yield _desc(_FLAGS.get((name, value), f"{name} {not value}"), **{name: not value})


def _other_axes(operation: Operation) -> Iterator[Variant]:
    desc = operation.desc
    rank = next(iter(operation.tensors.values())).rank
    if isinstance(desc.get("Axis"), int):
        for axis in range(rank):
            if axis != desc["Axis"]:
                yield _desc(f"axis {axis} instead of {desc['Axis']}", Axis=axis)
    axes = desc.get("Axes")
    if isinstance(axes, list):
        for count in range(1, rank + 1):
            for others in combinations(range(rank), count):
                if sorted(axes) != list(others):
                    yield _desc(f"axes {[*others]} instead of {axes}", Axes=[*others])


def _other_epsilon(operation: Operation) -> Iterator[Variant]:
    epsilon = operation.desc.get("Epsilon")
    if epsilon is None:
        return
    for other in (0.0, 1e-3, 1e-5, 1e-6, 1e-8, 1e-12):
        if other != epsilon:
            yield _desc("epsilon left out" if not other else f"epsilon {other:g} instead of {epsilon:g}", Epsilon=other)


def _other_padding(operation: Operation) -> Iterator[Variant]:
    start, end = operation.desc.get("StartPadding"), operation.desc.get("EndPadding")
    if not start or not end:
        return
    if start != end:
        yield _desc("padding at the start and the end swapped", StartPadding=end, EndPadding=start)
    count = len(start)
    for by in (1, -1):
        places = [[by] * count, *([by if i == j else 0 for i in range(count)] for j in range(count))]
        for step in places:
            first = [each + move for each, move in zip(start, step, strict=True)]
            last = [each - move for each, move in zip(end, step, strict=True)]
            if min(*first, *last) >= 0:
                yield _desc(
                    f"padding from {first} to {last} instead of {start} to {end}", StartPadding=first, EndPadding=last
                )
    if "PaddingValue" in operation.desc and operation.desc["PaddingValue"] != 0:
        yield _desc("padded with 0", PaddingValue=0.0)


_CHOICES = {
    "AxisDirection": "the other one on ties, or the other direction",
    "RoundingDirection": "the other direction on ties",
    "Mode": "the filter reversed",
    "TransA": "A transposed, or not",
    "TransB": "B transposed, or not",
    "Order": "the other order of depth and blocks",
}


def _other_choices(operation: Operation) -> Iterator[Variant]:
    for member in schema_of(operation.type).members.attributes:
        if not isinstance(member, Enumerated) or member.name not in operation.desc:
            continue
        value = str(operation.desc[member.name])
        for other in member.type:
            if not value.endswith(other.name):
                said = _CHOICES.get(member.name, f"{member.name} {other.name} instead of {value}")
                said = _ROUNDINGS.get(other.name, said)
                yield _desc(said, **{member.name: other.name})


def _function(
    name: str, change: Callable[[Array, Mapping[str, Any]], Array]
) -> Callable[[Operation], Iterator[Variant]]:
    """Returns a row that computes another function of the input."""

    def row(operation: Operation) -> Iterator[Variant]:
        def compute(operation: Operation, inputs: Inputs, run: Run) -> Inputs:
            given = inputs["InputTensor"]
            return {"OutputTensor": change(given.astype(np.float64), operation.desc).astype(given.dtype)}

        yield Variant(name, compute)

    return row


def half_away(values: Array) -> Array:
    """Returns numbers rounded to the nearest integer, and halves away from zero."""
    return np.asarray(np.copysign(np.floor(np.abs(values) + 0.5), values))


def _epsilon_outside(operation: Operation) -> Iterator[Variant]:
    """The deviation plus epsilon instead of the root of the variance plus epsilon."""
    epsilon = float(operation.desc.get("Epsilon", 0))

    def batch(operation: Operation, inputs: Inputs, run: Run) -> Inputs:
        variance = inputs["VarianceTensor"]
        outside = np.square(np.sqrt(variance.astype(np.float64)) + epsilon).astype(variance.dtype)
        return run(replace(operation, desc={**operation.desc, "Epsilon": 0.0}), {**inputs, "VarianceTensor": outside})

    if operation.type == "BATCH_NORMALIZATION":
        yield Variant("epsilon outside the root", batch)
    elif "InputTensor" in operation.inputs and operation.type.startswith("MEAN_VARIANCE"):
        yield Variant("epsilon outside the root", _renormalized(lambda variance, n: (np.sqrt(variance) + epsilon) ** 2))
        yield Variant(
            "the variance divided by one less than the count",
            _renormalized(lambda variance, n: variance * (n / max(n - 1, 1)) + epsilon),
        )


def _renormalized(squared: Callable[[Array, int], Array]) -> Callable[..., Inputs]:
    """Returns what computes a normalization with another square of the deviation, by moving its scale."""

    def compute(operation: Operation, inputs: Inputs, run: Run) -> Inputs:
        tensor = operation.tensors["InputTensor"]
        if tensor.strides is not None:
            return {}
        x = inputs["InputTensor"].astype(np.float64).reshape(tensor.sizes)
        desc = operation.desc
        axes = tuple(desc.get("Axes", range(1 if desc.get("CrossChannel") else 2, tensor.rank)))
        mean = x.mean(axis=axes, keepdims=True) if desc.get("UseMean", True) else 0.0
        variance = np.mean(np.square(x - mean), axis=axes, keepdims=True)
        n = int(np.prod([tensor.sizes[axis] for axis in axes]))
        ratio = np.sqrt((variance + float(desc.get("Epsilon", 0))) / squared(variance, n))
        bias = inputs.get("BiasTensor")
        zero = {} if bias is None else {"BiasTensor": np.zeros_like(bias)}
        found = run(operation, {**inputs, **zero})["OutputTensor"].astype(np.float64).reshape(tensor.sizes) * ratio
        if bias is not None:
            found = found + shaped(bias, operation.tensors["BiasTensor"])
        return {"OutputTensor": found.astype(inputs["InputTensor"].dtype).reshape(-1)}

    return compute


_GATES = {"LSTM": "iofc", "GRU": "zrh"}


def _gate_orders(operation: Operation) -> Iterator[Variant]:
    names = _GATES.get(operation.type, "")
    for order in permutations(range(len(names))):
        if [*order] != sorted(order):
            said = f"gates in the order {''.join(names[i] for i in order)} instead of {names}"
            yield Variant(said, _ordered(order))


def _ordered(order: tuple[int, ...]) -> Callable[..., Inputs]:
    def compute(operation: Operation, inputs: Inputs, run: Run) -> Inputs:
        changed = dict(inputs)
        for name in ("WeightTensor", "RecurrenceTensor", "BiasTensor"):
            if name in inputs:
                sizes = operation.sizes(name)
                *_, directions, rows, columns = (*sizes, 1) if name == "BiasTensor" else (1, 1, *sizes)
                blocks = len(order) * (2 if name == "BiasTensor" else 1)
                split = inputs[name].reshape(directions, blocks // len(order), len(order), rows // blocks, columns)
                changed[name] = np.ascontiguousarray(split[:, :, list(order)]).reshape(-1)
        return run(operation, changed)

    return compute


def _other_coordinates(operation: Operation) -> Iterator[Variant]:
    """The modes of coordinates of ONNX's Resize."""
    desc = operation.desc
    if "InputPixelOffsets" not in desc:
        return
    rank = len(desc["Scales"])
    for name, into, out in (("half_pixel", 0.5, -0.5), ("asymmetric", 0.0, 0.0), ("shifted by half a pixel", 0.5, 0.0)):
        changes = {"InputPixelOffsets": [into] * rank, "OutputPixelOffsets": [out] * rank}
        if any(desc[key] != value for key, value in changes.items()):
            yield _desc(f"coordinates: {name}", **changes)
    sizes = [operation.sizes(name) for name in ("InputTensor", "OutputTensor")]
    aligned = [(b - 1) / (a - 1) if a > 1 and b > 1 else float(b) / a for a, b in zip(*sizes, strict=True)]
    zeros = [0.0] * rank
    yield _desc("coordinates: align_corners", Scales=aligned, InputPixelOffsets=zeros, OutputPixelOffsets=zeros)


def _last_on_ties(operation: Operation) -> Iterator[Variant]:
    """The axis reversed before and after, so that the other one of equal elements comes first."""
    desc = operation.desc
    axes = (desc["Axis"],) if "Axis" in desc else tuple(desc.get("Axes", [operation.tensors["InputTensor"].rank - 1]))

    def compute(operation: Operation, inputs: Inputs, run: Run) -> Inputs:
        sizes = operation.sizes("InputTensor")
        if operation.tensors["InputTensor"].strides is not None:
            return {}
        given = {"InputTensor": np.ascontiguousarray(np.flip(inputs["InputTensor"].reshape(sizes), axes)).reshape(-1)}
        found = run(operation, {**inputs, **given})
        count = int(np.prod([sizes[axis] for axis in axes]))
        for name, array in found.items():
            if "Index" in name or operation.type in ("ARGMAX", "ARGMIN", "REDUCE"):
                found[name] = (count - 1 - array.astype(np.int64)).astype(array.dtype)
            elif "HARDMAX" in operation.type:
                found[name] = np.ascontiguousarray(np.flip(array.reshape(sizes), axes)).reshape(-1)
        return found

    yield Variant("the last instead of the first on ties", compute)


def _softmax_axes(operation: Operation) -> Iterator[Variant]:
    """Other axes of the operators that have the last one only."""
    if operation.type.endswith("1"):
        return
    rank = operation.tensors["InputTensor"].rank
    for axes in [*([axis] for axis in range(rank - 1)), *([*range(axis, rank)] for axis in range(rank - 1))]:

        def compute(operation: Operation, inputs: Inputs, run: Run, axes: list[int] = axes) -> Inputs:
            changed = replace(operation, type=f"{operation.type}1", desc={**operation.desc, "Axes": axes})
            return run(changed, inputs)

        yield Variant(f"axes {axes} instead of [{rank - 1}]", compute)


def _quantized(operation: Operation) -> Iterator[Variant]:
    """Other roundings of a quotient, before the zero point is added."""
    yield from _other_roundings()
    yield Variant("saturation missing: integers wrap", _quantizing(np.rint, wraps=True))


def _other_roundings() -> Iterator[Variant]:
    for name, rounding in (
        ("halves rounded away from zero", half_away),
        ("rounded toward zero", np.trunc),
        ("rounded down", np.floor),
    ):
        yield Variant(name, _quantizing(rounding))


def quantized_ties(operation: Operation) -> Iterator[Variant]:
    """Yields other rules for quotients halfway between integers, for operators that round them to even."""
    if operation.type == "ELEMENT_WISE_QUANTIZE_LINEAR":
        yield from _other_roundings()


def _quantizing(rounding: Callable[[Array], Array], *, wraps: bool = False) -> Callable[..., Inputs]:
    def compute(operation: Operation, inputs: Inputs, run: Run) -> Inputs:
        def logical(name: str) -> Array:
            return shaped(inputs[name], operation.tensors[name]).astype(np.float64)

        quotient = rounding(logical("InputTensor") / logical("ScaleTensor"))
        zero = logical("ZeroPointTensor") if "ZeroPointTensor" in inputs else 0.0
        dtype = operation.tensors["OutputTensor"].data_type.dtype
        if wraps:
            found = (quotient + zero).astype(np.int64).astype(dtype)
        else:
            found = np.clip(quotient + zero, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
        return {"OutputTensor": np.ascontiguousarray(found).reshape(-1)}

    return compute


def _swapped(operation: Operation) -> Iterator[Variant]:
    """Only one of two operands, or the two exchanged."""
    if {*operation.inputs} != {"ATensor", "BTensor"}:
        return

    def picking(name: str) -> Callable[..., Inputs]:
        def compute(operation: Operation, inputs: Inputs, run: Run) -> Inputs:
            found = shaped(inputs[name], operation.tensors[name])
            return {"OutputTensor": np.ascontiguousarray(found).reshape(-1)}

        return compute

    def exchange(operation: Operation, inputs: Inputs, run: Run) -> Inputs:
        tensors = {"ATensor": operation.tensors["BTensor"], "BTensor": operation.tensors["ATensor"]}
        desc = {**operation.desc, **{name: tensor.to_json() for name, tensor in tensors.items()}}
        changed = replace(operation, desc=desc, tensors={**operation.tensors, **tensors})
        return run(changed, {"ATensor": inputs["BTensor"], "BTensor": inputs["ATensor"]})

    yield Variant("bias or second operand left out", picking("ATensor"))
    yield Variant("first operand left out", picking("BTensor"))
    yield Variant("operands exchanged", exchange)


_PAIRS = (
    ("ELEMENT_WISE_FLOOR", "ELEMENT_WISE_CEIL"),
    ("ELEMENT_WISE_MODULUS_TRUNCATE", "ELEMENT_WISE_MODULUS_FLOOR"),
    ("ELEMENT_WISE_MAX", "ELEMENT_WISE_MIN"),
    ("ELEMENT_WISE_LOGICAL_GREATER_THAN", "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL"),
    ("ELEMENT_WISE_LOGICAL_LESS_THAN", "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL"),
)
"""Operators that are taken for each other, of the same members."""


def _other_types(operation: Operation) -> Iterator[Variant]:
    for other in (name for pair in _PAIRS if operation.type in pair for name in pair if name != operation.type):

        def compute(operation: Operation, inputs: Inputs, run: Run, other: str = other) -> Inputs:
            return run(replace(operation, type=other), inputs)

        yield Variant(f"{other} instead of {operation.type}", compute)


_identity = _function("activation left out", lambda x, desc: x)
_SPECIAL: Mapping[str, tuple[Callable[[Operation], Iterator[Variant]], ...]] = {
    "activations": (_identity,),
    "ELEMENT_WISE_ROUND": (_function("halves rounded away from zero", lambda x, desc: half_away(x)),),
    "normalization": (_epsilon_outside,),
    "recurrent": (_gate_orders,),
    "resampling": (_other_coordinates,),
    "selection": (_last_on_ties,),
    "argreduce": (_last_on_ties,),
    "reduce": (_last_on_ties,),
    "softmax": (_softmax_axes, _last_on_ties),
    "ELEMENT_WISE_QUANTIZE_LINEAR": (_quantized,),
    "arithmetic": (_swapped, _other_types),
    "functions": (_other_types,),
    "logic": (_other_types,),
}
"""Variants of operators and families."""
