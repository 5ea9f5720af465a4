"""Compares a model's tensors with the exact ones: which operator is wrong, and how badly.

>>> found = opwire.diff("model.onnx", "onnxruntime")
>>> found.wrong
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ..tensor import Array
from .comparing import compare
from .drawing import Distribution, draw
from .judging import Tolerance
from .results import Differences, NodeDifference, TensorDifference, Verdict, Worst
from .sides import Side, SideError
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
    against: str | PathLike[str] | Side | Mapping[str, Any] | Runner,
    inputs: Mapping[str, Array] | None = None,
    *,
    dimensions: Mapping[str, int] | None = None,
    seed: int = 0,
    distribution: Distribution | str = Distribution.NORMAL,
    cumulative: bool = False,
    tolerance: Tolerance | None = None,
    runner: Runner | None = None,
) -> Differences:
    """Compares the tensors of a model, as a backend computes them, with the exact ones.

    Args:
        model: the path of an ONNX file, a loaded ``opwire.onnx.Model``, or a Subject.
        against: the backend, as a text of ``opwire diff --against``, arrays by tensor name, a client, or a Side.
        inputs: the inputs by name; those left out are drawn.
        dimensions: the sizes of dimensions that an ONNX model names.
        seed, distribution: how inputs are drawn.
        cumulative: whether to compare whole runs, so that errors propagate, instead of each node by itself.
        tolerance: what to allow in place of the verdicts.
        runner: what computes the exact results; by default ``opwire.local()``.

    Raises:
        ModelError: the model cannot be used.
        SideError: the backend cannot be used, or failed.
        OSError: a file cannot be read.
    """
    subject = subject_of(model, dimensions, inputs)
    drawn = draw(subject.inputs, seed, distribution)
    given = {**drawn, **(inputs or {})}
    side = side_of(str(against) if isinstance(against, PathLike) else against)
    return compare(subject, side, given, cumulative=cumulative, tolerance=tolerance, runner=runner)


def subject_of(
    model: Any, dimensions: Mapping[str, int] | None = None, inputs: Mapping[str, Array] | None = None
) -> Subject:
    """Returns a model as a subject.

    Raises:
        ModelError: it cannot be used.
        OSError: it cannot be read.
    """
    if isinstance(model, Subject):
        return model
    from ..onnx import Model, load  # its package is optional
    from .onnx_subject import OnnxSubject

    if isinstance(model, Model):
        return OnnxSubject(model, "model")
    name = Path(model).name if isinstance(model, str | PathLike) else "model"
    return OnnxSubject(load(model, dimensions=dimensions, like=inputs), name)
