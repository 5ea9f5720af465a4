"""Predicts the outputs of a call, and with them the size of its answer, as far as the client can know them.

The contract determines an operator's outputs, so the client rejects an answer with other shapes or data types, and does
not read one that is larger than the outputs can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from pydantic_core import from_json

from ..check import check
from ..desc import show
from ..errors import ContractViolation, OpwireError
from ..graph import check_graph
from ..level import HIGHEST, FeatureLevel
from ..tensor import Array, BufferTensorDesc, DataType
from ..wire import Call, Encoding, Result, write_json

MAX_UNKNOWN_BYTES = 2**30
"""Maximum answer size, in bytes, for an operator that the client's own contract does not know or rejects."""

_BYTES_AROUND = 256 * 1024
"""Allowance per call, and once per answer, for the JSON around the tensors, or for a problem instead of them."""

_BYTES_OF_NUMBER = 48
"""Maximum length of a number in JSON, including the brackets and whitespace around it at any rank."""

_VALUES_AROUND = 8192
_VALUES_OF_NUMBER = 10

Outputs = Mapping[str, BufferTensorDesc]


class Expected:
    """The expected outputs of the calls of one request.

    Args:
        calls: the calls of the request.
        encoding: the requested encoding of the answer.
    """

    def __init__(self, calls: Sequence[Call], encoding: Encoding) -> None:
        self._calls = calls
        self._numbers = encoding is Encoding.NUMBERS
        self._found: list[Outputs | None] | None = None

    @property
    def outputs(self) -> list[Outputs | None]:
        """The outputs of each call by name; None where the client cannot predict them."""
        if self._found is None:
            self._found = [_outputs_of(call) for call in self._calls]
        return self._found

    def most_bytes(self) -> int:
        """Returns the maximum size of the whole answer, in bytes."""
        return _BYTES_AROUND + sum(map(self._most_bytes_of, self.outputs))

    def _most_bytes_of(self, outputs: Outputs | None) -> int:
        if outputs is None:
            return MAX_UNKNOWN_BYTES
        descs = outputs.values()
        if self._numbers:
            return _BYTES_AROUND + sum(_BYTES_OF_NUMBER * desc.element_count for desc in descs)
        return _BYTES_AROUND + sum(4 * (desc.total_size_in_bytes + 2) // 3 for desc in descs)

    @property
    def most_values(self) -> int:
        """Maximum number of JSON values in the whole answer."""
        around = _VALUES_AROUND * (1 + len(self._calls))
        if not self._numbers:
            return around
        if None in self.outputs:
            return MAX_UNKNOWN_BYTES // _BYTES_OF_NUMBER
        counts = (desc.element_count for outputs in self.outputs if outputs for desc in outputs.values())
        return around + _VALUES_OF_NUMBER * sum(counts)

    def verify(self, outcomes: Sequence[Result | OpwireError]) -> None:
        """Checks that an answer has the expected outputs.

        Raises:
            ValueError: it does not; the message says why.
        """
        if len(outcomes) != len(self._calls):
            raise ValueError(f"it has {len(outcomes)} results for {len(self._calls)} requests")
        for outcome, outputs in zip(outcomes, self.outputs, strict=True):
            if outputs is not None and isinstance(outcome, Result):
                _verify(outcome.tensors, outputs)


def _verify(found: Mapping[str, Array], expected: Outputs) -> None:
    if found.keys() != expected.keys():
        raise ValueError(f"it has the outputs {_listed(found)}; expected {_listed(expected)}")
    for name, array in found.items():
        desc = expected[name]
        if array.shape != desc.sizes or array.dtype != desc.data_type.dtype:
            came = f"{DataType.of(array.dtype).name} {show(list(array.shape))}"
            raise ValueError(f"{name} is {came}; expected {desc.data_type.name} {show(list(desc.sizes))}")


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(show(name) for name in names) or "none"


def _outputs_of(call: Call) -> Outputs | None:
    level = call.options.get("feature_level", HIGHEST)
    text, strict = write_json(call.operator), call.options.get("strict") is True
    return _outputs(text, level, strict=strict, is_graph=call.is_graph) if isinstance(level, str | int) else None


@lru_cache(maxsize=256)
def _outputs(operator: bytes, level: FeatureLevel | str | int, *, strict: bool, is_graph: bool) -> Outputs | None:
    try:
        return (check_graph if is_graph else check)(from_json(operator), level, strict=strict).outputs
    except ContractViolation:  # the server reports it too, or knows more
        return None
