"""The kernels of the reference device: straightforward, one output element at a time.

Each module is named after an operator family and exports its kernels by operator as ``KERNELS``; it is imported on
first use. Its ``TURNS``, if any, count the iterations of those that do not simply loop over their output elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from opwire.check import Plan
from opwire.graph import GRAPH
from opwire.operators import CATALOG

from ...execution import Arrays, Stop
from ..graph import GraphMemory

Kernel = Callable[[Plan, Arrays, Arrays, Stop], None]


class _Kernels(Mapping[str, Kernel]):
    def __getitem__(self, name: str) -> Kernel:
        if name == GRAPH.name:
            return _run_graph
        return _family(CATALOG[name].family)[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, kind in CATALOG.items() if name in _family(kind.family))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache
def _family(name: str) -> Mapping[str, Kernel]:
    if name not in _modules():
        return {}
    kernels: Mapping[str, Kernel] = import_module(f"{__name__}.{name}").KERNELS
    return kernels


@cache
def _modules() -> frozenset[str]:
    return frozenset(module.name for module in iter_modules(__path__))


def turns_of(plan: Plan) -> int:
    """Returns the number of per-element iterations of a plan; bulk copies and fills do not count."""
    name = plan.operator.name
    family = import_module(f"{__name__}.{CATALOG[name].family}")
    turns: Mapping[Kernel, Callable[[Plan], int]] = getattr(family, "TURNS", {})
    count = turns.get(KERNELS[name])
    return sum(desc.element_count for desc in plan.outputs.values()) if count is None else count(plan)


KERNELS: Mapping[str, Kernel] = _Kernels()
"""The kernels, by operator. The graph kernel is not listed, as a graph is not a DirectML operator."""


def _run_graph(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    """Runs the steps of a graph in order."""
    memory = GraphMemory(plan)
    tensors = memory.arrays(inputs, outputs)
    for step in memory.steps.steps:
        KERNELS[step.plan.operator.name](step.plan, *tensors.of(step), stop)
    tensors.copy()
