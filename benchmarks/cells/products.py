"""Matrix products, convolutions, attention and a recurrent network, all exact in opwire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from opwire.tensor import Array

from ..cell import Cell, Function, Onnx, Tensor, below, functional, normal, torch

_CONVOLUTIONS = {
    # channels, size, filters, window, stride, padding, groups
    "resnet50 conv1": (3, 224, 64, 7, 2, 3, 1),
    "resnet50 conv2 3x3": (64, 56, 64, 3, 1, 1, 1),
    "resnet50 conv2 1x1": (64, 56, 256, 1, 1, 0, 1),
    "resnet50 conv3 3x3": (128, 28, 128, 3, 1, 1, 1),
    "resnet50 conv4 3x3": (256, 14, 256, 3, 1, 1, 1),
    "resnet50 conv5 3x3": (512, 7, 512, 3, 1, 1, 1),
    "mobilenet depthwise 112": (32, 112, 32, 3, 1, 1, 32),
    "mobilenet pointwise 112": (32, 112, 64, 1, 1, 0, 1),
    "mobilenet depthwise 14": (512, 14, 512, 3, 1, 1, 512),
}

_GEMMS = {
    **{f"{n}": (1, n, n, n) for n in (64, 128, 256, 512, 1024, 2048)},
    "tall 8192x64x512": (1, 8192, 64, 512),
    "thin 16x4096x4096": (1, 16, 4096, 4096),
    "batch 96 of 128x64x128": (96, 128, 64, 128),
}


def _gemm(name: str, sizes: tuple[int, int, int, int], dtype: str) -> Cell:
    batch, m, k, n = sizes
    single: list[Array] = []

    def numpy(a: Array, b: Array) -> Array:
        if not single:  # NumPy multiplies FLOAT16 without BLAS
            single.extend(each.astype(np.float32) for each in (a, b))
        return np.matmul(*single)

    return Cell(group="GEMM", name=f"GEMM {dtype.upper()} {name}", operator="GEMM",
                inputs={"ATensor": Tensor((1, batch, m, k), dtype), "BTensor": Tensor((1, batch, k, n), dtype)},
                fields={"TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 1},
                numpy=numpy, torch=lambda a, b: torch.matmul(a, b),
                onnx=Onnx("MatMul", outputs=(dtype,)))  # fmt: skip


def _integers(n: int) -> Cell:
    matrix = Tensor((n, n), "uint8", below(0, 256))
    return Cell(group="MATRIX_MULTIPLY_INTEGER", name=f"MATRIX_MULTIPLY_INTEGER {n}",
                operator="MATRIX_MULTIPLY_INTEGER", inputs={"ATensor": matrix, "BTensor": matrix},
                onnx=Onnx("MatMulInteger", outputs=("int32",)))  # fmt: skip


def _convolution(name: str, images: int, title: str) -> Cell:
    channels, size, filters, window, stride, padding, groups = _CONVOLUTIONS[name]
    arrays = {"Strides": stride, "Dilations": 1, "StartPadding": padding, "EndPadding": padding, "OutputPadding": 0}
    fields: dict[str, Any] = {key: [value] * 2 for key, value in arrays.items()} | {"GroupCount": groups}
    inputs = {
        "InputTensor": Tensor((images, channels, size, size)),
        "FilterTensor": Tensor((filters, channels // groups, window, window)),
    }
    return Cell(group="convolutions", name=title, operator="CONVOLUTION", inputs=inputs,
                fields=fields | {"Mode": "CROSS_CORRELATION", "Direction": "FORWARD"},
                torch=lambda x, w: functional.conv2d(x, w, stride=stride, padding=padding, groups=groups),
                onnx=Onnx("Conv", {"strides": [stride] * 2, "pads": [padding] * 4, "group": groups}))  # fmt: skip


def _attention() -> Cell:
    def attend(*given: Any) -> Any:
        heads = (x.reshape(8, 128, 12, 64).transpose(1, 2) for x in given)
        return functional.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(8, 128, 768)

    inputs = {f"{name}Tensor": Tensor((8, 128, 768)) for name in ("Query", "Key", "Value")}
    return Cell(group="networks", name="BERT-base attention", operator="MULTIHEAD_ATTENTION", inputs=inputs,
                fields={"Scale": 0.125, "MaskFilterValue": -10000, "MaskType": "NONE", "HeadCount": 12},
                torch=attend)  # fmt: skip


def _small(generator: np.random.Generator, sizes: tuple[int, ...]) -> Array:
    return normal(generator, sizes) / 32


def _lstm() -> Cell:
    hidden, steps, batch = 512, 128, 8
    weights = Tensor((1, 1, 4 * hidden, hidden), draw=_small)
    network: list[Function] = []

    def run(x: Any, *_: Any) -> Any:
        if not network:
            network.append(torch.nn.LSTM(hidden, hidden))
        with torch.no_grad():
            return network[0](x[0])

    activations = [{"Type": f"ACTIVATION_{name}"} for name in ("SIGMOID", "TANH", "TANH")]
    fields: dict[str, Any] = {"ActivationDescs": activations, "Direction": "FORWARD", "ClipThreshold": 0}
    fields |= {"UseClipThreshold": False, "CoupleInputForget": False}
    fields["OutputSequenceTensor"] = {"DataType": "FLOAT32", "Sizes": [steps, 1, batch, hidden]}
    inputs = {"InputTensor": Tensor((1, steps, batch, hidden)), "WeightTensor": weights, "RecurrenceTensor": weights}
    return Cell(group="networks", name="LSTM 512, 128 steps", operator="LSTM", inputs=inputs, fields=fields,
                torch=run, is_chosen=True)  # fmt: skip


def cpu() -> Iterator[Cell]:
    for name, sizes in _GEMMS.items():
        yield _gemm(name, sizes, "float32")
    for n in (512, 1024):
        yield _gemm(str(n), (1, n, n, n), "float16")
    yield from map(_integers, (256, 1024))
    for name in _CONVOLUTIONS:
        yield _convolution(name, 1, name)
    yield _attention()
    yield _lstm()


def cuda() -> Iterator[Cell]:
    squares = [("float32", (n, n, n)) for n in (512, 1024, 2048, 4096, 8192)]
    squares += [("float16", (n, n, n)) for n in (1024, 4096)]
    for dtype, (m, k, n) in (*squares, ("float32", (8192, 64, 512)), ("float32", (16, 4096, 4096))):
        yield _gemm(f"{m}x{k}x{n}", (1, m, k, n), dtype)
    for images in (1, 32):
        for name in list(_CONVOLUTIONS)[:7]:
            yield _convolution(name, images, f"{name}, {images}")
