"""Formats the output of commands, as text and as JSON values."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer

from opwire.check import Validation
from opwire.desc import Report
from opwire.describe import GraphInfo, OperatorInfo, RowInfo, describe
from opwire.dxdispatch import lowest_level
from opwire.graph import GraphValidation
from opwire.jsontensor import write_numbers
from opwire.level import FeatureLevel
from opwire.listing import state_of
from opwire.operator import Violation
from opwire.schema import OperatorType
from opwire.tensor import Array, BufferTensorDesc, DataType
from opwire.tensor_desc import read_tensor
from opwire.violation import OBSERVED_SOURCE

from ..kernels.executable import EXECUTABLE
from ..offline.run import Launch, Save, Step

if TYPE_CHECKING:
    from rich.table import Table

    from opwire.onnx import LevelReport


def validation_lines(title: str, found: Validation, level: FeatureLevel) -> Iterator[str]:
    """Yields whether an operator is valid, its outputs, and every violation and warning."""
    minimum = found.minimum_feature_level
    if found.valid:
        since = "" if minimum is None else f", from {minimum} on"
        yield f"{title}: valid at {level}{since}"
    else:
        count = len(found.violations)
        since = "valid at no level" if minimum is None else f"valid from {minimum} on"
        yield f"{title}: {count} violation{'s' if count != 1 else ''} at {level}; {since}"
    if isinstance(found, GraphValidation):
        parts = (f"{part} from {'no level' if least is None else least} on" for part, least in found.needs.items())
        yield f"  {', '.join(parts)}"
    for name, desc in found.outputs.items():
        yield f"  {tensor_line(name, desc)}, {desc.total_size_in_bytes} bytes"
    yield from violation_lines(found.violations)
    if found.warnings:
        count = len(found.warnings)
        yield f"{title}: {count} warning{'s' if count != 1 else ''}"
        yield from violation_lines(found.warnings)


def model_line(title: str, found: Mapping[str, Validation], level: FeatureLevel) -> str:
    """Returns whether a model is valid as a whole, and its lowest level."""
    lowest = lowest_level(found.values())
    if not found:
        return f"{title}: nothing to check"
    if all(validation.valid for validation in found.values()):
        return f"{title}: valid at {level}, from {lowest} on"
    return f"{title}: not valid at {level}; " + ("valid at no level" if lowest is None else f"valid from {lowest} on")


def violation_lines(violations: Iterable[Violation]) -> Iterator[str]:
    """Yields each violation with its location, the allowed values, and the first level that accepts it."""
    for violation in violations:
        yield f"  {violation.pointer or '(root)'} [{violation.code.value}]"
        yield f"    {violation.message}"
        if violation.listed:
            yield f"    allowed: {violation.listed}"
        if violation.available_from is not None:
            yield f"    available from: {violation.available_from}"
        if violation.source == OBSERVED_SOURCE:
            yield f"    source: {OBSERVED_SOURCE}, which rejects this although its documentation does not say so"


def tensor_line(name: str, desc: BufferTensorDesc) -> str:
    strides = "" if desc.strides is None else f", strides {list(desc.strides)}"
    return f"{name}: {desc.data_type.name} {list(desc.sizes)}{strides}"


def tensor_lines(name: str, desc: BufferTensorDesc, buffer: Array) -> Iterator[str]:
    """Yields a tensor and its values."""
    yield tensor_line(name, desc)
    yield np.array2string(desc.elements(desc.view(buffer)), threshold=10_000, separator=", ")


def graph_lines(graph: GraphInfo) -> Iterator[str]:
    """Yields a registered graph, with its inputs and outputs."""
    yield f"{graph['name']}: {graph['nodes']} nodes at {graph['feature_level']}, {graph['byte_size']} bytes"
    for kind in ("inputs", "outputs"):
        for name, given in graph[kind].items():
            tensor = read_tensor(given, "", Report(), output=False)
            yield f"  {kind[:-1]} {name if tensor is None else tensor_line(name, tensor.desc)}"


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def step_lines(step: Step, microseconds: int, device: str) -> Iterator[str]:
    """Yields the result of a command of a model, as DxDispatch prints it."""
    if isinstance(step, Launch):
        yield f"Dispatch '{step.dispatchable}': {microseconds / 1000:.3f} ms ({device})"
    elif isinstance(step, Save):
        yield f"Resource '{step.resource}' written to '{step.path}'"
    elif step.verbose:
        yield f"Resource '{step.resource}':"
        yield from _bits(step.values)
    else:
        yield f"Resource '{step.resource}': {', '.join(map(_number, step.values))}"


def _number(value: object) -> str:
    """Returns the shortest text that round-trips in the type of the value; whole numbers without a decimal point."""
    return str(value).removesuffix(".0")


def _bits(values: Array) -> Iterator[str]:
    width, digits = len(str(values.size - 1)), values.itemsize * 2
    unsigned = values.view(f"<u{values.itemsize}")
    for i, (value, bits) in enumerate(zip(values, unsigned, strict=True)):
        yield f"[{i:{width}}] {_number(value)} (0x{int(bits):0{digits}X})"


def step_json(step: Step, microseconds: int) -> dict[str, object]:
    """Returns the result of a command of a model as JSON."""
    if isinstance(step, Launch):
        return {"type": "dispatch", "dispatchable": step.dispatchable, "run": microseconds}
    if isinstance(step, Save):
        return {"type": "writeFile", "resource": step.resource, "path": str(step.path)}
    data_type = DataType.of(step.values.dtype).name
    return {"type": "print", "resource": step.resource, "data_type": data_type, "values": write_numbers(step.values)}


def rows_at(info: OperatorInfo, level: FeatureLevel | None) -> list[RowInfo]:
    """Returns the support rows of an operator: all, or those in effect at a level, one per group of values."""
    if level is None:
        return info["support"]
    held: dict[str, RowInfo] = {}
    for row in info["support"]:
        if FeatureLevel.parse(row["feature_level"]) <= level:
            held.setdefault(_when(row), row)
    return list(held.values())


def _when(row: RowInfo) -> str:
    return "" if row["when"] is None else "; ".join(", ".join(values) for values in row["when"].values())


def support_table(kinds: Iterable[OperatorType], level: FeatureLevel | None) -> Table:
    """Returns a table of operators with the data types and ranks of each tensor, by level."""
    table = empty_table("operator", "for", "from", "tensor", "data types", "ranks")
    for kind in kinds:
        name, shown = kind.name, ""
        for row in rows_at(describe(kind), level):
            when, since = _when(row), FeatureLevel.parse(row["feature_level"]).short
            for tensors, data_types, ranks in _alike(row):
                table.add_row(name, "" if when == shown else when, since, tensors, data_types, ranks)
                name, shown, since = "", when, ""
        table.add_section()
    return table


def _alike(row: RowInfo) -> Iterator[tuple[str, str, str]]:
    """Yields the tensors of a row, grouped by equal limits, with their data types and ranks."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, limits in row["tensors"].items():
        ranks = limits["ranks"]
        span = str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}"
        groups.setdefault((" ".join(limits["data_types"]), span), []).append(name)
    for (data_types, span), names in groups.items():
        yield "\n".join(names), data_types, span


