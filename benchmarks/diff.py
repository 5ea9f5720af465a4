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
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto
from rich.table import Table

import opwire
from opwire.difference import Differences, Tolerance, Verdict, diff
from opwire.onnx import load
from opwire.tensor import Array
from tests.support.planting.backend import Backend
from tests.support.planting.faults import FAULTS, Planting
from tests.support.planting.networks import LIGHT, SMALL, light

from .report import Row, show, write

_ALARMS = (Verdict.WRONG, Verdict.REDUCED)


@dataclass
class Score:
    """What was found of the faults planted in a network."""

    planted: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)


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
    diff(load(model), "onnxruntime", inputs, runner=runner, tolerance=Tolerance(ulp=1e99))
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
                result.false.append(f"false alarm: {node.name}: {node.verdict.value}, {node.detail or 'no cause'}")
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
    total, rows = Score(), list[Row]()
    with opwire.local() as runner:
        for name in ["tagger"] if given.quick else given.networks:
            model = SMALL[name]() if name in SMALL else light(name)
            inputs = inputs_of(model)
            found, (compared, ran) = unmodified(model, inputs, runner)
            verdicts = Counter(node.verdict.value for node in found.nodes)
            print(f"{name}: {dict(verdicts)}; {compared:.1f} s, {compared / ran:.2f} times running both sides")
            for node in found.nodes:
                if node.verdict in _ALARMS:
                    print(f"  {node.name} ({node.operator}): {node.verdict.value}: {node.detail}")
            rows.append({"group": "networks", "name": name, "verdicts": dict(verdicts), "ratio": compared / ran})
            planted = with_faults(model, inputs, given.faults, given.seed, runner)
            for line in (*planted.missed, *planted.false):
                print(f"  {line}")
            for mine, theirs in zip(vars(total).values(), vars(planted).values(), strict=True):
                mine += theirs  # counters and lists grow in place
    counters = {"planted": total.planted, "found": total.found, "named": total.named}
    table = Table("fault", *counters, caption=f"{len(total.false)} false alarms")
    for fault in FAULTS:
        counts = {title: counter[fault.name] for title, counter in counters.items()}
        rows.append({"group": "faults", "name": fault.name, **counts})
        table.add_row(fault.name, *map(str, counts.values()))
    table.add_row("all", *(str(counter.total()) for counter in counters.values()))
    show(table)
    if given.json:
        write(given.json, "diff", {"false_alarms": len(total.false)}, rows)
