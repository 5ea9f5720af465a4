"""The errors that floats explain: above those of every order of sums in FLOAT32, below those of mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import opwire
from opwire.difference.bounds import Errors, Limit, apart, limits, whole
from opwire.difference.chain import Chain, single
from opwire.difference.error_table import rule_of
from opwire.schema import CATALOG
from opwire.tensor import Array

Order = Callable[[Array], Array]


@pytest.fixture(scope="module")
def runner() -> Iterator[opwire.LocalClient]:
    with opwire.local() as client:
        yield client


def sequential(terms: Array) -> Array:
    """Adds the terms of each row one after the other."""
    return np.asarray(np.add.accumulate(terms, axis=-1, dtype=np.float32)[..., -1])


def descending(terms: Array) -> Array:
    """Adds the largest first, so that partial sums are as large as they can be."""
    return sequential(-np.sort(-terms, axis=-1))


def pairwise(terms: Array) -> Array:
    while terms.shape[-1] > 1:
        odd = terms[..., -1:] if terms.shape[-1] % 2 else terms[..., :0]
        terms = np.concatenate([terms[..., :-1:2] + terms[..., 1::2], odd], axis=-1)
    return terms[..., 0]


def blocked(terms: Array) -> Array:
    """Adds eight lanes, and then these."""
    rest = -terms.shape[-1] % 8
    padded = np.concatenate([terms, np.zeros((*terms.shape[:-1], rest), np.float32)], axis=-1)
    return sequential(sequential(np.moveaxis(padded.reshape(*terms.shape[:-1], -1, 8), -1, -2)))


ORDERS = (sequential, pairwise, blocked)


def matrices(kind: str, k: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((24, k)).astype("f4"), rng.standard_normal((k, 24)).astype("f4")
    if kind == "positive":
        return np.abs(a), np.abs(b)
    if kind == "cancelling":
        a[:, k // 2 :] = -a[:, : k - k // 2]
        b[k // 2 :] = b[: k - k // 2]
    if kind == "scales":
        a *= np.exp(rng.uniform(-20, 20, a.shape)).astype("f4")
    return a, b


def product(runner: opwire.LocalClient, a: Array, b: Array) -> tuple[Array, Errors]:
    desc = {"ATensor": tensor(a), "BTensor": tensor(b)}
    operator = {"type": "DML_OPERATOR_GEMM", "desc": desc}
    chain = single(operator, {"ATensor": a, "BTensor": b}, runner)
    return judged(chain)


def tensor(array: Array) -> dict[str, object]:
    return {"DataType": "FLOAT32", "Sizes": [1] * (4 - array.ndim) + list(array.shape)}


def judged(chain: Chain) -> tuple[Array, Errors]:
    chain.run()
    key = chain.results["OutputTensor"]
    limit: Limit = limits(chain, rule_of)[key]
    return chain.buffers[key], whole(limit, chain.buffers[key].size)


@pytest.mark.parametrize("kind", ["normal", "positive", "cancelling", "scales"])
@pytest.mark.parametrize("k", [3, 64, 1000])
def test_products_in_any_order_are_likely(runner: opwire.LocalClient, kind: str, k: int) -> None:
    a, b = matrices(kind, k)
    exact, errors = product(runner, a, b)
    terms = a[:, None, :] * b.T[None, :, :]
    for order in ORDERS:
        error = apart(order(terms).reshape(-1), exact)
        assert np.all(error <= errors.likely), order.__name__
    error = apart(descending(terms).reshape(-1), exact)
    assert np.all(error <= errors.possible)


@pytest.mark.parametrize("k", [64, 1000])
def test_mistakes_in_products_are_not_possible(runner: opwire.LocalClient, k: int) -> None:
    a, b = matrices("normal", k)
    exact, errors = product(runner, a, b)
    last_left_out = (a[:, :-1] @ b[:-1]).reshape(-1)
    assert np.mean(apart(last_left_out, exact) > errors.possible) > 0.9


def test_operands_of_ten_digits_are_not_likely(runner: opwire.LocalClient) -> None:
    a, b = matrices("normal", 1000)
    exact, errors = product(runner, a, b)
    low = [(each.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for each in (a, b)]
    assert np.mean(apart((low[0] @ low[1]).reshape(-1), exact) > errors.likely) > 0.5


def test_normalization_by_the_mean_of_squares_is_likely(runner: opwire.LocalClient) -> None:
    """The variance as the mean of squares less the square of the mean, and the scale folded."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((16, 256)) + 3).astype("f4")
    operator = {
        "type": "DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1",
        "desc": {"InputTensor": tensor(x), "Axes": [3], "NormalizeVariance": True, "Epsilon": 1e-5},
    }
    exact, errors = judged(single(operator, {"InputTensor": x}, runner))
    mean = sequential(x)[:, None] / np.float32(256)
    variance = sequential(x * x)[:, None] / np.float32(256) - mean * mean
    found = (x - mean) / np.sqrt(variance + np.float32(1e-5))
    assert np.all(apart(found.reshape(-1), exact) <= errors.likely)
    without_epsilon_of_a_tenth = (x - mean) / np.sqrt(variance + np.float32(0.1))
    assert np.any(apart(without_epsilon_of_a_tenth.reshape(-1), exact) > errors.possible)


