"""Shared by the families of element-wise operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..formulas import Expression
from ..operator import Attributes, BadExample, Example, Operator, Tensors, declare
from ..rules import Output, Rule, Values, like, observed, same_rank, same_sizes, same_type
from ..violation import Code, Fault
from .work import elements_written


@dataclass(frozen=True, slots=True)
class UnscaledIfWide(Rule):
    """Elements of 64 bits have no scale and bias but those that change nothing."""

    code = Code.VALUE_NOT_ALLOWED
    members = ("InputTensor", "ScaleBias")

    def faults(self, values: Values) -> Iterator[Fault]:
        data_type, given = values["InputTensor"].data_type, values["ScaleBias"]
        if data_type.bits == 64 and given is not None and given != (1, 0):
            message = f"scale {given.Scale} and bias {given.Bias} given; for {data_type.name} they must be 1 and 0"
            yield Fault(self.code, ("ScaleBias",), message)


def unscaled_if_wide() -> tuple[Rule, ...]:
    """``bits(InputTensor) == 64: ScaleBias is null or (1, 0)``"""
    return observed(UnscaledIfWide())


def unary(
    name: str,
    *rules: Rule | tuple[Rule, ...],
    attributes: Callable[..., Attributes] | None = None,
    formula: Expression | None = None,
    output: Output | None = None,
    work: Callable[[Attributes, Tensors], int] = elements_written,
    examples: tuple[Example, ...] = (),
    bad_examples: tuple[BadExample, ...] = (),
) -> Operator[Attributes]:
    """Declares an operator with one input, whose output is like it unless ``output`` says otherwise."""
    outputs = {"OutputTensor": output or like("InputTensor")}
    return declare(
        name,
        rules=rules,
        outputs=outputs,
        work=work,
        attributes=attributes,
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
    """Declares an operator with two inputs of the same type and sizes, whose output is like them unless ``output`` says
    otherwise. Inputs are broadcast by strides of 0.
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
    """Declares the gradient of an element-wise operator."""
    return declare(
        name,
        rules=(*alike("InputTensor", "InputGradientTensor"), *rules),
        outputs={"OutputGradientTensor": like("InputTensor")},
        work=lambda _, tensors: int(tensors["OutputGradientTensor"].element_count),
        formula=formula,
        examples=examples,
    )


def alike(*tensors: str) -> tuple[Rule, Rule, Rule]:
    """Returns the rules that the ``type``, ``rank`` and ``Sizes`` of the tensors are equal."""
    return same_type(*tensors), same_rank(*tensors, sizes=True), same_sizes(*tensors)


def vectors(
    name: str,
    attributes: Mapping[str, Any],
    inputs: Mapping[str, list[Any]],
    output: list[Any],
    source: str = "",
    into: str = "OutputTensor",
) -> Example:
    """Returns an example whose tensors are FLOAT32 vectors of equal length."""
    tensors = {tensor: {"DataType": "FLOAT32", "Sizes": [len(output)]} for tensor in inputs}
    return Example(name, {**tensors, **attributes}, inputs, {into: output}, source=source)


def typed_vectors(
    name: str, inputs: Mapping[str, tuple[str, list[Any]]], output: list[Any], **attributes: Any
) -> Example:
    """Returns an example whose tensors are vectors of equal length, given the data type and elements of each input."""
    tensors = {tensor: {"DataType": data_type, "Sizes": [len(output)]} for tensor, (data_type, _) in inputs.items()}
    return Example(
        name,
        {**tensors, **attributes},
        {tensor: elements for tensor, (_, elements) in inputs.items()},
        {"OutputTensor": output},
    )
