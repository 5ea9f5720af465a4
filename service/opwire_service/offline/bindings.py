"""Bindings of a model's tensors to its buffers, and the rules DirectML has for them.

Source: ``DML_BUFFER_BINDING`` and the page on binding in the DirectML reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opwire.check import Plan
from opwire.desc import Report, pointer_to, show
from opwire.dxdispatch import Binding, Bindings, Buffer
from opwire.operator import Code
from opwire.tensor import BufferTensorDesc
from opwire.tensor_names import grouped, split

MINIMUM_ALIGNMENT = 16
"""``DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT``, in bytes."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The bytes ``[start, end)`` of a buffer that hold a tensor."""

    resource: str
    start: int
    end: int
    desc: BufferTensorDesc
    pointer: str


def bind(
    bindings: Bindings,
    plan: Plan,
    tensors: Mapping[str, BufferTensorDesc],
    buffers: Mapping[str, Buffer],
    pointer: str,
    report: Report,
) -> dict[str, Piece]:
    """Resolves bindings to pieces of buffers. Invalid bindings are reported and skipped.

    Args:
        bindings: bindings by tensor.
        plan: plan of the operator.
        tensors: tensors of the operator that may be bound here.
        buffers: buffers of the model.
        pointer: pointer to the bindings in the model.
        report: collects the violations.

    Returns:
        The bound piece of each tensor.
    """
    pieces: dict[str, Piece] = {}
    members = grouped({name: name for name in tensors})
    for member, listed in bindings.items():
        found = members.get(plan.operator.schema.aliases.get(member, member))
        if found is None:
            message = f"{show(member)} given; {plan.operator.name} with this desc has {', '.join(members)} here"
            report.add(Code.UNKNOWN_TENSOR, pointer_to(pointer, member), message, list(members))
            continue
        names = found if isinstance(found, list) else [found]
        if len(listed) != len(names):
            message = f"{len(listed)} resource{'s' if len(listed) != 1 else ''} given; {member} takes {len(names)}"
            report.add(Code.COUNT_MISMATCH, pointer_to(pointer, member), message, [len(names)])
            continue
        for name, binding in zip(names, listed, strict=True):
            piece = _piece(binding, tensors[name], buffers[binding.resource], report)
            if piece is not None:
                pieces[name] = piece
    return pieces


def _piece(binding: Binding, desc: BufferTensorDesc, buffer: Buffer, report: Report) -> Piece | None:
    element_size = binding.element_size
    if element_size is None:
        element_size = 0 if buffer.data_type is None else buffer.data_type.dtype.itemsize
    start = binding.element_offset * element_size
    alignment = desc.guaranteed_base_offset_alignment or MINIMUM_ALIGNMENT
    if start % alignment:
        message = f"the tensor starts at byte {start}; DirectML requires a multiple of {alignment}"
        report.add(Code.ALIGNMENT_INVALID, binding.pointer, message)
        return None
    end = start + desc.total_size_in_bytes
    if end > buffer.size_in_bytes:
        message = (
            f"the buffer {show(binding.resource)} has {buffer.size_in_bytes} bytes; "
            f"the tensor takes {desc.total_size_in_bytes} starting at byte {start}"
        )
        report.add(Code.BYTE_COUNT_MISMATCH, binding.pointer, message)
        return None
    return Piece(binding.resource, start, end, desc, binding.pointer)


def require_all(plan: Plan, tensors: Iterable[str], bound: Iterable[str], pointer: str, report: Report) -> None:
    """Reports every member without a binding. ``bound`` contains names or aliases of members, or names of tensors."""
    aliases = plan.operator.schema.aliases
    known = {split(aliases.get(name, name))[0] for name in bound}
    for member in dict.fromkeys(split(name)[0] for name in tensors):
        if member not in known:
            report.add(Code.MISSING_TENSOR, pointer, f"nothing is bound to {member}")


def require_apart(pieces: Mapping[str, Piece], plan: Plan, report: Report) -> None:
    """Reports every output that overlaps another tensor, except where the operator may run in place."""
    written = {name: i for i, name in enumerate(name for name in plan.outputs if name in pieces)}
    sharing: dict[str, list[tuple[str, Piece]]] = {}
    for name, piece in pieces.items():
        sharing.setdefault(piece.resource, []).append((name, piece))
    for name, i in written.items():
        piece = pieces[name]
        for other_name, other in sharing[piece.resource]:
            apart = other.end <= piece.start or piece.end <= other.start
            if apart or written.get(other_name, len(written)) <= i or _in_place(plan, name, piece, other_name, other):
                continue
            message = f"{name} and {other_name} share bytes of the buffer {show(piece.resource)}"
            report.add(Code.OVERLAP_CONFLICT, piece.pointer, message)


def _in_place(plan: Plan, output: str, piece: Piece, source: str, other: Piece) -> bool:
    """Whether an output may replace an input in place, which requires the same bytes, type and layout."""
    alike = (piece.start, piece.end, piece.desc.element_strides) == (other.start, other.end, other.desc.element_strides)
    is_same = alike and (piece.desc.data_type, piece.desc.sizes) == (other.desc.data_type, other.desc.sizes)
    return is_same and (output, source) in plan.operator.schema.in_place
