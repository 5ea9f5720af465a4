"""What the families share whose operators compute each element of the output from those of the inputs at its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..operator import Attributes, Example, Operator, declare
from ..rules import Rule, like, same_rank, same_sizes, same_type
from .work import elements_written


def unary(name: str, *rules: Rule | tuple[Rule, ...], examples: tuple[Example, ...] = ()) -> Operator[Attributes]:
    """An operator whose output is like its one input."""
    outputs = {"OutputTensor": like("InputTensor")}
    return declare(name, rules=rules, outputs=outputs, work=elements_written, examples=examples)


def binary(name: str, *rules: Rule | tuple[Rule, ...], examples: tuple[Example, ...] = ()) -> Operator[Attributes]:
    """An operator of two inputs that are alike, and whose output is like them. Strides of 0 broadcast."""
    return declare(
        name,
        rules=(*alike("ATensor", "BTensor"), *rules),
        outputs={"OutputTensor": like("ATensor")},
        work=elements_written,
        examples=examples,
    )


def gradient(name: str, *rules: Rule | tuple[Rule, ...]) -> Operator[Attributes]:
    """An operator that passes the gradient of its input on."""
    return declare(
        name,
        rules=(*alike("InputTensor", "InputGradientTensor"), *rules),
        outputs={"OutputGradientTensor": like("InputTensor")},
        work=lambda _, tensors: int(tensors["OutputGradientTensor"].element_count),
    )


def alike(*tensors: str) -> tuple[Rule, Rule, Rule]:
    """``type``, ``rank`` and ``Sizes`` of the tensors are equal."""
    return same_type(*tensors), same_rank(*tensors), same_sizes(*tensors)


def vectors(
    name: str, attributes: Mapping[str, Any], inputs: Mapping[str, list[Any]], output: list[Any], source: str = ""
) -> Example:
    """An example whose tensors are FLOAT32 vectors of one length."""
    tensors = {tensor: {"DataType": "FLOAT32", "Sizes": [len(output)]} for tensor in inputs}
    return Example(
        name=name, desc={**tensors, **attributes}, inputs=inputs, outputs={"OutputTensor": output}, source=source
    )
