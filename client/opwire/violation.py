"""Contract violations: the closed set of codes, and violations with their location, message and basis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .level import FeatureLevel


class Code(StrEnum):
    """Why a desc or a tensor is rejected. The set is closed: it is part of the contract."""

    UNKNOWN_OPERATOR = "unknown_operator"
    OPERATOR_NOT_EXECUTABLE = "operator_not_executable"
    OPERATOR_NOT_IN_LEVEL = "operator_not_in_level"
    UNKNOWN_FEATURE_LEVEL = "unknown_feature_level"
    UNKNOWN_FIELD = "unknown_field"
    MISSING_FIELD = "missing_field"
    WRONG_TYPE = "wrong_type"
    OUT_OF_RANGE = "out_of_range"
    UNKNOWN_VALUE = "unknown_value"
    COUNT_MISMATCH = "count_mismatch"
    DATA_TYPE_NOT_IN_LEVEL = "data_type_not_in_level"
    RANK_NOT_IN_LEVEL = "rank_not_in_level"
    TOO_MANY_ELEMENTS = "too_many_elements"
    TOTAL_SIZE_INVALID = "total_size_invalid"
    FLAGS_INVALID = "flags_invalid"
    ALIGNMENT_INVALID = "alignment_invalid"
    OUTPUT_OVERLAPS = "output_overlaps"
    DATA_TYPES_DIFFER = "data_types_differ"
    RANKS_DIFFER = "ranks_differ"
    SIZES_MISMATCH = "sizes_mismatch"
    AXIS_OUT_OF_RANGE = "axis_out_of_range"
    INDEX_OVERFLOW = "index_overflow"
    WINDOW_TOO_LARGE = "window_too_large"
    UNION_MISMATCH = "union_mismatch"
    OPERATOR_NOT_FUSABLE = "operator_not_fusable"
    UNEXPECTED_TENSOR = "unexpected_tensor"
    VALUE_NOT_ALLOWED = "value_not_allowed"
    MISSING_TENSOR = "missing_tensor"
    UNKNOWN_TENSOR = "unknown_tensor"
    BYTE_COUNT_MISMATCH = "byte_count_mismatch"
    SHAPE_MISMATCH = "shape_mismatch"
    INVALID_BASE64 = "invalid_base64"
    INVALID_NUMBER = "invalid_number"
    OVERLAP_CONFLICT = "overlap_conflict"
    EDGE_CONFLICT = "edge_conflict"
    UNUSED_NODE = "unused_node"
    GRAPH_CYCLE = "graph_cycle"
    NOT_COMPUTABLE = "not_computable"


class Basis(StrEnum):
    """What a rule rests on: Microsoft's documentation, the answers of DirectML itself, or opwire alone.

    DirectML decides what is valid. A rule that only the documentation states gives warnings, not violations. A rule of
    opwire's own concerns descs that DirectML accepts and opwire cannot compute: they are valid, but do not run.
    """

    BOTH = "both"
    PAGE = "page"
    OBSERVED = "observed"
    OPWIRE = "opwire"


MOST_ALLOWED = 16
"""Maximum length of a list of allowed values. Of a longer one, the first ``FEW_ALLOWED`` are left: the likeliest."""

FEW_ALLOWED = 5
"""Number of allowed values that are left of a long list, or shown to a person."""

OBSERVED_SOURCE = "DirectML"
"""The source of a violation that no page of Microsoft's documentation explains: the library rejects such descs."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which a request violates the contract.

    Attributes:
        code: the kind of rule that is broken.
        pointer: JSON pointer (RFC 6901) to the location in the request; for something missing, to its parent.
        message: what was given and what is allowed.
        allowed: the allowed values, if they can be listed; of a long list, the likeliest.
        available_from: the lowest feature level at which this would be valid; None if there is none, or if the level
            does not matter.
        source: the URL of the page that states the rule, ``DirectML`` for a rule that only the library shows, or None
            for the form of requests and rules of opwire.
        documented: whether Microsoft's documentation states the rule.
        allowed_more: how many values are allowed besides ``allowed``.
    """

    code: Code
    pointer: str
    message: str
    allowed: Sequence[object] | None = None
    available_from: FeatureLevel | None = None
    source: str | None = None
    documented: bool = False
    allowed_more: int = 0

    def __post_init__(self) -> None:
        if self.allowed is None:
            return
        allowed = [value for i, value in enumerate(self.allowed) if value not in self.allowed[:i]]
        if len(allowed) > MOST_ALLOWED:
            object.__setattr__(self, "allowed_more", len(allowed) - FEW_ALLOWED)
        object.__setattr__(self, "allowed", allowed[:FEW_ALLOWED] if self.allowed_more else allowed)

    @property
    def listed(self) -> str:
        """The allowed values for a person, the first few of many; empty if there are none or the message has them."""
        names = [*map(str, self.allowed or ())]
        are_said = all(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self.message) for name in names)
        if not self.allowed_more and (are_said or f"{names[0]} to {names[-1]}" in self.message):
            return ""
        more = len(names) + self.allowed_more - FEW_ALLOWED
        return ", ".join([*names[:FEW_ALLOWED], *([f"... {more} more"] if more > 0 else [])])

    def to_json(self) -> dict[str, object]:
        more = {"allowed_more": self.allowed_more} if self.allowed_more else {}
        return {
            "code": self.code.value,
            "pointer": self.pointer,
            "message": self.message,
            "allowed": None if self.allowed is None else list(self.allowed),
            "available_from": None if self.available_from is None else str(self.available_from),
            "source": self.source,
            "documented": self.documented,
            **more,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Violation:
        """Returns the violation that ``to_json`` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is not a violation.
        """
        available = given.get("available_from")
        return cls(
            Code(given["code"]),
            str(given["pointer"]),
            str(given["message"]),
            given.get("allowed"),
            None if available is None else FeatureLevel.parse(available),
            given.get("source"),
            bool(given.get("documented")),
            int(given.get("allowed_more", 0)),
        )


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken rule whose location in the request is not resolved yet.

    Attributes:
        code: the kind of rule that is broken.
        path: the location as field names and indices, starting with a field of the operator.
        message: what was given and what is allowed.
        allowed: the allowed values, if they can be listed.
        since: the lowest level at which it counts; None for all from the first.
        until: the level from which it no longer counts; None for no end.
        basis: what the rule rests on.
    """

    code: Code
    path: tuple[str | int, ...]
    message: str
    allowed: Sequence[object] | None = None
    since: FeatureLevel | None = None
    until: FeatureLevel | None = None
    basis: Basis = Basis.BOTH
