"""Elementwise operators: their formulas, evaluated exactly for one element at a time."""

from __future__ import annotations

from itertools import islice

import numpy as np

from opwire.check import Plan
from opwire.operators import CATALOG, OPERATORS

from ...execution import Arrays, Stop, Stopped
from ..formulas.exact_formula import ExactFormula
from ..formulas.formula import formula_of
from ..layout import coordinates
from . import Kernel

ELEMENTS = 32
"""Elements between polls of ``stop``: some milliseconds of slow transcendental functions."""


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
    """Returns the kernels of the operators in a family that have a formula."""
    return {
        name: run for name, kind in CATALOG.items() if kind.family == family and OPERATORS[name].formula is not None
    }