@pytest.mark.parametrize(
    ("kind", "compute", "wrong"),
    [
        ("ACTIVATION_SIGMOID", lambda x: 1 / (1 + np.exp(-x)), lambda x: np.clip(x / 6 + 0.5, 0, 1)),
        ("ACTIVATION_TANH", lambda x: 1 - 2 / (np.exp(2 * x) + 1), lambda x: x / (1 + np.abs(x))),
        ("ACTIVATION_SOFTPLUS", lambda x: np.log(1 + np.exp(x)), lambda x: np.maximum(x, 0)),
        ("ACTIVATION_SOFTMAX", lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True), lambda x: np.exp(x) / 300),
        (
            "ACTIVATION_LOG_SOFTMAX",
            lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)),
            lambda x: x - x.max(-1, keepdims=True),
        ),
    ],
)
def test_plain_formulas_of_functions_are_likely(
    runner: opwire.LocalClient, kind: str, compute: Callable[[Array], Array], wrong: Callable[[Array], Array]
) -> None:
    x = (4 * np.random.default_rng(1).standard_normal((8, 64))).astype("f4")
    operator = {"type": f"DML_OPERATOR_{kind}", "desc": {"InputTensor": tensor(x)}}
    exact, errors = judged(single(operator, {"InputTensor": x}, runner))
    assert np.all(apart(compute(x).astype("f4").reshape(-1), exact) <= errors.likely)
    assert np.any(apart(wrong(x).astype("f4").reshape(-1), exact) > errors.possible)


def test_errors_pass_from_an_operator_to_the_next(runner: opwire.LocalClient) -> None:
    """A product with a fused activation has the errors of both."""
    a, b = matrices("cancelling", 64)
    desc = {
        "ATensor": tensor(a),
        "BTensor": tensor(b),
        "FusedActivation": {"type": "DML_OPERATOR_ACTIVATION_TANH", "desc": {}},
    }
    exact, errors = judged(single({"type": "DML_OPERATOR_GEMM", "desc": desc}, {"ATensor": a, "BTensor": b}, runner))
    found = np.tanh(sequential(a[:, None, :] * b.T[None, :, :])).reshape(-1)
    assert np.all(apart(found, exact) <= errors.likely)


def test_every_operator_has_a_rule() -> None:
    from opwire.difference.chain import Operation

    for name in CATALOG:
        desc = {"Function": "SUM"} if name == "REDUCE" else {}
        assert callable(rule_of(Operation(name, desc, {}, {}, {})))
