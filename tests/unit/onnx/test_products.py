"""Products of ONNX as DirectML operators, against ONNX Runtime and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import opwire.onnx
from opwire.level import FeatureLevel
from tests.onnx_models.single import agree, lowered, require_same, single

rng = np.random.default_rng(6)


def floats(*sizes: int) -> np.ndarray:
    return rng.normal(size=sizes).astype("f4")


def bytes_of(*sizes: int, signed: bool = False) -> np.ndarray:
    return rng.integers(-128, 128, size=sizes).astype("i1") if signed else rng.integers(256, size=sizes).astype("u1")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 2)),
        ((4,), (4,)),
        ((4,), (2, 4, 3)),
        ((2, 3, 4), (4,)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((2, 2, 2, 3, 4), (4, 5)),
        ((2, 1, 2, 3, 4), (3, 1, 4, 2)),
        ((1, 1, 1, 3, 4), (2, 1, 2, 4, 2)),
    ],
)
def test_matmul_broadcasts_batches(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    model = agree("MatMul", [floats(*a), floats(*b)], opset=13, tolerance=1e-4)
    assert model.level is not None
    assert model.level <= FeatureLevel.V3_0


def test_matmul_of_integers() -> None:
    a, b = rng.integers(-9, 9, size=(2, 3, 4)).astype("i4"), rng.integers(-9, 9, size=(4, 2)).astype("i4")
    agree("MatMul", [a, b], opset=13)


@pytest.mark.parametrize("opset", [7, 9, 13])
@pytest.mark.parametrize("c", [(), (1,), (3,), (2, 1), (2, 3)])
def test_gemm_broadcasts_c(opset: int, c: tuple[int, ...]) -> None:
    inputs = [floats(4, 2), floats(3, 4), floats(*c) if c else np.float32(2)]
    agree("Gemm", inputs, (2,), opset=opset, transA=1, transB=1, alpha=0.5, beta=2.0, tolerance=1e-4)


def test_matmul_integer_with_parameters_of_columns() -> None:
    agree("MatMulInteger", [bytes_of(2, 3, 4), bytes_of(4, 5), np.uint8(9), bytes_of(5)], (1, 2, 3), opset=10)


def test_matmul_integer_with_parameters_of_rows() -> None:
    a, b, zero = bytes_of(3, 4), bytes_of(4, 5), np.array([1, 200, 30], "u1")
    _, (found,) = lowered(single("MatMulInteger", [a, b, zero], (2,), opset=10), [a, b, zero])
    require_same([found], [(a.astype("i4") - zero[:, None]) @ b.astype("i4")])


def test_matmul_integer_refuses_parameters_of_batches() -> None:
    inputs = [bytes_of(2, 3, 4), bytes_of(4, 5), bytes_of(2, 3, 1)]
    (node,) = opwire.onnx.load(single("MatMulInteger", inputs, (2,), opset=10)).nodes
    assert "neither one number nor one for each row" in node.reason


def test_qlinear_matmul_with_parameters_of_columns() -> None:
    b_scale, b_zero = np.array([0.02, 0.01, 0.03], "f4"), np.zeros(3, "i1")
    parameters = [
        np.float32(0.1),
        np.uint8(3),
        bytes_of(4, 3, signed=True),
        b_scale,
        b_zero,
        np.float32(0.4),
        np.uint8(120),
    ]
    agree("QLinearMatMul", [bytes_of(2, 4), *parameters], range(1, 8), opset=10)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij->ji", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("ij", [(2, 3)]),
        ("ba", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("bii->b", [(2, 3, 3)]),
        ("...ij->...ji", [(2, 4, 2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("i,i->", [(3,), (3,)]),
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij, jk", [(2, 3), (3, 4)]),
        ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("bqhd,bkhd->bhqk", [(2, 3, 2, 4), (2, 5, 2, 4)]),
        ("bij,bjk->ki", [(2, 3, 4), (2, 4, 5)]),
        ("ijkl,klmn->ijmn", [(2, 3, 2, 2), (2, 2, 3, 2)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (1, 5, 4, 2)]),
        ("ij,ij->ij", [(2, 3), (2, 3)]),
        ("ij,kj,lk->il", [(2, 3), (4, 3), (5, 4)]),
        ("ab,bc,cd,d->a", [(2, 3), (3, 2), (2, 4), (4,)]),
        ("a,b,c->abc", [(2,), (3,), (2,)]),
        ("iij,jk->ik", [(3, 3, 2), (2, 4)]),
        (",ij->ij", [(), (2, 3)]),
        ("AaB,aB->A", [(2, 3, 2), (3, 2)]),
    ],
)
class TestEinsum:
    def test_floats(self, equation: str, shapes: list[tuple[int, ...]]) -> None:
        inputs = [np.asarray(floats(*shape), "f4") for shape in shapes]
        found = _einsum(equation, inputs)
        np.testing.assert_allclose(found, np.einsum(equation, *inputs), rtol=1e-4, atol=1e-5)

    def test_integers(self, equation: str, shapes: list[tuple[int, ...]]) -> None:
        inputs = [rng.integers(-9, 9, size=shape).astype("i4") for shape in shapes]
        np.testing.assert_array_equal(_einsum(equation, inputs), np.einsum(equation, *inputs))


def _einsum(equation: str, inputs: list[np.ndarray]) -> np.ndarray:
    model, (found,) = lowered(single("Einsum", inputs, opset=12, equation=equation), inputs)
    assert model.nodes
    result: np.ndarray = found
    return result


def test_einsum_of_one_label_a_dimension_needs_no_copies() -> None:
    inputs = [floats(2, 3, 4, 5), floats(2, 6, 4, 5)]
    model, _ = lowered(single("Einsum", inputs, opset=12, equation="bihd,bjhd->bhij"), inputs)
    assert "GEMM" in [use.type for node in model.nodes for use in node.uses]
