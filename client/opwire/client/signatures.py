"""The signatures of the operator methods: the members of desc structs as arguments, from the schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from inspect import Parameter, Signature
from typing import Any, NamedTuple

from ..enums import ENUMS
from ..operators import declaration
from ..schema import document, operator_document

Row = Mapping[str, Any]
"""A member of a desc struct in the schema."""

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]*|[0-9]+")
_NUMBERS = {"FLOAT": "float", "UINT": "int", "INT": "int", "UINT64": "int", "BOOL": "bool"}
_STRUCTS = {"DML_SCALE_BIAS": "ScaleBias", "DML_SIZE_2D": "Size2D"}


@cache
def argument_name(member: str) -> str:
    """Returns the argument name of a desc struct's member: ``InputTensor`` becomes ``input_tensor``."""
    return "_".join(_WORD.findall(member)).lower()


class Described(NamedTuple):
    """The members of an operator's struct, by their place in the arguments of its method.

    Attributes:
        inputs: its input tensors, which are positional arguments.
        attributes: its other members but counts, which are keywords.
        outputs: its output tensors, which are keywords too.
    """

    inputs: tuple[Row, ...]
    attributes: tuple[Row, ...]
    outputs: tuple[Row, ...]

    @classmethod
    def of(cls, name: str) -> Described:
        """Returns those of an operator type."""
        rows = [row for row in operator_document(name)["members"] if row["kind"] != "count"]
        roles = [row.get("role", "").removeprefix("optional ") for row in rows]
        return cls(*(_chosen(rows, roles, role) for role in ("input", "", "output")))


def _chosen(rows: Iterable[Row], roles: Iterable[str], role: str) -> tuple[Row, ...]:
    return tuple(row for row, own in zip(rows, roles, strict=True) if own == role)


@cache
def signature_of(name: str) -> Signature:
    """Returns the signature of the method of an operator type. Its annotations are names of ``opwire.client.typed``."""
    described = Described.of(name)
    keywords = [_attribute(row) for row in described.attributes] + [_output(name, row) for row in described.outputs]
    keywords.sort(key=lambda each: each.default is not Parameter.empty)
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    options = Parameter("options", Parameter.VAR_KEYWORD, annotation="Unpack[CallOptions]")
    return Signature([own, *_inputs(described.inputs), *keywords, options], return_annotation="R")


def is_derived(name: str, output: str) -> bool:
    """Returns whether an output of an operator type is always derived from the other members."""
    from ..rules import Undecided  # the rules are imported with the first family that is used

    declared = declaration(name)
    return declared is not None and not isinstance(declared.outputs[output], Undecided)


def _inputs(rows: tuple[Row, ...]) -> Iterable[Parameter]:
    """Yields the inputs. Optional ones have a default unless a required one follows."""
    one = "ArrayLike" if len(rows) == 1 else "Operand"
    for i, row in enumerate(rows):
        kind = "Sequence[ArrayLike]" if row["kind"] == "tensors" else one
        kind += " | None" if is_optional(row) else ""
        default = None if all(map(is_optional, rows[i:])) else Parameter.empty
        yield Parameter(argument_name(row["name"]), Parameter.POSITIONAL_OR_KEYWORD, annotation=kind, default=default)


def is_optional(row: Row) -> bool:
    """Returns whether a member may be omitted."""
    return bool(row.get("optional")) or row.get("role", "").startswith("optional")


def _output(name: str, row: Row) -> Parameter:
    kind = "Sequence[Desc]" if row["kind"] == "tensors" else "Desc"
    may_be_omitted = is_optional(row) or is_derived(name, row["name"])
    return _keyword(row, f"{kind} | None" if may_be_omitted else kind, None if may_be_omitted else Parameter.empty)


def _attribute(row: Row) -> Parameter:
    kind = _annotation(row)
    if is_optional(row):
        return _keyword(row, f"{kind} | None", None)
    if "default" in row and row["kind"] == "array":
        kind += f" | {_NUMBERS[row['number']]}"
    return _keyword(row, kind, row.get("default", Parameter.empty))


def _keyword(row: Row, kind: str, default: Any) -> Parameter:
    return Parameter(argument_name(row["name"]), Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def _annotation(row: Row) -> str:
    match row["kind"]:
        case "scalar":
            return _NUMBERS[row["number"]]
        case "array":
            return f"Sequence[{_NUMBERS[row['number']]}]"
        case "enum":
            return "DataTypeName" if row["enum"] == "DML_TENSOR_DATA_TYPE" else ENUMS[row["enum"]].__name__
        case "struct":
            number = document("types")["structs"][row["struct"]]["number"]
            return f"{_STRUCTS[row['struct']]} | Mapping[str, {_NUMBERS[number]}]"
        case "union":
            return "float | Mapping[str, Any]"
        case "operator":
            return "Activation"
        case "operators":
            return "Sequence[Activation]"
        case other:
            raise ValueError(f"members of kind {other} have no type yet")
