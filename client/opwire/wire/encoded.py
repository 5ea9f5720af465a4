"""Tensors kept as base64 until they are needed, and decoded in parts directly to where they are used."""

from __future__ import annotations

import numpy as np

from ..check import Plan
from ..desc import pointer_to
from ..errors import ProblemCode, RequestError
from ..tensor import Array, BufferTensorDesc
from ..tensor_names import place
from . import base64text
from .base64text import decoded_size
from .framing import Base64
from .inputs import not_base64
from .requests import ExecuteRequest


class EncodedTensor:
    """The base64 text of a tensor.

    Attributes:
        desc: the desc of the tensor, which matches the size of the text.
    """

    __slots__ = ("_pointer", "_text", "desc")

    def __init__(self, text: memoryview, desc: BufferTensorDesc, pointer: str) -> None:
        self._text = text
        self._pointer = pointer
        self.desc = desc

    def decode(self, start: int, into: Array) -> None:
        """Decodes bytes into an array.

        Args:
            start: the offset of the first byte, a multiple of 3.
            into: an array of bytes, whose size is a multiple of 3 unless it extends to the end.

        Raises:
            RequestError: the text is not valid base64.
        """
        try:
            base64text.decode(self._text[start // 3 * 4 : (start + into.size + 2) // 3 * 4], into)
        except ValueError as error:
            violation = not_base64(str(error), self._pointer)
            raise RequestError(ProblemCode.INVALID_BASE64, violation.message, violations=[violation]) from None

    def array(self) -> Array:
        """Decodes the whole tensor.

        Raises:
            RequestError: the text is not valid base64.
        """
        buffer = np.empty(self.desc.data_size_in_bytes, np.uint8)
        self.decode(0, buffer)
        return self.desc.view(buffer)


def encoded_inputs(plan: Plan, request: ExecuteRequest) -> dict[str, EncodedTensor] | None:
    """Returns the inputs of a checked request if all are long base64 texts of the right size, or else None."""
    if plan.inputs.keys() != request.inputs.keys():
        return None
    found = {}
    for name, desc in plan.inputs.items():
        payload = request.inputs[name]
        if not isinstance(payload, Base64) or len(payload.text) % 4:
            return None
        if decoded_size(payload.text) != desc.data_size_in_bytes:
            return None
        pointer = place(pointer_to(request.pointer, "inputs"), name)
        found[name] = EncodedTensor(payload.text, desc, pointer)
    return found
