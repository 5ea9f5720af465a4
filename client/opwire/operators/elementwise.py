"""What the families share whose operators compute each element of the output from those of the inputs at its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..formulas import Expression
from ..operator import Attributes, BadExample, Example, Operator, Tensors, declare
from ..rules import Output, Rule, like, same_rank, same_sizes, same_type
from .work import elements_written


def unary(
    name: str,
    *rules: Rule | tuple[Rule, ...],
    formula: Expression | None = None,
    output: Output | None = None,
    work: Callable[[Attributes, Tensors], int] = elements_written,
    examples: tuple[Example, ...] = (),
    bad_examples: tuple[BadExample, ...] = (),
) -> Operator[Attributes]:
    """An operator whose output is like its one input, unless another output is given."""
    outputs = {"OutputTensor": output or like("InputTensor")}
    return declare(
        name,
        rules=rules,
        outputs=outputs,
        work=work,
        formula=formula,
        examples=examples,
        bad_examples=bad_examples,
    )


def binary(
    name: str,
    *rules: Rule | tuple[Rule, ...],
    formula: Expression,
    output: Output | None = None,
    examples: tuple[Example, ...] = (),
    bad_examples: tuple[BadExample, ...] = (),
) -> Operator[Attributes]:
    """An operator of two inputs that are alike, and whose output is like them, unless another one is given.

    Strides of 0 broadcast.
    """
    return declare(
        name,
        rules=(*alike("ATensor", "BTensor"), *rules),
        outputs={"OutputTensor": output or like("ATensor")},
        work=elements_written,
        formula=formula,
        examples=examples,
        bad_examples=bad_examples,
    )


def gradient(
    name: str, *rules: Rule | tuple[Rule, ...], formula: Expression, examples: tuple[Example, ...] = ()
) -> Operator[Attributes]:
    """An operator that passes the gradient of its input on."""
    return declare(
        name,
        rules=(*alike("InputTensor", "InputGradientTensor"), *rules),
        outputs={"OutputGradientTensor": like("InputTensor")},
        work=lambda _, tensors: int(tensors["OutputGradientTensor"].element_count),
        formula=formula,
        examples=examples,
    )


def alike(*tensors: str) -> tuple[Rule, Rule, Rule]:
    """``type``, ``rank`` and ``Sizes`` of the tensors are equal."""
    return same_type(*tensors), same_rank(*tensors), same_sizes(*tensors)


def vectors(
    name: str,
    attributes: Mapping[str, Any],
    inputs: Mapping[str, list[Any]],
    output: list[Any],
    source: str = "",
    into: str = "OutputTensor",
) -> Example:
    """An example whose tensors are FLOAT32 vectors of one length."""
    tensors = {tensor: {"DataType": "FLOAT32", "Sizes": [len(output)]} for tensor in inputs}
    return Example(name=name, desc={**tensors, **attributes}, inputs=inputs, outputs={into: output}, source=source)


def typed_vectors(
    name: str, inputs: Mapping[str, tuple[str, list[Any]]], output: list[Any], **attributes: Any
) -> Example:
    """An example whose tensors are vectors of one length: the data type and the elements of each input."""
    tensors = {tensor: {"DataType": data_type, "Sizes": [len(output)]} for tensor, (data_type, _) in inputs.items()}
    return Example(
        name=name,
        desc={**tensors, **attributes},
        inputs={tensor: elements for tensor, (_, elements) in inputs.items()},
        outputs={"OutputTensor": output},
    )
