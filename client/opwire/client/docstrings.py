"""The docstrings of the operator methods, from the schema."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from inspect import Parameter
from typing import Any

from ..enums import ENUMS
from ..schema import operator_document
from .signatures import Described, Row, argument_name, is_derived, is_optional, signature_of

_WIDTH = 104
_MOST_SHOWN = 70
"""Maximum length of the arguments in the example of a method; of longer ones, the last are left out."""

_MOST_REPEATED = 60
"""Maximum length of data types and ranks that are listed for more than one tensor."""

_OPTIONS = "options: see CallOptions"
_LEVEL = "DML_FEATURE_LEVEL_"


def docstring_of(name: str) -> str:
    """Returns the docstring of a method: what it does, its arguments and outputs, an example, and where it is from."""
    document = operator_document(name)
    inputs, attributes, outputs = Described.of(name)
    like = _first_alike(name, (*inputs, *outputs))
    arguments = [f"{argument_name(row['name'])}: {tensor_text(name, row, like[row['name']])}" for row in inputs]
    arguments += [f"{argument_name(row['name'])}: {_attribute(row)}" for row in attributes]
    arguments += [f"{argument_name(row['name'])}: {_override(name, row)}" for row in outputs]
    returned = [f"{row['name']}: {tensor_text(name, row, like[row['name']])}" for row in outputs]
    return "\n".join(
        [
            textwrap.fill(document["summary"], _WIDTH + 4),
            "",
            f">>> client.{name.lower()}({', '.join(_example(name))}).output",
            "",
            "Args:",
            *(_entry(f"{text}.") for text in (*arguments, _OPTIONS)),
            "",
            "Returns:",
            *(_entry(f"{text}.") for text in returned),
            "",
            f"Since feature level {document['introduced'].removeprefix(_LEVEL)}:",
            page_of(document["struct"]),
        ]
    )


def page_of(struct: str) -> str:
    """Returns the URL of the documentation page of a desc struct."""
    return f"https://learn.microsoft.com/windows/win32/api/directml/ns-directml-{struct.lower()}"


def _entry(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="    ", subsequent_indent=" " * 8)


def _example(name: str) -> Sequence[str]:
    """Returns the arguments that are required, and the last of them left out if they are long."""
    given = [each for each in list(signature_of(name).parameters.values())[1:-1] if each.default is Parameter.empty]
    called = [each.name if each.kind is Parameter.POSITIONAL_OR_KEYWORD else f"{each.name}=..." for each in given]
    while len(", ".join(called)) > _MOST_SHOWN:
        called = [*called[: -1 if called[-1] != "..." else -2], "..."]
    return called


def tensor_text(name: str, row: Row, like: Row | None = None, **attributes: str) -> str:
    """Describes a tensor: its data types and ranks, with the levels that added them, and its sizes.

    Args:
        name: the operator type.
        row: the tensor.
        like: another tensor that may have the same data types and ranks, which is named instead of a long list.
        attributes: the value of the attribute that the support depends on; by default it may have any.
    """
    history = _history(name, row["name"], attributes)
    what = "a list of tensors" if row["kind"] == "tensors" else "a tensor"
    sizes = history[-1][1].get("dimensions")
    named = f", sizes {' x '.join(sizes)}" if sizes else ""
    optional = "optional, " if is_optional(row) else ""
    allowed = f"{_types(history)}, of rank {_ranks(history)}"
    if like is not None and len(allowed) > _MOST_REPEATED:
        other = argument_name(like["name"]) if like["role"].endswith("input") else like["name"]
        allowed = f"the data types and ranks of {other}"
    return f"{optional}{what} of {allowed}{named}"


def _first_alike(name: str, rows: Sequence[Row]) -> Mapping[str, Row | None]:
    """Returns for each tensor the first one before it that may have the same data types and ranks."""
    first: dict[tuple[str, str], Row] = {}
    found: dict[str, Row | None] = {}
    for row in rows:
        history = _history(name, row["name"], {})
        allowed = _types(history), _ranks(history)
        found[row["name"]] = first.get(allowed)
        first.setdefault(allowed, row)
    return found


_History = Sequence[tuple[str, Mapping[str, Any]]]
"""The limits of a tensor by level, lowest first."""


def _history(name: str, tensor: str, attributes: Mapping[str, str]) -> _History:
    rows = [row for row in operator_document(name)["support"] if _applies(row.get("when", {}), attributes)]
    return [(row["from"], row["tensors"][tensor]) for row in reversed(rows)]


def _applies(when: Mapping[str, Sequence[str]], attributes: Mapping[str, str]) -> bool:
    return all(attributes.get(attribute, values[0]) in values for attribute, values in when.items())


def _types(history: _History) -> str:
    """Lists data types, those of the first level first."""
    added: dict[str, list[str]] = {}
    for level, limits in sorted(history, key=lambda row: row[0]):
        known = [each for names in added.values() for each in names]
        new = [each for each in limits["data_types"] if each not in known]
        if new:
            added.setdefault(level, []).extend(new)
    first, *later = added.items()
    return ", ".join([_either(first[1]), *(f"from {level} on {_either(names)}" for level, names in later)])


def _ranks(history: _History) -> str:
    spans: dict[str, str] = {}
    for level, limits in history:
        least, greatest = limits["ranks"]
        span = f"{least}" if least == greatest else f"{least} to {greatest}"
        if span not in spans.values():
            spans[level] = span
    first, *later = spans.items()
    return ", ".join([first[1], *(f"from {level} on {span}" for level, span in later)])


def _either(names: Sequence[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _override(name: str, row: Row) -> str:
    otherwise = ", which is left out otherwise" if is_optional(row) else ", which is derived otherwise"
    return f"the desc of {row['name']}{otherwise if is_optional(row) or is_derived(name, row['name']) else ''}"


def _attribute(row: Row) -> str:
    return ("optional, " if is_optional(row) else "") + ", ".join(_parts(row))


def _parts(row: Row) -> Iterator[str]:
    """Yields what is said of a member that is not a tensor."""
    yield _kind(row)
    if row.get("least"):
        yield f"at least {row['least']}"
    if "default" in row and row["kind"] == "array":
        yield f"or one {row['number']} for all"


def _kind(row: Mapping[str, Any]) -> str:
    match row["kind"]:
        case "scalar":
            return str(row["number"])
        case "array":
            return f"a list of {row['number']}"
        case "enum" if row["enum"] in ENUMS:
            return f"a {row['enum']}: {_either([each.name for each in ENUMS[row['enum']]])}"
        case "enum" | "struct":
            return f"a {row[row['kind']]}"
        case "operator":
            return "an activation that is fused into the operator"
        case "operators":
            return "activations that are fused into the operator"
        case _:
            return "a number of the given data type"
