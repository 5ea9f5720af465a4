"""Shapes, data movement and indexing of ONNX as DirectML operators, against ONNX Runtime and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, numpy_helper

import opwire.onnx
from opwire.level import FeatureLevel
from tests.onnx_models.single import agree, lowered, require_same, single, types

rng = np.random.default_rng(13)
X = rng.normal(size=(3, 4, 5)).astype("f4")
I64 = rng.integers(-99, 99, size=(3, 4)).astype("i8")


def ints(given: ArrayLike) -> Any:
    return np.array(given, "i8")


def reason(*given: Any, **options: Any) -> str:
    """Returns why a single node stays on the CPU."""
    (node,) = opwire.onnx.load(single(*given, **options)).nodes
    assert not node.is_lowered
    return node.reason


class TestShapes:
    @pytest.mark.parametrize(
        ("operator", "opset", "inputs", "attributes"),
        [
            ("Flatten", 13, [X], {"axis": -1}),
            ("Reshape", 14, [X, ints([0, -1])], {}),
            ("Squeeze", 11, [X[None, :, None]], {"axes": [0, -3]}),
            ("Squeeze", 13, [X[None]], {}),
            ("Squeeze", 13, [X[None], ints([-4])], {}),
            ("Unsqueeze", 11, [X], {"axes": [0, 4]}),
            ("Unsqueeze", 13, [X, ints([-1, 0])], {}),
            ("Identity", 16, [I64], {}),
            ("Transpose", 13, [X], {}),
            ("Transpose", 13, [X], {"perm": [1, 0, 2]}),
            ("Transpose", 13, [rng.normal(size=(1, 2, 1, 3, 2)).astype("f4")], {"perm": [4, 3, 2, 1, 0]}),
            ("Expand", 13, [X[:, :1], ints([2, 1, 4, 1])], {}),
            ("Expand", 13, [X, ints([1, 1])], {}),
            ("Tile", 13, [I64, ints([2, 3])], {}),
            ("Concat", 13, [X, X[:1], X[:2]], {"axis": -3}),
            ("Concat", 13, [X, X[:, :0]], {"axis": 1}),
            ("SpaceToDepth", 13, [rng.normal(size=(1, 2, 4, 6)).astype("f4")], {"blocksize": 2}),
            ("DepthToSpace", 13, [rng.normal(size=(1, 8, 2, 3)).astype("f4")], {"blocksize": 2}),
            ("DepthToSpace", 13, [rng.normal(size=(1, 8, 2, 3)).astype("f4")], {"blocksize": 2, "mode": "CRD"}),
        ],
    )  # fmt: skip
    def test_results(self, operator: str, opset: int, inputs: list[Any], attributes: dict[str, Any]) -> None:
        constant = [i for i, each in enumerate(inputs) if i and (each.dtype == "i8" or not each.size)]
        agree(operator, inputs, constant, opset=opset, **attributes)

    @pytest.mark.parametrize(
        ("opset", "inputs", "outputs", "attributes"),
        [
            (7, [X], 2, {"axis": 1}),
            (7, [X], 2, {"axis": -1, "split": [1, 4]}),
            (13, [X, ints([1, 3])], 2, {"axis": 1}),
            (18, [X], 3, {"axis": 2, "num_outputs": 3}),
            (18, [X], 1, {"axis": 2, "num_outputs": 1}),
            (13, [X, ints([0, 4])], 2, {"axis": 1}),
            (13, [X, ints([2, 0, 2])], 3, {"axis": 1}),
        ],
    )
    def test_split(self, opset: int, inputs: list[Any], outputs: int, attributes: dict[str, Any]) -> None:
        agree("Split", inputs, (1,), opset=opset, outputs=outputs, **attributes)

    def test_views_need_no_operator(self) -> None:
        model = agree("Flatten", [X], opset=13)
        assert model.nodes[0].is_lowered

    def test_dropout_drops_nothing_unless_it_trains(self) -> None:
        agree("Dropout", [X], opset=7)
        agree("Dropout", [X, np.array(0.5, "f4")], (1,), opset=13, outputs=2)
        agree("Dropout", [X, np.array(0.0, "f4"), np.array(True)], (1, 2), opset=13, outputs=2)
        inputs = [X, np.array(0.5, "f4"), np.array(True)]
        assert reason("Dropout", inputs, (1, 2), opset=13) == "it may train, and drop elements at random"


class TestSlice:
    @pytest.mark.parametrize(
        ("starts", "ends", "axes", "steps"),
        [
            ([1], [3], None, None),
            ([0, 1], [99, -1], [1, -1], [2, 3]),
            ([-1], [-99], [2], [-2]),
            ([3, 4], [0, 1], [1, 2], [-1, -3]),
        ],
    )
    def test_results(self, starts: list[int], ends: list[int], axes: Any, steps: Any) -> None:
        optional = [None if each is None else ints(each) for each in (axes, steps)]
        model = agree("Slice", [X, ints(starts), ints(ends), *optional], (1, 2, 3, 4), opset=13)
        assert model.level is FeatureLevel.V2_1  # that of graphs

    def test_attributes(self) -> None:
        model = agree("Slice", [X], opset=7, starts=[1, -2], ends=[99, -1], axes=[0, 2])
        assert types(model) == ["SLICE"]

    def test_what_has_no_elements_is_constant(self) -> None:
        model = agree("Slice", [X, ints([2]), ints([2])], (1, 2), opset=13)
        assert model.nodes == ()


class TestPad:
    @pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
    @pytest.mark.parametrize("pads", [[0, 1, 2, 0, 1, 2], [1, -1, 0, 0, 1, -2]])
    def test_modes(self, mode: str, pads: list[int]) -> None:
        if mode == "reflect":
            pads = [max(each, 0) for each in pads]  # ONNX Runtime reflects what negative padding takes away
        inputs = [X, ints(pads), np.array(1.5, "f4")] if mode == "constant" else [X, ints(pads)]
        model = agree("Pad", inputs, (1, 2), opset=13, mode=mode)
        assert model.level is FeatureLevel.V2_1

    def test_axes_and_wrapping(self) -> None:
        agree("Pad", [X, ints([1, 2]), None, ints([-2])], (1, 3), opset=19, mode="wrap")

    def test_attributes(self) -> None:
        agree("Pad", [X], opset=7, pads=[0, 1, 0, 0, 0, 2], value=-0.5)

    def test_integers_beyond_float32_are_exact(self) -> None:
        model = agree("Pad", [I64, ints([0, 1, 0, 0]), ints(2**40 + 1)], (1, 2), opset=13)
        assert types(model) == ["PADDING1"]


class TestOthers:
    @pytest.mark.parametrize("constant", [(), (1,)])
    @pytest.mark.parametrize("batch", [0, 1])
    def test_reverse_sequence(self, constant: tuple[int, ...], batch: int) -> None:
        lengths = ints([1, 4, 3] if batch == 0 else [0, 1, 2, 3])
        options: dict[str, Any] = {"opset": 10, "batch_axis": batch, "time_axis": 1 - batch}
        model = agree("ReverseSequence", [X, lengths], constant, **options)
        assert model.level is (FeatureLevel.V2_1 if constant else FeatureLevel.V3_0)
        if not constant:
            integers = (X * 9).astype("i8")
            source = single("ReverseSequence", [integers, lengths], **options)
            (found,) = lowered(source, [integers, lengths])[1]
            (moved,) = lowered(single("ReverseSequence", [X, lengths], **options), [X, lengths])[1]
            np.testing.assert_array_equal(found, (moved * 9).astype("i8"))

    def test_col2im_with_uneven_padding(self) -> None:
        columns = rng.normal(size=(1, 8, 12)).astype("f4")
        inputs = [columns, ints([4, 3]), ints([2, 2])]
        agree("Col2Im", inputs, (1, 2), opset=18, pads=[0, 1, 0, 1])
        # Padding at the start alone moves the image.
        agree("Col2Im", [columns[:, :, :9], ints([3, 3]), ints([2, 2])], (1, 2), opset=18, pads=[1, 0, 0, 1])

    @pytest.mark.parametrize("upper", [0, 1])
    @pytest.mark.parametrize("k", [-2, 0, 3, None])
    def test_trilu(self, upper: int, k: int | None) -> None:
        model = agree("Trilu", [X, None if k is None else ints(k)], (1,), opset=14, upper=upper)
        assert model.level is FeatureLevel.V2_1

    def test_range(self) -> None:
        bounds = [np.array(each, "f4") for each in (0.5, 3, 0.75)]
        source = single("Range", bounds, (0, 1, 2), opset=11)
        require_same(lowered(source, bounds)[1], [np.array([0.5, 1.25, 2, 2.75], "f4")])

    def test_a_range_that_is_not_constant_is_no_loop(self) -> None:
        bounds = [np.array(each, "f4") for each in (0.5, 3, 0.75)]
        assert reason("Range", bounds, (0, 2), opset=11) == "its input 1, x1, is not constant"

    @pytest.mark.parametrize("value", [1.5, float("nan"), -7, True])
    def test_constant_of_shape(self, value: Any) -> None:
        expected = np.full((80, 90), value, {float: "f4", int: "i8", bool: "?"}[type(value)])
        tensor = numpy_helper.from_array(expected[:1, 0])
        source = single("ConstantOfShape", [ints([80, 90])], (0,), opset=9, value=tensor)
        require_same(lowered(source, [])[1], [expected])

    def test_eye_like(self) -> None:
        agree("EyeLike", [X[0]], opset=9, k=-1)
        agree("EyeLike", [X[0]], opset=9, dtype=TensorProto.INT64, k=2)


@pytest.mark.parametrize("constant", [(), (1,)])
class TestGather:
    @pytest.mark.parametrize("axis", [0, -1])
    @pytest.mark.parametrize("indices", [[[0, -1], [2, 1]], 1])
    def test_slices(self, constant: tuple[int, ...], axis: int, indices: Any) -> None:
        model = agree("Gather", [X, ints(indices)], constant, opset=13, axis=axis)
        # Constant indices need no sign: the level is that of graphs.
        assert model.level is (FeatureLevel.V2_1 if constant else FeatureLevel.V3_0)

    def test_more_than_four_dimensions(self, constant: tuple[int, ...]) -> None:
        agree("Gather", [X, ints([[[1]], [[-2]]])], constant, opset=13, axis=1)

    def test_elements(self, constant: tuple[int, ...]) -> None:
        agree("GatherElements", [X, ints([[[0, -1], [1, 2]]])], constant, opset=13, axis=2)

    @pytest.mark.parametrize(
        ("batch", "indices"), [(0, [[0, -1], [2, 1]]), (0, [1, 0, -1]), (1, [[[0]], [[-2]], [[3]]])]
    )
    def test_coordinates(self, constant: tuple[int, ...], batch: int, indices: Any) -> None:
        agree("GatherND", [X, ints(indices)], constant, opset=13, batch_dims=batch)

    def test_scattered_elements(self, constant: tuple[int, ...]) -> None:
        inputs = [X, ints([[[0, -1], [1, 2]]]), np.ones((1, 2, 2), "f4")]
        if constant:
            agree("ScatterElements", inputs, constant, opset=13, axis=2)
            agree("Scatter", inputs, constant, opset=9, axis=2)
        else:
            assert "must be equal except along axis 3" in reason("ScatterElements", inputs, opset=13, axis=2)
        whole = [X[:1, :2], ints([[[0, -1], [1, 2]]]), np.ones((1, 2, 2), "f4")]
        model = agree("ScatterElements", whole, constant, opset=13, axis=2)
        assert types(model) == ["SCATTER_ELEMENTS"]

    def test_scattered_slices(self, constant: tuple[int, ...]) -> None:
        agree("ScatterND", [X, ints([[0, -1], [2, 1]]), np.ones((2, 5), "f4")], constant, opset=13)

    @pytest.mark.parametrize("axis", [None, 0, 1, -2])
    def test_one_hot(self, constant: tuple[int, ...], axis: int | None) -> None:
        inputs = [ints([[0, -1], [3, 7]]), np.array(5, "f4"), np.array([-1, 2], "f4")]
        given: dict[str, Any] = {} if axis is None else {"axis": axis}
        agree("OneHot", inputs, [1, *(0 for _ in constant)], opset=11, **given)

    def test_one_hot_of_floats(self, constant: tuple[int, ...]) -> None:
        inputs = [np.array([0, -2, 4], "f4"), np.array([5], "f4"), np.array([0, 1], "f4")]
        agree("OneHot", inputs, [1, *(0 for _ in constant)], opset=11)


@pytest.mark.parametrize("axis", [None, 1, -1])
def test_a_constant_condition_selects(axis: int | None) -> None:
    given: dict[str, Any] = {} if axis is None else {"axis": axis}
    agree("Compress", [X, np.array([0, 1, 1, 0], bool)], (1,), opset=11, **given)


class TestCombined:
    @pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
    def test_several_updates_of_elements(self, reduction: str) -> None:
        indices, updates = ints([[[0, 1, 0, 0, 2]] * 4]), rng.normal(size=(1, 4, 5)).astype("f4")
        agree("ScatterElements", [X, indices, updates], (1,), opset=18, axis=0, reduction=reduction)

    @pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
    def test_several_updates_of_slices(self, reduction: str) -> None:
        indices, updates = ints([[0, 1], [-3, 1], [2, 3]]), rng.normal(size=(3, 5)).astype("f4")
        agree("ScatterND", [X, indices, updates], (1,), opset=18, reduction=reduction)

    def test_what_is_not_known_before_the_model_runs(self) -> None:
        inputs = [X, ints([[0, 1]]), np.ones((1, 5), "f4")]
        expected = "its reduction is add, and its indices are not constant"
        assert reason("ScatterND", inputs, opset=18, reduction="add") == expected

    def test_more_updates_than_operators_are_made_for(self) -> None:
        inputs = [X[0, 0], np.zeros((70, 1), "i8"), np.ones(70, "f4")]
        assert reason("ScatterND", inputs, (1,), opset=18, reduction="add").startswith("it combines more than 64")


class TestTopK:
    @pytest.mark.parametrize("largest", [0, 1])
    @pytest.mark.parametrize("axis", [0, -1])
    def test_results(self, largest: int, axis: int) -> None:
        inputs = [np.round(X * 2), ints([3])]
        model = agree("TopK", inputs, (1,), opset=11, outputs=2, largest=largest, axis=axis)
        assert model.level is FeatureLevel.V3_0  # that of a cast to INT64

    def test_an_attribute(self) -> None:
        agree("TopK", [X], opset=7, outputs=2, k=2, axis=1)

    def test_values_alone(self) -> None:
        source = single("TopK", [X, ints([1])], (1,), opset=11, outputs=2)
        del source.graph.output[1]
        model, found = lowered(source, [X])
        require_same(found, [X.max(-1, keepdims=True)])
        assert model.nodes[0].level is not None
