"""Compares a model's tensors with the exact ones: which operator is wrong, and how badly.

>>> found = opwire.diff("model.onnx", "onnxruntime")
>>> found.wrong
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..desc import show
from ..errors import ProblemCode, RequestError
from ..tensor import Array
from .comparing import compare
from .drawing import Distribution, draw
from .judging import Tolerance
from .models import subject_of
from .repro import SIDE, Reproductions, is_reproduction
from .results import Differences, NodeDifference, TensorDifference, Verdict, Worst
from .sides import FilesSide, Side, SideError
from .spelling import side_of
from .subjects import Runner, Subject, SubjectNode, TensorType
from .ulps import assert_close_ulp, ulp

__all__ = [
    "Differences",
    "Distribution",
    "NodeDifference",
    "Side",
    "SideError",
    "Subject",
    "SubjectNode",
    "TensorDifference",
    "TensorType",
    "Tolerance",
    "Verdict",
    "Worst",
    "assert_close_ulp",
    "diff",
    "subject_of",
    "ulp",
]


def diff(
    model: Any,
    against: str | PathLike[str] | Side | Mapping[str, Any] | Runner | None = None,
    inputs: Mapping[str, Array] | None = None,
    *,
    dimensions: Mapping[str, int] | None = None,
    seed: int = 0,
    distribution: Distribution | str = Distribution.NORMAL,
    cumulative: bool = False,
    tolerance: Tolerance | None = None,
    runner: Runner | None = None,
    repro: str | PathLike[str] | None = None,
    timeout: float | None = None,
) -> Differences:
    """Compares the tensors of a model, as a backend computes them, with the exact ones.

    Args:
        model: the path of an ONNX file, a graph, a DxDispatch model or an operator; an ``opwire.Graph``, an
            ``opwire.onnx.Model``, or a Subject.
        against: the backend, as a text of ``opwire diff --against``, arrays by tensor name, a client, or a Side.
            None for what a folder that reproduces a node has.
        inputs: the inputs by name; those left out are drawn.
        dimensions: the sizes of dimensions that an ONNX model names.
        seed, distribution: how inputs are drawn.
        cumulative: whether the errors are those of whole runs, which grow from node to node.
        tolerance: what to allow in place of the verdicts.
        runner: what computes the exact results; by default ``opwire.local()``.
        timeout: the seconds after which a backend that runs in a process of its own is stopped.
        repro: a folder to write one to for each wrong node, which reproduces it alone.

    Raises:
        ModelError: the model cannot be used.
        SideError: the backend cannot be used, or failed.
        OSError: a file cannot be read.
    """
    subject = subject_of(model, dimensions, inputs)
    drawn = draw(subject.inputs, seed, distribution)
    given = {**drawn, **subject.given, **_checked(subject, inputs or {})}
    side = _side(model, against, timeout)
    written = None if repro is None else Reproductions(Path(repro), subject, side.name)
    keep = None if written is None else written.keep
    found = compare(subject, side, given, cumulative=cumulative, tolerance=tolerance, runner=runner, keep=keep)
    return found if written is None else replace(found, repros=[str(each) for each in written.written])


def _side(
    model: Any, against: str | PathLike[str] | Side | Mapping[str, Any] | Runner | None, timeout: float | None
) -> Side:
    if against is not None:
        return side_of(str(against) if isinstance(against, PathLike) else against, timeout)
    if not isinstance(model, str | PathLike) or not is_reproduction(Path(model)):
        raise SideError("no backend to compare with; only a folder that reproduces a node has its results")
    return FilesSide(Path(model) / SIDE)


def _checked(subject: Subject, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Returns inputs as arrays, if they are of the types and sizes that the model takes.

    Raises:
        RequestError: they are not, or the model has no such input.
    """
    found: dict[str, Array] = {}
    for name, given in inputs.items():
        known = subject.inputs.get(name)
        if known is None:
            listed = ", ".join(subject.inputs) or "none"
            raise RequestError(ProblemCode.INVALID_REQUEST, f"the model has no input {show(name)}; it takes {listed}")
        array = subject.adapted(name, np.asarray(given))
        if (array.dtype, array.shape) != (known.dtype, known.sizes):
            said = f"{array.dtype}{list(array.shape)} given for the input {show(name)}, which is {known}"
            raise RequestError(ProblemCode.INVALID_REQUEST, said)
        found[name] = array
    return found
