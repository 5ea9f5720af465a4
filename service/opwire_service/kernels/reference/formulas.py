"""Operators that work on each element alone: their formulas, exactly, one element after the other."""

from __future__ import annotations

from itertools import islice

import numpy as np

from opwire.check import Plan
from opwire.operators import CATALOG, OPERATORS

from ...execution import Arrays, Stop, Stopped
from ..formulas.exactly import ExactFormula
from ..formulas.formula import formula_of
from ..layout import coordinates
from . import Kernel

ELEMENTS = 32
"""Computed between two questions whether to stop: some milliseconds of long transcendental functions."""


def run(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    formula = formula_of(plan)
    target = outputs[formula.output_name]
    element = ExactFormula(formula.expression, formula.inputs, formula.output)
    arrays = {name: np.broadcast_to(array, target.shape) for name, array in {**inputs, **formula.channels}.items()}
    places = coordinates(target.shape)
    with np.errstate(all="ignore"):
        while piece := list(islice(places, ELEMENTS)):
            if stop():
                raise Stopped
            for place in piece:
                target[place] = element.of({name: array[place] for name, array in arrays.items()})


def of_family(family: str) -> dict[str, Kernel]:
    """The kernels of those operators of a family of the contract that have a formula."""
    return {
        name: run for name, kind in CATALOG.items() if kind.family == family and OPERATORS[name].formula is not None
    }
