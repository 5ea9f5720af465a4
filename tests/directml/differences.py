"""Where results differ from DirectML's, element by element, and which rule explains an element.

Integers must be equal, NaN and infinities in the same places, and floats near each other. ``rules/FAMILY.json`` lists
the differences that are meant, by operator; where the machines do not agree with each other, DirectML has no answer,
and no rule is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opwire.schema import Departure
from opwire.tensor import Array
from tests.directml import vocabulary
from tests.directml.computed import Computed

Mask = npt.NDArray[np.bool_]

RELATIVE = {"float16": 4e-3, "float32": 2e-4, "float64": 1e-12}
"""By type, how far floats may be from each other, relative to the value or, near zero, to the tensor's values."""

LOOSER = 10
"""How many times further the machines may be from each other before they count as two different answers."""


@dataclass(frozen=True)
class Rule:
    """A difference that is meant.

    Attributes:
        kind: Why the results differ; a decision of the same class says how.
        rule: Name of a rule of the vocabulary.
        when: Values of attributes, or data types of tensors, that the rule is confined to; a list means any of it, and
            "given" anything but null.
        numbers: Bounds of the rule.
        outputs: Outputs that the rule is confined to, if not all.
    """

    kind: Departure
    rule: str
    when: Mapping[str, Any] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.rule in vocabulary.RULES, f"{self.rule} is not a rule: {', '.join(vocabulary.RULES)}"

    def explains(self, seen: vocabulary.Seen) -> Mask:
        """Returns the elements that the rule explains."""
        is_meant = not self.outputs or seen.output in self.outputs
        if not is_meant or not all(_is(seen.case, name, value) for name, value in self.when.items()):
            return np.zeros(seen.ours.shape, bool)
        return np.broadcast_to(vocabulary.RULES[self.rule](seen, **self.numbers), seen.ours.shape)


def _is(case: Computed, name: str, value: Any) -> bool:
    given = case.operator["desc"].get(name)
    given = given["DataType"] if isinstance(given, dict) and "DataType" in given else given
    if value == "given":
        return given is not None
    return given in value if isinstance(value, list) else bool(given == value)


def _rule(row: Mapping[str, Any]) -> Rule:
    optional = {key: row[key] for key in ("when", "numbers") if key in row}
    return Rule(Departure(row["class"]), row["rule"], **optional, outputs=tuple(row.get("outputs", ())))


@cache
def rules() -> Mapping[str, tuple[Rule, ...]]:
    """Returns the listed differences of each operator."""
    found: dict[str, tuple[Rule, ...]] = {}
    for path in sorted((Path(__file__).parent / "rules").glob("*.json")):
        for name, listed in json.loads(path.read_text("utf-8")).items():
            found[name] = tuple(_rule(row) for row in listed)
    return found


@dataclass(frozen=True)
class Difference:
    """An output of a case that differs.

    Attributes:
        output: Name of the output.
        seen: The values.
        different: The elements that differ.
        classes: The classes that explain elements, each with its elements; ``machines`` where the machines disagree.
        used: The rules that explain elements.
    """

    output: str
    seen: vocabulary.Seen
    different: Mask
    classes: Mapping[str, Mask]
    used: tuple[Rule, ...]

    @property
    def unexplained(self) -> Mask:
        """The elements that no rule explains."""
        explained = np.zeros(self.different.shape, bool)
        for mask in self.classes.values():
            explained |= mask
        return self.different & ~explained


def differences(case: Computed, outputs: Mapping[str, Array]) -> Iterator[Difference]:
    """Yields the outputs in which results differ from DirectML's."""
    with np.errstate(all="ignore"):
        for name, ours in outputs.items():
            answers = [case.answer(machine, name) for machine in range(len(case.answers))]
            differs = [different(ours, answer) for answer in answers]
            if any(mask.any() for mask in differs):
                yield _difference(name, vocabulary.Seen(case, name, ours, answers[0]), answers, differs)


def _difference(name: str, seen: vocabulary.Seen, answers: list[Array], differs: list[Mask]) -> Difference:
    somewhere = np.logical_or.reduce(differs)
    classes = {"machines": somewhere & ~_agreed(answers, differs)}
    used = []
    for rule in rules().get(seen.case.name, ()):
        explained = rule.explains(seen) & somewhere & ~classes["machines"]
        if explained.any():
            used.append(rule)
            classes[rule.kind] = classes.get(rule.kind, False) | explained
    return Difference(name, seen, somewhere, classes, tuple(used))


def _agreed(answers: list[Array], differs: list[Mask]) -> Mask:
    """Returns the elements for which all machines wrote the same, and not what opwire writes."""
    same = ~different(answers[0], answers[-1], LOOSER)
    return np.asarray(same & np.logical_and.reduce(differs))


def different(ours: Array, theirs: Array, times: float = 1) -> Mask:
    """Returns the elements that differ, floats by more than what is near."""
    if ours.dtype.kind != "f" or np.array_equal(ours, theirs):
        return np.asarray(ours != theirs)
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    are_numbers = np.isfinite(a) & np.isfinite(b)
    largest = np.max(np.abs(b), initial=0, where=np.isfinite(b))
    near = times * RELATIVE[ours.dtype.name] * np.maximum(np.abs(b), min(1, largest))
    apart = np.abs(np.subtract(a, b, where=are_numbers, out=np.zeros(a.shape)))
    return np.asarray(~((a == b) | (np.isnan(a) & np.isnan(b)) | (are_numbers & (apart <= near))))
