"""Integer matrix products and convolutions.

Sums of byte products are exact in float64, and then wrapped or requantized. Sums scaled to floats are certified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from opwire.check import Plan
from opwire.tensor import BufferTensorDesc

from ...convolutions import ConvolutionGeometry
from ..job import Card, CudaMemory, Launch, SingleProgramJob, device_desc
from .batches import Batches
from .convolution import phase_products
from .gemm import matrix_products
from .launching import Launching, integer_program, scaled_program
from .tiles import BatchedProduct, LineParameter, ProductTiling, Scratch

_MATRIX = {"left": "ATensor", "right": "BTensor", "addend": "BiasTensor", "target": "OutputTensor"}
_MATRIX_ROWS = {
    "left_zero": "AZeroPointTensor",
    "left_scale": "AScaleTensor",
    "scale": "OutputScaleTensor",
    "zero": "OutputZeroPointTensor",
}
_MATRIX_COLUMNS = {"right_zero": "BZeroPointTensor", "right_scale": "BScaleTensor"}

_CONVOLUTION = {"left": "FilterTensor", "right": "InputTensor", "addend": "BiasTensor", "target": "OutputTensor"}
_CONVOLUTION_ROWS = {
    "left_zero": "FilterZeroPointTensor",
    "left_scale": "FilterScaleTensor",
    "scale": "OutputScaleTensor",
    "zero": "OutputZeroPointTensor",
}
_CONVOLUTION_COLUMNS = {"right_zero": "InputZeroPointTensor", "right_scale": "InputScaleTensor"}
"""Tensor names, by their names in the kernels."""


class IntegerProducts(SingleProgramJob):
    """The job of integer products.

    Args:
        plan: the plan of an operator.
        processors: number of multiprocessors.
        products: the products.
        tensors: maps names in the kernels to tensor names.
    """

    def __init__(
        self, plan: Plan, card: Card, products: BatchedProduct, tensors: dict[str, str], *, has_window: bool
    ) -> None:
        descs = {**plan.inputs, **plan.outputs}
        self._tensors = {name: tensor for name, tensor in tensors.items() if tensor in descs}
        types = {name: descs[tensor].data_type for name, tensor in self._tensors.items()}
        is_scaled = types["target"].is_float
        is_quantized = "OutputScaleTensor" in plan.inputs
        if is_scaled:
            program = scaled_program(types)
        else:
            program = integer_program(types, has_window=has_window, is_quantized=is_quantized)
        item_bytes = {name: data_type.dtype.itemsize for name, data_type in types.items()}
        launching = Launching(program, {"addend": 4, **item_bytes}, card.processors, has_window=has_window)
        tiling = ProductTiling.of(products)
        self.scratch_bytes = Scratch.of(products, tiling, is_direct=False).size
        self._program = program
        self._batches = Batches(partial(launching.multiplied if is_scaled else launching.exact, products, tiling))

    def launches(self, memory: CudaMemory) -> Iterator[Launch]:
        """See ``CudaJob.launches``."""
        places = {**memory.inputs, **memory.outputs}
        addresses = {name: places[tensor] for name, tensor in self._tensors.items()}
        for batch in self._batches:
            yield from batch.placed(self._program, addresses, memory.scratch)


def _parameters(plan: Plan, rows: dict[str, str], columns: dict[str, str], group: int = 0) -> dict[str, LineParameter]:
    """Returns the parameters that a plan has; row parameters may differ per group."""
    every = [(name, tensor, True) for name, tensor in rows.items()]
    every += [(name, tensor, False) for name, tensor in columns.items()]
    return {
        name: _parameter(plan.inputs[tensor], group, of_rows=of_rows)
        for name, tensor, of_rows in every
        if tensor in plan.inputs
    }


def _parameter(desc: BufferTensorDesc, group: int, *, of_rows: bool) -> LineParameter:
    step = next((step for size, step in zip(desc.sizes, desc.element_strides, strict=True) if size > 1), 0)
    return LineParameter(of_rows, desc.data_type.dtype.itemsize, step * group, step)


def matrices(plan: Plan, card: Card) -> IntegerProducts:
    """Returns the job of an integer matrix product."""
    products = matrix_products(plan, device_desc(plan.outputs["OutputTensor"]))
    products = replace(products, parameters=_parameters(plan, _MATRIX_ROWS, _MATRIX_COLUMNS))
    tensors = {**_MATRIX, **_MATRIX_ROWS, **_MATRIX_COLUMNS}
    return IntegerProducts(plan, card, products, tensors, has_window=False)


def convolution(plan: Plan, card: Card) -> IntegerProducts:
    """Returns the job of a byte convolution."""
    geometry = ConvolutionGeometry(plan)
    lines = geometry.phase(0)
    assert lines is not None  # a forward convolution is a single phase
    products = phase_products(plan, geometry, device_desc(plan.outputs["OutputTensor"]), lines)
    parameters = _parameters(plan, _CONVOLUTION_ROWS, _CONVOLUTION_COLUMNS, geometry.filters)
    tensors = {**_CONVOLUTION, **_CONVOLUTION_ROWS, **_CONVOLUTION_COLUMNS}
    return IntegerProducts(plan, card, replace(products, parameters=parameters), tensors, has_window=True)


JOBS = {
    "CONVOLUTION_INTEGER": convolution,
    "MATRIX_MULTIPLY_INTEGER": matrices,
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": matrices,
    "QUANTIZED_LINEAR_CONVOLUTION": convolution,
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": matrices,
}
