"""Responses to inference requests, with outputs in the requested order as numbers or in a binary tail."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic_core import to_json

from opwire.tensor import Array, BufferTensorDesc
from opwire.wire import Answer, Buffer

from .datatypes import NAMES
from .infer import InferRequest, RequestedOutput
from .models import ServedModel
from .shared_memory import SharedMemoryRange


def numbers_in(request: InferRequest, descs: Mapping[str, BufferTensorDesc]) -> int:
    """Returns the number of elements that the response contains as JSON numbers."""
    named = [output.name for output in request.outputs if not output.binary]
    if not request.outputs and not request.binary:
        named = list(descs)
    return sum(descs[name].element_count for name in named)


def write_infer(
    request: InferRequest, model: ServedModel, descs: Mapping[str, BufferTensorDesc], buffers: Mapping[str, Array]
) -> Answer:
    """Encodes the response to an inference request.

    Args:
        request: the request, which selects the outputs and their form.
        model: the model that ran.
        descs: descs of the outputs.
        buffers: buffers of the outputs. They are sent contiguously, as the protocol has no strides.
    """
    listed = []
    tail: list[Buffer] = []
    for output in request.outputs or [RequestedOutput(name, request.binary) for name in descs]:
        desc, buffer = descs[output.name], buffers[output.name]
        tensor: dict[str, object] = {"name": output.name, "datatype": NAMES[desc.data_type], "shape": desc.sizes}
        if output.place is not None:
            tensor["parameters"] = _place(output.place, desc)
        elif output.binary:
            packed = pack(desc, buffer)
            tensor["parameters"] = {"binary_data_size": packed.nbytes}
            tail.append(packed.data)
        else:
            tensor["data"] = desc.view(buffer).reshape(-1).tolist()
        listed.append(tensor)
    answer: dict[str, object] = {"model_name": model.name, "model_version": model.version, "outputs": listed}
    if request.identity is not None:
        answer["id"] = request.identity
    # The protocol's clients read and write NaN and Infinity literally.
    head = to_json(answer, inf_nan_mode="constants")
    return Answer([head], tail)


def _place(place: SharedMemoryRange, desc: BufferTensorDesc) -> dict[str, object]:
    """Returns the parameters of an output in shared memory; like Triton, it omits an offset of 0."""
    size = desc.element_count * desc.data_type.dtype.itemsize
    said: dict[str, object] = {"shared_memory_region": place.region, "shared_memory_byte_size": size}
    return {**said, "shared_memory_offset": place.offset} if place.offset else said


def pack(desc: BufferTensorDesc, buffer: Array) -> Array:
    """Returns the bytes of a tensor, contiguous and row-major."""
    if desc.strides is None:
        return buffer
    return np.ascontiguousarray(desc.view(buffer)).reshape(-1).view(np.uint8)
