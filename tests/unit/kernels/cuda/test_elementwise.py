"""Element-wise operators for a card, as far as can be checked without one: walks, and what the host computes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from opwire.tensor import Array
from opwire_service.devices import load
from opwire_service.kernels.cuda.elementwise import InputWalk, input_walk, job
from opwire_service.kernels.cuda.job import Card
from opwire_service.kernels.layout import Loop
from tests.support.elements import answer, plan_of
from tests.support.execution import never_stop

WALKS = [
    ([(4, 8), (8, 1)], InputWalk("DENSE", ())),
    ([(4, 0), (8, 0)], InputWalk("SAME", ())),
    ([], InputWalk("SAME", ())),
    ([(4, 0), (8, 1)], InputWalk("ROWS", (Loop(4, 0), Loop(8, 1)))),
    ([(4, 16), (8, 1)], InputWalk("ROWS", (Loop(4, 16), Loop(8, 1)))),
    ([(4, 9), (8, 1)], InputWalk("GATHER", (Loop(4, 9), Loop(8, 1)))),
    ([(4, 0), (6, 1)], InputWalk("GATHER", (Loop(4, 0), Loop(6, 1)))),
    ([(4, 1), (8, 0)], InputWalk("SAME", (Loop(4, 1), Loop(8, 0)))),
    ([(4, 1), (8, 4)], InputWalk("GATHER", (Loop(4, 1), Loop(8, 4)))),
    ([(2, 0), (3, 0), (4, 4), (2, 2), (2, 1)], InputWalk("ROWS", (Loop(6, 0), Loop(16, 1)))),
]


@pytest.mark.parametrize(("axes", "walk"), WALKS)
def test_walks_vectorize_contiguous_elements(axes, walk):
    assert input_walk(axes, 4) == walk


def with_listed(arrays: dict[str, Array], attributes: dict[str, object], *, lists: bool) -> tuple[Array, Array]:
    """Returns the host's results, all at once or from a list of places, and those of the CPU device."""
    plan = plan_of("ACTIVATION_ELU" if len(arrays) == 1 else "ELEMENT_WISE_ATAN_YX", arrays, **attributes)
    elements = job(plan, Card(4))
    ((name, desc),) = plan.outputs.items()
    flat = {
        key: np.lib.stride_tricks.as_strided(a, (plan.inputs[key].extent,), (a.itemsize,)) for key, a in arrays.items()
    }
    target = np.zeros(desc.element_count, desc.data_type.dtype)
    places = np.array(list(itertools.product(range(desc.element_count), [0])), np.uint32) if lists else None
    elements.settle(places, flat, {name: target}, never_stop)
    return target.reshape(desc.sizes), answer(load("cpu"), plan, arrays)


@pytest.mark.parametrize("lists", [True, False])
def test_the_host_computes_results_the_card_leaves_open(lists):
    values = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    given, right = with_listed({"InputTensor": values}, {}, lists=lists)
    np.testing.assert_array_equal(given, right)


@pytest.mark.parametrize("lists", [True, False])
def test_the_host_finds_elements_in_any_layout(lists):
    draw = np.random.default_rng(2)
    a = draw.standard_normal((4, 3)).astype(np.float32).T
    b = np.broadcast_to(draw.standard_normal((3, 1)).astype(np.float32), (3, 4))
    given, right = with_listed({"ATensor": a, "BTensor": b}, {}, lists=lists)
    np.testing.assert_array_equal(given, right)
