"""Tensors that stay base64 until they are needed: decoded piece by piece, each to where it is used.

A piece is small enough for the processor's cache, so decoding costs a fifth of what it does by way of a buffer as large
as the tensor, whose memory the system has to clear first.
"""

from __future__ import annotations

import numpy as np
import pybase64

from ..check import Plan
from ..desc import pointer_to
from ..errors import ProblemCode, RequestError
from ..tensor import Array, BufferTensorDesc
from .framing import Base64
from .requests import ExecuteRequest, decoded_size, not_base64

_PIECE = 256 * 1024
"""Letters; a multiple of 4."""


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
        text = self._text[start // 3 * 4 : (start + into.size + 2) // 3 * 4]
        done = 0
        for at in range(0, len(text), _PIECE):
            try:
                piece = pybase64.b64decode(text[at : at + _PIECE], validate=True)
            except ValueError as error:
                raise self._refusal(str(error)) from None
            if len(piece) != min(_PIECE // 4 * 3, into.size - done):
                raise self._refusal("padding inside")
            into[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
            done += len(piece)

    def array(self) -> Array:
        """The whole tensor.

        Raises:
            RequestError: the text is not base64.
        """
        buffer = np.empty(self.desc.data_size_in_bytes, np.uint8)
        self.decode(0, buffer)
        return self.desc.view(buffer)

    def _refusal(self, reason: str) -> RequestError:
        violation = not_base64(reason, self._pointer)
        return RequestError(ProblemCode.INVALID_BASE64, violation.message, violations=[violation])


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
        pointer = pointer_to(pointer_to(request.pointer, "inputs"), name)
        found[name] = EncodedTensor(payload.text, desc, pointer)
    return found
