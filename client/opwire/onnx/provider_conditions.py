"""What ONNX Runtime's DirectML provider asks of a node, and what its choice of DirectML operators depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .nodes import ModelNode
from .types import element_type_name
from .values import Value


@dataclass(frozen=True, slots=True)
class Seen:
    """A node as the provider sees it.

    Attributes:
        node: the node.
        values: the tensors of the model by name; those of a function's body are not among them.
    """

    node: ModelNode
    values: Mapping[str, Value]

    def attribute(self, name: str, default: Any = None) -> Any:
        return self.node.attributes.get(name, default)

    def has(self, i: int) -> bool:
        """Returns whether input ``i`` is given."""
        return i < len(self.node.inputs) and bool(self.node.inputs[i])

    def has_output(self, i: int) -> bool:
        return i < len(self.node.outputs) and bool(self.node.outputs[i])

    def input(self, i: int) -> Value | None:
        """Returns input ``i``, or None if it is left out or unknown."""
        return self.values.get(self.node.inputs[i]) if self.has(i) else None

    def output(self, i: int) -> Value | None:
        return self.values.get(self.node.outputs[i]) if self.has_output(i) else None

    def sizes(self, i: int) -> Sequence[int]:
        """Returns the sizes of input ``i``, () if they are not known."""
        value = self.input(i)
        return (None if value is None else value.sizes) or ()

    def type(self, i: int) -> str:
        """Returns the type of input ``i``, as ONNX Runtime writes it, or ""."""
        return type_name(self.input(i))


def type_name(value: Value | None) -> str:
    """Returns the type of a tensor as ONNX Runtime writes it: ``float16``, ``seq(float)``; "" if unknown."""
    if value is None or value.type is None:
        return ""
    if value.type.HasField("sequence_type"):
        return f"seq({element_type_name(value.type.sequence_type.elem_type.tensor_type.elem_type)})"
    return element_type_name(value.element_type) if value.element_type else ""


def _is_dilated(seen: Seen) -> bool:
    return any(each != 1 for each in seen.attribute("dilations") or ())


def _scalar_exponent(seen: Seen) -> bool:
    value = seen.input(1)
    return value is not None and value.is_constant and all(size == 1 for size in value.sizes or ())


def _unsigned_without_zero_point(seen: Seen) -> bool:
    quantized = type_name(seen.output(0)) if seen.node.proto.op_type == "QuantizeLinear" else seen.type(0)
    return not seen.has(2) and quantized.startswith("uint")


def _labels(seen: Seen) -> tuple[list[str], str]:
    """Returns the labels of each input and of the output of an Einsum."""
    given, _, output = str(seen.attribute("equation", "")).replace(" ", "").partition("->")
    inputs = given.split(",")
    if "->" not in str(seen.attribute("equation", "")):
        output = "".join(sorted(each for each in set(given) - {","} if given.count(each) == 1))
    return inputs, output


def _labels_kept(seen: Seen) -> bool:
    inputs, output = _labels(seen)
    return set("".join(inputs)) <= set(output)


def _matrix_product(seen: Seen) -> bool:
    inputs, output = _labels(seen)
    summed = set("".join(inputs)) - set(output)
    return len(summed) == 1 and len(output) <= 4 and set(inputs[0]) != set(inputs[1])


def _mixed_types(seen: Seen) -> bool:
    return seen.has(1) and seen.type(0) != seen.type(1)


def _other_value_size(seen: Seen) -> bool:
    sizes: Sequence[int] = seen.attribute("qkv_hidden_sizes") or ()
    return len(sizes) == 3 and sizes[0] != sizes[2]


CONDITIONS: Mapping[str, Callable[[Seen], bool]] = {
    "alpha_1": lambda seen: float(seen.attribute("alpha", 1.702)) == 1.0,
    "channels_last": lambda seen: bool(seen.attribute("channels_last", 1)),
    "dilated": _is_dilated,
    "empty_indices": lambda seen: 0 in seen.sizes(1),
    "fmod": lambda seen: bool(seen.attribute("fmod", 0)),
    "half": lambda seen: seen.type(0) == "float16",
    "labels_kept": _labels_kept,
    "mask_and_positions": lambda seen: seen.has(7) and seen.has(8),
    "matrix_product": _matrix_product,
    "mixed_types": _mixed_types,
    "ninth_input": lambda seen: seen.has(8),
    "one_input": lambda seen: len(seen.node.inputs) == 1,
    "one_token": lambda seen: len(seen.sizes(0)) > 1 and seen.sizes(0)[1] == 1,
    "other_value_size": _other_value_size,
    "scalar_exponent": _scalar_exponent,
    "second_input": lambda seen: seen.has(1),
    "second_output": lambda seen: seen.has_output(1),
    "shifted_left": lambda seen: seen.attribute("direction") == "LEFT",
    "swish": lambda seen: bool(seen.attribute("activation", 0)),
    "to_bool": lambda seen: type_name(seen.output(0)) == "bool",
    "two_inputs": lambda seen: len(seen.node.inputs) == 2,
    "unidirectional": lambda seen: bool(seen.attribute("unidirectional", 0)),
    "unsigned": lambda seen: seen.type(0).startswith("uint"),
    "unsigned_without_zero_point": _unsigned_without_zero_point,
}
"""What the choice among the operators of a lowering depends on, by the names in ``provider.json``."""


def _one_type(seen: Seen) -> str:
    if len({seen.type(i) for i in range(5)} - {""}) > 1:
        return "its tensors are of several types"
    if not all(seen.has(i) for i in range(5)):
        return "it has fewer than 5 inputs"
    return "its training_mode is 1" if seen.attribute("training_mode", 0) else ""


def _resize(seen: Seen) -> str:
    if seen.attribute("mode") == "cubic":
        return "its mode is cubic"
    if seen.attribute("exclude_outside", 0):
        return "its exclude_outside is 1"
    return "its extrapolation_value is not 0" if seen.attribute("extrapolation_value", 0.0) else ""


def _equation(seen: Seen) -> str:
    inputs, output = _labels(seen)
    if len(inputs) > 2:
        return f"its equation has {len(inputs)} operands, and at most 2 are taken"
    has_other = any(not each.isalpha() for each in ("".join(inputs), output) if each)
    return "its equation has something else than letters" if has_other else ""


def _plain_attention(seen: Seen) -> str:
    if seen.has(4) or seen.has(6) or seen.has_output(1):
        return "it has past or present keys and values"
    for name in ("unidirectional", "do_rotary", "past_present_share_buffer"):
        if seen.attribute(name, 0):
            return f"its {name} is 1"
    return ""


def _plain_quantized_attention(seen: Seen) -> str:
    if seen.attribute("unidirectional", 0) and seen.has(5):
        return "its unidirectional is 1 and it has a mask"
    for name in ("do_rotary", "past_present_share_buffer"):
        if seen.attribute(name, 0):
            return f"its {name} is 1"
    return ""


def _whole_blocks(seen: Seen) -> str:
    bits, columns, block = (int(seen.attribute(name, 0)) for name in ("bits", "K", "block_size"))
    if bits not in (4, 8):
        return f"its bits are {bits}, not 4 or 8"
    return f"its K {columns} is not a multiple of its block_size {block}" if not block or columns % block else ""


QUERIES: Mapping[str, Callable[[Seen], str]] = {
    "both_zero_points": lambda seen: "" if seen.has(2) and seen.has(4) else "it lacks a zero point",
    "five_inputs": lambda seen: "it has more than 5 inputs" if len(seen.node.inputs) > 5 else "",
    "inference": _one_type,
    "no_cubic": _resize,
    "no_negative_pads": lambda seen: (
        "its pads are negative" if any(x < 0 for x in seen.attribute("pads") or ()) else ""
    ),
    "no_reduction": lambda seen: _other_than(seen, "reduction", "none"),
    "no_statistics": lambda seen: (
        "its mean or deviation is an output" if seen.has_output(1) or seen.has_output(2) else ""
    ),
    "one_output": lambda seen: "it has more than 1 output" if len(seen.node.outputs) > 1 else "",
    "plain_attention": _plain_attention,
    "plain_equation": _equation,
    "plain_quantized_attention": _plain_quantized_attention,
    "row_major": lambda seen: _other_than(seen, "storage_order", 0),
    "time_first": lambda seen: _other_than(seen, "layout", 0),
    "whole_blocks": _whole_blocks,
}
"""The conditions of rows, by the names in ``provider.json``: each returns why a node breaks it, or ""."""


def _other_than(seen: Seen, name: str, expected: object) -> str:
    value = seen.attribute(name, expected)
    return "" if value == expected else f"its {name} is {value}"
