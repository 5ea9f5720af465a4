"""Graphs in ONNX Runtime's file format: read correctly, and refused if corrupt."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from opwire.errors import RequestError
from opwire.graph import check_graph, validate_graph
from opwire.graph.serialized import read_serialized
from opwire.level import FeatureLevel
from tests.support.conformance import PLACES

SAMPLE = next(
    (place / "dxdispatch" / "matmul_add" / "Partition_0.bin" for place in PLACES if (place / "dxdispatch").is_dir()),
    Path("absent"),
)
pytestmark = pytest.mark.skipif(not SAMPLE.is_file(), reason="conformance/dxdispatch is not there")


def test_the_sample_is_a_product_with_two_constants():
    found = read_serialized(SAMPLE.read_bytes())
    assert found.files == ("matmul_b_tensor", "add_b_tensor")
    assert found.constants == {}
    plan = check_graph(found.graph)
    (step,) = plan.attributes.steps
    assert step.plan.operator.name == "GEMM"
    assert (step.plan.attributes.Alpha, step.plan.attributes.Beta) == (1.0, 1.0)
    sizes = {name: desc.sizes for name, desc in plan.inputs.items()}
    assert sizes == {"model_input": (1, 1, 1, 5), "matmul_b_tensor": (1, 1, 5, 5), "add_b_tensor": (1, 1, 1, 5)}
    assert plan.outputs["model_output"].sizes == (1, 1, 1, 5)
    assert validate_graph(found.graph).minimum_feature_level is FeatureLevel.V2_1


def test_truncated_files_are_refused():
    data = SAMPLE.read_bytes()
    for size in range(0, 0x46D, 3):
        with pytest.raises(RequestError, match="not a serialized graph"):
            read_serialized(data[:size])


def test_mutated_files_are_read_or_refused():
    data, draw = SAMPLE.read_bytes(), random.Random(0)
    refused = 0
    for _ in range(2000):
        changed = bytearray(data)
        for _ in range(draw.randint(1, 3)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        try:
            validate_graph(read_serialized(bytes(changed)).graph)
        except RequestError:
            refused += 1
    assert 200 < refused < 2000


@pytest.mark.parametrize("count", [2**32 - 1, 2**31, 10**9])
def test_a_vector_of_billions_is_refused_at_once(count):
    data = bytearray(SAMPLE.read_bytes())
    struct.pack_into("<I", data, 0x30, count)  # the number of nodes
    with pytest.raises(RequestError, match="exceed the"):
        read_serialized(bytes(data))


def with_inputs(count: int, text: bytes) -> bytes:
    """Returns the sample with a number of inputs that share one text."""
    sample, vector = SAMPLE.read_bytes(), 32
    moved = vector + 4 + 4 * count
    data = struct.pack("<IHHHHHHi", 16, 10, 16, 4, 8, 12, 0, 12)
    nodes, outputs = (moved + at - place for at, place in ((0x30, 20), (0x20, 28)))
    data += struct.pack("<IIII", nodes, vector - 24, outputs, count)
    end = moved + len(sample)
    data += b"".join(struct.pack("<I", end - (vector + 4 + 4 * i)) for i in range(count))
    return data + sample + struct.pack("<I", len(text)) + text + b"\0"


def test_references_to_the_same_bytes_are_bounded():
    with pytest.raises(RequestError, match="more than 1048576 values"):
        read_serialized(with_inputs(600_000, b"x"))


def test_references_to_a_long_text_are_bounded():
    """Otherwise a file of 2 MB could become 100 GB of names."""
    with pytest.raises(RequestError, match="references of the file add up to more than"):
        read_serialized(with_inputs(100_000, b"x" * 1_000_000))
