"""Measures whether ``opwire.diff`` finds the wrong operator: in ONNX Runtime as it is, and with faults planted in it.

For each network, ONNX Runtime's CPU provider is
compared as it is: no node may be called wrong. Then it runs node by node, and the result of some nodes is replaced by
that of a fault; later nodes read what it gave. A fault is found if its node is called wrong or of reduced precision,
and named if the detail says what was planted; a node without a fault that is called either is a false alarm.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto
from rich.console import Console
from rich.table import Table

import opwire
from opwire.difference import Differences, Verdict, diff
from opwire.onnx import load
from opwire.tensor import Array
from tests.support.planting.backend import Backend
from tests.support.planting.faults import FAULTS, Planting
from tests.support.planting.networks import LIGHT, SMALL, light

from .report import Row, write

_ALARMS = (Verdict.WRONG, Verdict.REDUCED)


@dataclass
class Score:
    """What was found of the faults planted in a network."""

    planted: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)


def networks(names: list[str]) -> Iterator[tuple[str, ModelProto]]:
    """Yields models by name."""
    for name in names:
        yield name, SMALL[name]() if name in SMALL else light(name)


def inputs_of(model: ModelProto, seed: int = 0) -> dict[str, Array]:
    """Returns images and other inputs of a model, drawn."""
    generator = np.random.default_rng(seed)
    return {
        each.name: generator.standard_normal([size.dim_value for size in each.type.tensor_type.shape.dim]).astype("f4")
        for each in model.graph.input
    }


def unmodified(
    model: ModelProto, inputs: Mapping[str, Array], runner: opwire.LocalClient
) -> tuple[Differences, list[float]]:
    """Compares ONNX Runtime with the exact results; returns also the processor time, and that of running both."""
    diff(load(model), "onnxruntime", inputs, runner=runner)  # compiles what is not compiled yet
    start = time.process_time()
    found = diff(load(model), "onnxruntime", inputs, runner=runner)
    compared = time.process_time() - start
    start = time.process_time()
    everything = diff(
        load(model), "onnxruntime", inputs, runner=runner, tolerance=opwire.difference.Tolerance(ulp=1e99)
    )
    del everything
    return found, [compared, time.process_time() - start]


def with_faults(
    model: ModelProto, inputs: Mapping[str, Array], count: int, seed: int, runner: opwire.LocalClient
) -> Score:
    """Plants faults in nodes of a model, and compares."""
    backend = Backend(model)
    loaded = load(model)
    candidates = [node.name for node in loaded.nodes if node.is_lowered and node.uses]
    planting = Planting(backend.node, count, candidates, seed)
    tensors = backend.run(inputs, planting)
    return score(planting, diff(loaded, tensors, inputs, runner=runner))


def score(planting: Planting, found: Differences) -> Score:
    """Returns which of the planted faults a comparison found and named."""
    result = Score()
    for node in found.nodes:
        fault = planting.planted.get(node.name)
        is_alarm = node.verdict in _ALARMS
        if fault is None:
            if is_alarm:
                result.false.append(f"{node.name}: {node.verdict.value}, {node.detail or 'no cause'}")
            continue
        result.planted[fault.name] += 1
        result.found[fault.name] += is_alarm
        is_named = is_alarm and any(said in node.detail for said in fault.said)
        result.named[fault.name] += is_named
        if not is_named:
            result.missed.append(f"{node.name}, {fault.name}: {node.verdict.value}, {node.detail or 'no cause'}")
    return result


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--networks", nargs="+", default=[*SMALL, *LIGHT], help="which networks")
    parser.add_argument("--faults", type=int, default=28, help="faults in each network")
    parser.add_argument("--seed", type=int, default=0)


def main(given: argparse.Namespace) -> None:
    total, console = Score(), Console()
    rows: list[Row] = []
    with opwire.local() as runner:
        for name, model in networks(["tagger"] if given.quick else given.networks):
            inputs = inputs_of(model)
            found, (compared, ran) = unmodified(model, inputs, runner)
            verdicts = Counter(node.verdict.value for node in found.nodes)
            console.print(f"{name}: {dict(verdicts)}; {compared:.1f} s, {compared / ran:.2f} times running both sides")
            for node in found.nodes:
                if node.verdict in _ALARMS:
                    console.print(f"  {node.name} ({node.operator}): {node.verdict.value}: {node.detail}")
            rows.append({"group": "networks", "name": name, "verdicts": dict(verdicts), "ratio": compared / ran})
            planted = with_faults(model, inputs, given.faults, given.seed, runner)
            for line in (*planted.missed, *(f"false alarm: {each}" for each in planted.false)):
                console.print(f"  {line}")
            for mine, theirs in zip(vars(total).values(), vars(planted).values(), strict=True):
                mine += theirs  # counters and lists grow in place
    console.print(_table(total))
    if given.json is not None:
        write(given.json, "diff", {"false_alarms": len(total.false)}, [*rows, *_faults(total)])


def _faults(total: Score) -> Iterator[Row]:
    for fault in FAULTS:
        counts = {each: vars(total)[each][fault.name] for each in ("planted", "found", "named")}
        yield {"group": "faults", "name": fault.name, **counts}


def _table(total: Score) -> Table:
    table = Table("fault", "planted", "found", "named")
    for name in (fault.name for fault in FAULTS):
        table.add_row(name, *(str(each[name]) for each in (total.planted, total.found, total.named)))
    sums = [sum(each.values()) for each in (total.planted, total.found, total.named)]
    table.add_row("all", *map(str, sums), end_section=True)
    table.caption = f"{len(total.false)} false alarms"
    return table
