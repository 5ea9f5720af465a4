"""Leaves out of a DxDispatch model what opwire cannot run: shaders, ONNX models, and what depends on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from opwire.dxdispatch import Command, Deferred, Dispatch, Dispatchable, ForeignDispatchable, Model


def without_unsupported(model: Model) -> tuple[Model, list[str]]:
    """Returns a model without the parts that opwire cannot run, and a description of each of them.

    Buffers that only they would have written keep their initial values.
    """
    deferred = {name for name, buffer in model.resources.items() if isinstance(buffer.initial, Deferred)}
    foreign = {
        name: each.violation.message if isinstance(each, ForeignDispatchable) else "it is bound to a deferred resource"
        for name, each in model.dispatchables.items()
        if isinstance(each, ForeignDispatchable) or not deferred.isdisjoint(_bound(each))
    }
    kept = [each for each in model.commands if _can_run(each, foreign, deferred)]
    skipped = [f"dispatchable {name!r}: {why}" for name, why in foreign.items()]
    skipped += [f"resource {name!r}: its size is determined by an ONNX model" for name in sorted(deferred)]
    left = len(model.commands) - len(kept)
    if left:
        skipped.append(f"{left} command{'s' if left != 1 else ''} that use{'s' if left == 1 else ''} them")
    whole = replace(
        model,
        resources={name: each for name, each in model.resources.items() if name not in deferred},
        dispatchables={name: each for name, each in model.dispatchables.items() if name not in foreign},
        commands=tuple(kept),
    )
    return whole, skipped


def _can_run(command: Command, foreign: dict[str, str], deferred: set[str]) -> bool:
    if not isinstance(command, Dispatch):
        return command.resource not in deferred
    return command.dispatchable not in foreign and deferred.isdisjoint(_bound(command))


def _bound(given: Dispatch | Dispatchable) -> Iterator[str]:
    """Yields the resources that a command or a dispatchable is bound to."""
    bindings = {} if isinstance(given, ForeignDispatchable) else given.bindings
    for listed in bindings.values():
        yield from (binding.resource for binding in listed)
