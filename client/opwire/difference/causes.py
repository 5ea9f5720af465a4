"""Known causes of wrong tensors: what fits all elements is named, the most definite first."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import numpy as np

from ..errors import OpwireError
from ..tensor import Array
from .chain import Chain, Key, Operation
from .evidence import Evidence
from .structure import structure_of
from .variants import Inputs, Variant, quantized_ties, variants

_SECONDS = 10.0
"""How long variants of a node are tried."""

_FEW = 0.005
"""The share of elements that are wrong at which a fault of these is looked for first."""


def cause_of(evidence: Evidence) -> str:
    """Returns what is wrong with a tensor, or "" if it is not known."""
    with np.errstate(all="ignore"):
        return next(_causes(evidence), "")


def _causes(evidence: Evidence) -> Iterator[str]:
    yield from _special_values(evidence)
    is_few = np.count_nonzero(evidence.unlikely) <= max(1, _FEW * evidence.exact.size)
    is_discrete = evidence.exact.dtype.kind != "f" or not np.any(evidence.limit(slice(0, 1 << 16)).likely)
    if is_few and not is_discrete:
        yield from structure_of(evidence)
    yield from _varied(evidence)
    if _has_extremes(evidence):
        yield "the inputs have infinities or NaN, of which backends make different things"
    yield from structure_of(evidence)


def mistake_of(evidence: Evidence) -> str:
    """Returns the variant of an operator that fits a tensor, or "" if none does."""
    with np.errstate(all="ignore"):
        return next(_varied(evidence), "")


def _special_values(evidence: Evidence) -> Iterator[str]:
    """Yields causes that are seen at the values alone: NaN, and integers at the end of their range."""
    wrong, actual, exact = evidence.unlikely, evidence.actual, evidence.exact
    if exact.dtype.kind == "f":
        added, lost = np.isnan(actual) & ~np.isnan(exact), np.isnan(exact) & ~np.isnan(actual)
        if added.any() and not np.any(wrong & ~added):
            yield f"NaN instead of numbers in {_counted(added)}: {_nan_source(evidence)}"
        if lost.any() and not np.any(wrong & ~lost):
            yield f"numbers instead of NaN in {_counted(lost)}: NaN is skipped"
    elif exact.dtype.kind in "iu":
        limit = np.iinfo(exact.dtype)
        ends = (exact == limit.max) | (exact == limit.min)
        if not np.any(wrong & ~ends):
            yield "saturation missing: integers wrap"


def _has_extremes(evidence: Evidence) -> bool:
    given = {} if evidence.chain is None else evidence.chain.given
    return not all(np.isfinite(array).all() for array in given.values() if array.dtype.kind == "f")


def _nan_source(evidence: Evidence) -> str:
    given = {} if evidence.chain is None else evidence.chain.given
    has_nan = any(np.isnan(array).any() for array in given.values() if array.dtype.kind == "f")
    return "NaN of the inputs is not skipped" if has_nan else "the inputs have none"


def kept_nan(evidence: Evidence) -> str:
    """Returns how a tensor follows ONNX, whose operators keep NaN, where those of DirectML give numbers; or ""."""
    chain = evidence.chain
    if chain is None or evidence.exact.dtype.kind != "f":
        return ""
    added = np.isnan(evidence.actual) & ~np.isnan(evidence.exact)
    if not added.any() or np.any(evidence.unlikely & ~added):
        return ""
    same = [array for array in chain.given.values() if array.dtype.kind == "f" and array.size == added.size]
    if not np.all(np.any([np.isnan(array) for array in same], axis=0)[added] if same else False):
        return ""
    return f"NaN is kept as by ONNX, where {chain.operations[-1].type} of DirectML gives numbers, in {_counted(added)}"


def tie_rule(evidence: Evidence) -> str:
    """Returns the rule that all quotients halfway between integers follow, if it is not the operator's; or "".

    A rounding error may explain each of them, but not that all of them, and no others, go the same way.
    """
    chain = evidence.chain
    if chain is None or evidence.exact.dtype.kind not in "iu":
        return ""
    differ = evidence.actual != evidence.exact
    if np.count_nonzero(differ) < _SEVERAL:
        return ""
    last = len(chain.operations) - 1
    for variant in quantized_ties(chain.operations[last]):
        found = _with_variant(evidence, chain, last, variant)
        if found is not None and np.array_equal(found, evidence.actual):
            return variant.name
    return ""


_SEVERAL = 3
"""Elements that follow a rule by no accident."""


def _counted(mask: Array) -> str:
    count = int(np.count_nonzero(mask))
    return "1 element" if count == 1 else f"{count} elements"


def _varied(evidence: Evidence) -> Iterator[str]:
    chain = evidence.chain
    if chain is None:
        return
    start = monotonic()
    for name, other, key in evidence.others():
        found = _as_run(evidence, other, key)
        if found is not None and evidence.is_about(found):
            yield name
    for i, operation in reversed(list(enumerate(chain.operations))):
        for variant in variants(operation):
            if monotonic() - start > _SECONDS:
                return
            found = _with_variant(evidence, chain, i, variant)
            if found is not None and evidence.is_about(found):
                yield variant.name


def _as_run(evidence: Evidence, chain: Chain, key: Key) -> Array | None:
    try:
        chain.run()
    except OpwireError:
        return None
    return evidence.elements(chain.buffers, key)


def _with_variant(evidence: Evidence, chain: Chain, place: int, variant: Variant) -> Array | None:
    """Returns the tensor with a variant of one operator, and those after it computed from its result."""

    def run(operation: Operation, inputs: Inputs) -> Inputs:
        return operation.run(chain.runner, inputs)

    changed = dict(chain.buffers)
    operation = chain.operations[place]
    try:
        outputs = variant.compute(operation, chain.inputs_of(operation), run)
        changed |= {operation.outputs[name]: array for name, array in outputs.items() if name in operation.outputs}
        for later in chain.operations[place + 1 :]:
            found = later.run(chain.runner, {name: changed[key] for name, key in later.inputs.items()})
            changed |= {later.outputs[name]: array for name, array in found.items()}
    except (OpwireError, ValueError, KeyError):
        return None  # there is no such operator
    return evidence.elements(changed)
