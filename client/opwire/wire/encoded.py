"""Tensors that stay base64 until they are needed: decoded in parts, each to where it is used."""

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
from .requests import ExecuteRequest, not_base64


class EncodedTensor:
    """The base64 text of a tensor.

    Attributes:
        desc: of the tensor; the text stands for as many bytes as it says.
    """

    __slots__ = ("_pointer", "_text", "desc")

    def __init__(self, text: memoryview, desc: BufferTensorDesc, pointer: str) -> None:
        self._text = text
        self._pointer = pointer
        self.desc = desc

    def decode(self, start: int, into: Array) -> None:
        """Fills an array with the bytes from ``start`` on, which is a multiple of 3.

        Args:
            into: array of bytes; all that are left, or a multiple of 3.

        Raises:
            RequestError: the text is not base64.
        """
        try:
            base64text.decode(self._text[start // 3 * 4 : (start + into.size + 2) // 3 * 4], into)
        except ValueError as error:
            violation = not_base64(str(error), self._pointer)
            raise RequestError(ProblemCode.INVALID_BASE64, violation.message, violations=[violation]) from None

    def array(self) -> Array:
        """The whole tensor.

        Raises:
            RequestError: the text is not base64.
        """
        buffer = np.empty(self.desc.data_size_in_bytes, np.uint8)
        self.decode(0, buffer)
        return self.desc.view(buffer)


def encoded_inputs(plan: Plan, request: ExecuteRequest) -> dict[str, EncodedTensor] | None:
    """The inputs of a checked request if each is long base64 text of the size of its tensor; otherwise None."""
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
