"""Graph files written with the official flatbuffers package, one for each operator."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from opwire.check import check
from opwire.errors import OpwireError, RequestError
from opwire.graph import check_graph, validate_graph
from opwire.graph.serialized import read_serialized
from opwire.operators import OPERATORS
from tests.drawing import descs
from tests.graph_files import file_of
from tests.profiles import request_examples

DRAWN = settings(request_examples(2), derandomize=True, database=None, phases=[Phase.generate])
TENSOR = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]}
GEMM: dict[str, Any] = {
    "type": "GEMM",
    "desc": {"ATensor": TENSOR, "BTensor": TENSOR, "TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 0},
}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=lambda operator: operator.name)
def test_an_operator_is_read_back(operator):
    @DRAWN
    @given(st.data())
    def holds(data):
        plan = check(data.draw(descs(operator)).request)
        (step,) = check_graph(read_serialized(file_of(plan)).graph).attributes.steps
        assert step.plan.operator is operator
        assert step.plan.attributes == plan.attributes
        assert (step.plan.inputs, step.plan.outputs) == (plan.inputs, plan.outputs)

    holds()


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=lambda operator: operator.name)
def test_mutated_files_are_read_or_refused(operator):
    @settings(DRAWN, max_examples=1)
    @given(st.data())
    def holds(data):
        whole, draw = file_of(check(data.draw(descs(operator)).request)), random.Random(0)
        for _ in range(30):
            changed = bytearray(whole)
            for _ in range(draw.randint(1, 3)):
                changed[draw.randrange(len(changed))] = draw.randrange(256)
            with suppress(RequestError):
                validate_graph(read_serialized(bytes(changed)).graph)

    holds()


def test_constants_in_the_file_are_read():
    plan = check(GEMM)
    found = read_serialized(file_of(plan, {"BTensor": bytes(range(16))}))
    assert (found.constants, found.files) == ({"BTensor": bytes(range(16))}, ())
    assert check_graph(found.graph).inputs.keys() == {"ATensor", "constant:BTensor"}


@pytest.mark.parametrize("name", ["DML_OPERATOR_GEMM", "DML_TENSOR_DATA_TYPE_FLOAT32", "ATensor", "OutputTensor"])
def test_names_must_match_completely(name):
    """Microsoft's reader would accept the prefix of a name as a match."""
    whole = file_of(check(GEMM))
    written = len(name).to_bytes(4, "little") + name.encode()
    assert written in whole
    cut = whole.replace(written, (len(name) - 1).to_bytes(4, "little") + name[:-1].encode() + b"\0", 1)
    with pytest.raises(OpwireError, match=f'"{name[:-1]}'):
        check_graph(read_serialized(cut).graph)
