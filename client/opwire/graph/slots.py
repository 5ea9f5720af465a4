"""The tensors of a node by their numbers: those of its desc struct in order, each tensor of an array counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..fields import TensorMember
from ..reading import ReadDesc
from ..tensor import BufferTensorDesc
from ..tensor_names import split


def input_slot(desc: ReadDesc, slot: str | int) -> str | None:
    """The name of an input that is given by name or number; None if there is none.

    One that the desc leaves out keeps its number, and is named too.
    """
    assert desc.declared is not None
    return _slot(desc.declared.members.inputs, desc.inputs, slot)


def output_slot(desc: ReadDesc, slot: str | int) -> str | None:
    """The name of an output, as ``input_slot``; of a node with one output it may be left empty."""
    assert desc.declared is not None
    if slot == "" and len(desc.outputs) == 1:
        return next(iter(desc.outputs))
    return _slot(desc.declared.members.outputs, desc.outputs, slot)


def _slot(members: Iterable[TensorMember], tensors: Mapping[str, BufferTensorDesc], slot: str | int) -> str | None:
    if isinstance(slot, str):
        return slot
    names = list(slots(members, tensors))
    return names[slot] if slot < len(names) else None


def slots(members: Iterable[TensorMember], tensors: Mapping[str, BufferTensorDesc]) -> Iterator[str]:
    """The names of all slots: a member's own, also if it is left out, or those of an array's tensors."""
    for member in members:
        if member.is_array:
            yield from (name for name in tensors if split(name)[0] == member.name)
        else:
            yield member.name
