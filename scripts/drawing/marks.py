"""Decides which elements of a picture are marked alike."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import numpy as np

from .trace import Element, Trace

COLORS = 6
"""Colors that can be told apart."""

Marks = dict[Element, list[int]]
"""The colors of each element, by the tensor's name and the element's indices."""


def marks(trace: Trace) -> tuple[Marks, Marks]:
    """Returns the colors of the elements of the inputs and of the outputs."""
    return _flow(trace) if trace.is_flow else _windows(trace)


def focus(trace: Trace) -> list[Element]:
    """Returns up to two elements of the first output, the second as far from the first as it gets."""
    first_output = next(iter(trace.outputs))
    listed = [each for each, read in trace.reads.items() if each[0] == first_output and read]
    first = listed[0]
    own = set(trace.reads[first])
    others = [each for each in listed if set(trace.reads[each]) != own]
    return [first, *others[-1:]]


def _windows(trace: Trace) -> tuple[Marks, Marks]:
    """Marks two elements of the first output, and what each of them depends on."""
    inputs: Marks = {}
    outputs: Marks = {}
    for color, (name, at) in enumerate(focus(trace)):
        for each in trace.reads[name, at]:
            inputs.setdefault(each, []).append(color)
        alike = [name, *(other for other in trace.outputs if trace.outputs[other].shape == trace.outputs[name].shape)]
        outputs.update({(other, at): [color] for other in alike})
    return inputs, outputs


def _flow(trace: Trace) -> tuple[Marks, Marks]:
    """Marks copies with the color of what they copy, or elements with the color of where they go."""
    color_of = _colors(trace)
    outputs = {each: [color_of[source]] for each, source in trace.copies.items()}
    inputs = {source: [color] for source, color in color_of.items()}
    for each, source in trace.copies.items():
        for selector in trace.reads[each]:
            inputs.setdefault(selector, [color_of[source]])
    return inputs, outputs


def _colors(trace: Trace) -> dict[Element, int]:
    """Returns the colors of the elements that are copied: each its own if they are few, otherwise by place."""
    sources = {source: source for source in trace.copies.values()}
    targets = {source: each for each, source in reversed(trace.copies.items())}
    attempts: list[tuple[dict[Element, Element], Callable[[Element], object]]] = [
        (sources, lambda each: each),
        (sources, lambda each: each[0]),
        (targets, lambda each: each[0]),
        (sources, lambda each: (each[0], each[1][:-2])),
        (targets, lambda each: (each[0], each[1][:-2])),
        (sources, lambda each: (each[0], each[1][:-1])),
        (sources, lambda each: each[1][-1]),
    ]
    for places, key in attempts:
        groups = list(dict.fromkeys(key(place) for place in places.values()))
        if 1 < len(groups) <= COLORS:
            return {source: groups.index(key(place)) for source, place in places.items()}
    return dict.fromkeys(sources, 0)


def unread(trace: Trace) -> set[Element]:
    """Returns the elements of the inputs that nothing depends on."""
    read = set(chain.from_iterable(trace.reads.values()))
    return {(name, at) for name, array in trace.inputs.items() for at in np.ndindex(array.shape)} - read
