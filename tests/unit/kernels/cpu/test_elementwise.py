"""Element-wise operators on the CPU: many tiles and threads, any layout, and stopping long work."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from opwire.tensor import Array
from opwire_service.devices.cpu import CpuDevice
from opwire_service.execution import Stopped
from opwire_service.kernels.cpu.elementwise.planes import planes_of
from tests.support.elements import answer, plan_of

SIZES = (3, 130, 700)
"""More than one tile of any computation."""


def _layouts(array: Array) -> dict[str, Array]:
    """Returns views of an array with the same sizes and different memory layouts."""
    gaps = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)[..., ::2]
    gaps[...] = array
    packed = np.ascontiguousarray
    return {
        "packed": array,
        "transposed": packed(array.transpose(0, 2, 1)).transpose(0, 2, 1),
        "reversed": packed(array.transpose(2, 1, 0)).transpose(2, 1, 0),
        "gaps": gaps,
        "one_row": as_strided(array, array.shape, (0, 0, array.itemsize)),
        "one_column": as_strided(array, array.shape, (0, array.itemsize, 0)),
        "one_element": as_strided(array, array.shape, (0, 0, 0)),
    }


LAYOUTS = ("packed", "transposed", "reversed", "gaps", "one_row", "one_column", "one_element")


@pytest.mark.parametrize("output", ["packed", "transposed", "gaps"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_tiles_in_any_layout(cpu_device, layout, output):
    draw = np.random.default_rng(1)
    a, b = draw.integers(-1000, 1000, (2, *SIZES), np.int32)
    other = _layouts(b)[layout]
    arrays = {"ATensor": a, "BTensor": other}
    target = _layouts(np.zeros(SIZES, np.int32))[output]
    steps = [step // 4 for step in target.strides]
    desc = {"DataType": "INT32", "Sizes": list(SIZES), "Strides": steps}
    plan = plan_of("ELEMENT_WISE_MULTIPLY", arrays, OutputTensor=desc)
    np.testing.assert_array_equal(answer(cpu_device, plan, arrays, target), a * other)


@pytest.mark.parametrize("name", ["ELEMENT_WISE_EXP", "ACTIVATION_GELU", "ELEMENT_WISE_LOG"])
@pytest.mark.parametrize("layout", ["packed", "transposed", "one_column"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_tiles_match_small_tensors(cpu_device, name, layout, dtype):
    values = np.random.default_rng(2).standard_normal(SIZES).astype(dtype)
    source = _layouts(values)[layout]
    found = answer(cpu_device, plan_of(name, {"InputTensor": source}), {"InputTensor": source})
    for place in ((0, 0), (1, 77), (2, 129)):
        row = np.ascontiguousarray(source[place])
        right = answer(cpu_device, plan_of(name, {"InputTensor": row}), {"InputTensor": row})
        np.testing.assert_array_equal(found[place], right)


def test_scales_by_channel_across_many_tiles(cpu_device):
    values = np.random.default_rng(3).standard_normal((5, 3, 120, 90)).astype(np.float32)
    biases = [0.0, 10.5, -1.25]
    plan = plan_of("VALUE_SCALE_2D", {"InputTensor": values}, Scale=2, Bias=biases)
    right = values.astype(np.float64) * 2 + np.array(biases).reshape(3, 1, 1)
    np.testing.assert_array_equal(answer(cpu_device, plan, {"InputTensor": values}), right.astype(np.float32))


def test_results_do_not_depend_on_the_number_of_threads():
    values = np.random.default_rng(4).standard_normal(100_000).astype(np.float32)
    plan = plan_of("ACTIVATION_SOFTPLUS", {"InputTensor": values})
    found = []
    for threads in (1, 3):
        device = CpuDevice(threads)
        found.append(answer(device, plan, {"InputTensor": values}))
        device.close()
    np.testing.assert_array_equal(found[0].view(np.uint32), found[1].view(np.uint32))


def test_many_exact_elements_can_be_stopped(cpu_device):
    """Squares halfway between two numbers are undecided, so every element takes the exact path."""
    values = (np.random.default_rng(5).integers(2049, 2890, 2**20) * 2 + 1).astype(np.float32)
    arrays = {"InputTensor": values, "ExponentTensor": np.full(values.shape, 2, np.float32)}
    asked = iter([False] * 3)
    plan = plan_of("ELEMENT_WISE_POW", arrays)
    with pytest.raises(Stopped):
        cpu_device.run(plan, arrays, {"OutputTensor": values.copy()}, lambda: next(asked, True))


@pytest.mark.parametrize("step", [2048, 32])
@pytest.mark.parametrize("layout", ["packed", "transposed"])
def test_squares_that_are_ties_round_to_even(cpu_device, layout, step):
    """A few of them are decided one by one, many in tiles."""
    values = np.random.default_rng(6).standard_normal((1, 300, 500))
    middles = values.reshape(-1)[::step]
    middles[:] = np.random.default_rng(7).integers(2049, 2890, middles.size) * 2 + 1
    x = _layouts(values.astype(np.float32))[layout]
    arrays = {"InputTensor": x, "ExponentTensor": np.full(x.shape, 2, np.float32)}
    found = answer(cpu_device, plan_of("ELEMENT_WISE_POW", arrays), arrays)
    np.testing.assert_array_equal(found, np.square(x.astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize("steps", [(4, 12, 1560), (364000, 2800, 4), (0, 0, 4), (0, 2800, 0)])
@pytest.mark.parametrize("most", [1 << 8, 1 << 13])
def test_pieces_of_tiles_cover_every_element_once(steps, most):
    packed = (130 * 700 * 4, 700 * 4, 4)
    planes = planes_of(SIZES, {"a": (steps, 4), "": (packed, 4)})
    counts = np.zeros(SIZES, np.int32)
    (view,) = planes._replace(strides=planes.strides[1:]).views([counts])
    for unit in range(planes.units):
        for place in planes.pieces(unit, most):
            assert view[place].size <= most
            view[place] += 1
    assert np.all(counts == 1)