def catalog_table(kinds: Iterable[OperatorType]) -> Table:
    """Returns a table of operator types with their value, first level, family and state."""
    table = empty_table("value", "operator", "from", "family", "state")
    for kind in kinds:
        state = state_of(kind, EXECUTABLE).value
        table.add_row(str(kind.value), kind.name, kind.introduced.short, kind.family, state)
    return table


def nodes_table(report: LevelReport) -> Table:
    """Returns a table of the nodes of a model with their DirectML operators, levels and the reasons for these.

    A last column says where ONNX Runtime differs, if it does anywhere.
    """
    nodes = report.model.nodes
    provider = [report.provider(node) for node in nodes]
    table = empty_table("node", "operator", "DirectML", "from", "why", *(["ONNX Runtime"] if any(provider) else ()))
    failing, emitted = {*report.failing}, {*report.failing_as_emitted}
    for node, differs in zip(nodes, provider, strict=True):
        operators = " + ".join(use.type for use in node.uses) or ("" if node.is_lowered else "CPU")
        level = "" if node.level is None else node.level.short
        why = report.violations(node)[0].message if node in failing else report.why(node)
        style = "bold red" if node in failing else "red" if node in emitted else None
        cells = (node.name, node.operator, operators, level, why, *([differs] if any(provider) else ()))
        table.add_row(*cells, style=style)
    return table


def report_lines(title: str, report: LevelReport) -> Iterator[str]:
    """Yields what a model needs as a whole."""
    level, nodes = report.model.level, report.model.nodes
    lowered = len(nodes) - len(report.on_cpu)
    yield f"{title}: DirectML runs {lowered} of {len(nodes)} nodes from {level} on (DirectML {level.directml})"
    for node in report.on_cpu:
        yield f"  {node.name} ({node.operator}) stays on the CPU: {node.reason}"
    yield from _provider_lines(report)
    if report.level is not None:
        count, more = len(report.failing), len(report.failing_as_emitted)
        yield f"  at {report.level}: {f'{count} of its nodes fail' if count else 'none of its nodes fails'}"
        if more:
            yield f"  at {report.level}: {more} more fail in ONNX Runtime, which emits operators of higher levels"


def _provider_lines(report: LevelReport) -> Iterator[str]:
    """Yields what ONNX Runtime's DirectML provider makes of a model."""
    from opwire.onnx.provider import VERSION

    level, left = report.provider_level, report.left_by_provider
    kept = f", and leaves {len(left)} of these nodes to the CPU" if left else ""
    yield f"  ONNX Runtime {VERSION} emits operators that need {level} (DirectML {level.directml}){kept}"


def array_lines(name: str, array: Array, path: Path | None) -> Iterator[str]:
    """Yields an array and its values, or the file that has them."""
    title = f"{name}: {array.dtype} {list(array.shape)}"
    if path is not None:
        yield f"{title} written to '{path}'"
        return
    yield title
    yield np.array2string(array, threshold=10_000, separator=", ")


def array_json(array: Array, path: Path | None) -> dict[str, object]:
    """Returns an array as JSON, with its file in place of the elements if it was saved."""
    found: dict[str, object] = {"dtype": str(array.dtype), "sizes": list(array.shape)}
    if path is not None:
        return {**found, "path": str(path)}
    return {**found, "data": array.tolist() if array.dtype.kind in "bO" else write_numbers(array)}


def empty_table(*columns: str) -> Table:
    """Returns an empty table."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def print_table(table: Table) -> None:
    """Prints a table at the width of the terminal, or with 140 columns if there is none."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 140
    Console(width=width, highlight=False, markup=False, emoji=False).print(table)


def outputs_json(
    descs: Mapping[str, BufferTensorDesc], buffers: Mapping[str, Array], saved: Mapping[str, Path]
) -> dict[str, object]:
    """Returns outputs as in a response with ``output_format`` numbers; saved ones have ``path`` instead of ``data``."""
    return {
        name: {"desc": desc.to_json(), "path": str(saved[name])}
        if name in saved
        else {"desc": desc.to_json(), "data": write_numbers(desc.elements(desc.view(buffers[name])))}
        for name, desc in descs.items()
    }
