"""Numbering of a node's tensors: those of its desc struct in order, counting each tensor of an array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..fields import TensorMember
from ..reading import ReadDesc
from ..tensor import BufferTensorDesc
from ..tensor_names import split


def input_slot(desc: ReadDesc, slot: str | int) -> str | None:
    """Returns the name of an input given by name or number, or None if there is none.

    An input omitted from the desc keeps its number, and its name is returned too.
    """
    assert desc.declared is not None
    return _slot(desc.declared.members.inputs, desc.inputs, slot)


def output_slot(desc: ReadDesc, slot: str | int) -> str | None:
    """Like ``input_slot``, for an output. An empty name stands for the output of a node with only one."""
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
    """Yields the names of all slots: of each member, even if omitted, or of each tensor of an array."""
    for member in members:
        if member.is_array:
            yield from (name for name in tensors if split(name)[0] == member.name)
        else:
            yield member.name
