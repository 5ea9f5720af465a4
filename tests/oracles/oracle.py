"""The expected outputs of operators in plain Python: loops over coordinates, integers, fractions and decimals.

This shares no arithmetic with the package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Answer, Reals, fraction_of, oracle_of, spacing

Coordinate = tuple[int, ...]

LOGARITHMS = ("LOG_SUM", "LOG_SUM_EXP")

_WIDE = Context(prec=300, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def expected(plan: Plan, inputs: Mapping[str, Array]) -> Mapping[str, Answer]:
    """Returns the expected outputs of a plan for logical inputs, packed."""
    found = oracle_of(plan.operator.name)
    assert found is not None, f"{plan.operator.name} is not in EXPECTED of its family's module in tests/oracles"
    return found(plan, inputs)


def of_groups(plan: Plan, inputs: Mapping[str, Array], function: str, *, last: bool = False) -> dict[str, Array]:
    """Returns the results of a function of REDUCE for each group of elements along the axes."""
    output = np.zeros(plan.outputs["OutputTensor"].sizes, plan.outputs["OutputTensor"].data_type.dtype)
    for coordinate, group in _groups(plan.attributes.Axes, inputs["InputTensor"]):
        output[coordinate] = _reduced(function, group, last)
    return {"OutputTensor": output}


def assert_answers(plan: Plan, actual: Mapping[str, Array], answers: Mapping[str, Answer]) -> None:
    """Checks outputs bit for bit, with NaN equal to NaN, and logarithms within 1 ULP (1e-15 near zero)."""
    assert set(actual) == set(answers)
    function = getattr(plan.attributes, "Function", None)
    agree = close if function is not None and function.name in LOGARITHMS else same
    for name, answer in answers.items():
        given = actual[name]
        if isinstance(answer, Reals):
            _assert_near(name, given, answer)
            continue
        assert given.dtype == answer.dtype
        assert given.shape == answer.shape
        for coordinate in np.ndindex(answer.shape):
            assert agree(given[coordinate], answer[coordinate]), (
                f"{name}{list(coordinate)} is {given[coordinate]!r}; right is {answer[coordinate]!r}"
            )


def _assert_near(name: str, given: Array, answer: Reals) -> None:
    assert given.shape == answer.numbers.shape
    for coordinate in np.ndindex(given.shape):
        value, number = given[coordinate], answer.numbers[coordinate]
        assert is_near(value, number, answer.ulps), (
            f"{name}{list(coordinate)} is {value!r}; right is {number!r} within {answer.ulps} ULP"
        )


def is_near(value: Any, number: Any, ulps: Fraction) -> bool:
    """Whether a NumPy float is within ``ulps`` of a number; with one half, it must be the nearest float.

    Any float matches None.
    """
    if number is None:
        return True
    exact = fraction_of(number)
    if exact is None:
        return same(value, value.dtype.type(float(number)))
    nearest_float = rounded(exact, value.dtype)
    if value == nearest_float:
        return True
    if ulps <= Fraction(1, 2) or not np.isfinite(value):
        return False
    return abs(Fraction(float(value)) - exact) <= ulps * spacing(exact, value.dtype)


def same(a: Any, b: Any) -> bool:
    """Whether two NumPy scalars have the same bits, or are both NaN."""
    return bool(np.isnan(a) and np.isnan(b)) or bool(a.tobytes() == b.tobytes())


def close(a: Any, b: Any) -> bool:
    """Whether two floats are equal or adjacent, or almost equal near zero."""
    if same(a, b):
        return True
    if not (np.isfinite(a) and np.isfinite(b)):
        return False
    return bool(np.nextafter(b, a) == a) or abs(float(a) - float(b)) <= 1e-15


def _groups(axes: Sequence[int], source: Array) -> Iterator[tuple[Coordinate, list[Any]]]:
    groups: dict[Coordinate, list[Any]] = {}
    for coordinate in itertools.product(*map(range, source.shape)):
        place = tuple(0 if i in axes else at for i, at in enumerate(coordinate))
        groups.setdefault(place, []).append(source[coordinate])
    yield from groups.items()


def _reduced(function: str, group: list[Any], last: bool) -> Any:
    if function.startswith("ARG"):
        return _winner(group, function.removeprefix("ARG"), last)
    if function in ("MIN", "MAX"):
        return group[_winner(group, function, last)]
    dtype = group[0].dtype
    if dtype.kind == "f":
        return FLOATS[function]([float(value) for value in group], dtype)
    return wrapped(_INTEGERS[function]([int(value) for value in group]), dtype)


def _winner(group: Sequence[Any], which: str, last: bool) -> int:
    order = list(enumerate(group))
    if last:
        order.reverse()
    best: tuple[int, Any] | None = None
    for i, value in order:
        better = best is not None and (value > best[1] if which == "MAX" else value < best[1])
        if not np.isnan(value) and (best is None or better):
            best = i, value
    return order[0][0] if best is None else best[0]


def wrapped(value: int, dtype: np.dtype[Any]) -> Any:
    limits = np.iinfo(dtype)
    span = int(limits.max) - int(limits.min) + 1
    return dtype.type((value - int(limits.min)) % span + int(limits.min))


_INTEGERS: dict[str, Callable[[list[int]], int]] = {
    "SUM": sum,
    "L1": lambda values: sum(map(abs, values)),
    "SUM_SQUARE": lambda values: sum(value**2 for value in values),
    "MULTIPLY": math.prod,
}


def nearest(guess: float, exceeds: Callable[[Fraction], int], dtype: np.dtype[Any]) -> Any:
    """Returns the float nearest to a real number, ties to even.

    Args:
        guess: An estimate of the number.
        exceeds: Returns the sign of the number minus a given fraction.
        dtype: The type of the float.
    """
    with np.errstate(over="ignore", under="ignore"):
        value = np.abs(np.array(guess, dtype))[()]
        infinity = dtype.type(np.inf)
        while value < infinity:
            above = np.nextafter(value, infinity)
            side = exceeds(_middle(value, above))
            if side < 0 or (side == 0 and _is_even(value)):
                break
            value = above
        while value > 0:
            below = np.nextafter(value, dtype.type(0))
            side = exceeds(_middle(below, value))
            if side > 0 or (side == 0 and _is_even(value)):
                break
            value = below
    return value


def rounded(number: Fraction, dtype: np.dtype[Any]) -> Any:
    """Rounds a fraction to the nearest float; a negative one that rounds to zero gives -0.0."""
    magnitude = abs(number)
    guess = float(magnitude) if magnitude < 2**1000 else math.inf
    value = nearest(guess, lambda middle: _sign(magnitude - middle), dtype)
    return -value if number < 0 else value


def rounded_root(number: Fraction, dtype: np.dtype[Any]) -> Any:
    """Returns the square root of a fraction, rounded to the nearest float."""
    return nearest(math.sqrt(number), lambda middle: _sign(number - middle**2), dtype)


def _sign(number: Fraction) -> int:
    return (number > 0) - (number < 0)


def _middle(below: Any, above: Any) -> Fraction:
    # For rounding, infinity counts as the float after the largest one.
    top = Fraction(2) ** (np.finfo(above.dtype).maxexp) if np.isinf(above) else Fraction(float(above))
    return (Fraction(float(below)) + top) / 2


def _is_even(value: Any) -> bool:
    return bool(value.tobytes()[0] % 2 == 0)


def _special(values: Sequence[float]) -> float | None:
    """Returns the IEEE sum if NaN or an infinity is involved, otherwise None."""
    if any(map(math.isnan, values)) or {math.inf, -math.inf} <= set(values):
        return math.nan
    return next((value for value in values if math.isinf(value)), None)


def _sum(values: Sequence[float], dtype: np.dtype[Any], divisor: int = 1) -> Any:
    special = _special(values)
    if special is not None:
        return dtype.type(special)
    if all(value == 0 and math.copysign(1, value) < 0 for value in values):
        return dtype.type(-0.0)
    return rounded(sum(map(Fraction, values), Fraction(0)) / divisor, dtype)


def _squares(values: Sequence[float], dtype: np.dtype[Any], finish: Callable[[Fraction, np.dtype[Any]], Any]) -> Any:
    special = _special([abs(value) for value in values])
    if special is not None:
        return dtype.type(special)
    return finish(sum((Fraction(value) ** 2 for value in values), Fraction(0)), dtype)


def _product(values: Sequence[float], dtype: np.dtype[Any]) -> Any:
    sign = math.prod(math.copysign(1, value) for value in values)
    magnitudes = [abs(value) for value in values]
    if any(map(math.isnan, values)) or {0.0, math.inf} <= set(magnitudes):
        return dtype.type(math.nan)
    if math.inf in magnitudes:
        return dtype.type(sign * math.inf)
    value = rounded(math.prod(map(Fraction, magnitudes), start=Fraction(1)), dtype)
    return -value if sign < 0 else value


def _log_sum(values: Sequence[float], dtype: np.dtype[Any]) -> Any:
    special = _special(values)
    if special is not None:
        return dtype.type(special if special > 0 else math.nan)
    total = sum(map(Fraction, values), Fraction(0))
    if total <= 0:
        return dtype.type(math.nan if total else -math.inf)
    return _from_decimal(_WIDE.ln(_WIDE.divide(Decimal(total.numerator), Decimal(total.denominator))), dtype)


def _log_sum_exp(values: Sequence[float], dtype: np.dtype[Any]) -> Any:
    if any(map(math.isnan, values)):
        return dtype.type(math.nan)
    greatest = max(values)
    if math.isinf(greatest):
        return dtype.type(greatest)
    shifted = (_WIDE.exp(_WIDE.subtract(Decimal(value), Decimal(greatest))) for value in values)
    total = Decimal(0)
    for exponential in shifted:
        total = _WIDE.add(total, exponential)
    return _from_decimal(_WIDE.add(_WIDE.ln(total), Decimal(greatest)), dtype)


def _from_decimal(value: Decimal, dtype: np.dtype[Any]) -> Any:
    return rounded(Fraction(value), dtype)


FLOATS: dict[str, Callable[[Sequence[float], np.dtype[Any]], Any]] = {
    "SUM": _sum,
    "AVERAGE": lambda values, dtype: _sum(values, dtype, len(values)),
    "L1": lambda values, dtype: _sum([abs(value) for value in values], dtype),
    "L2": lambda values, dtype: _squares(values, dtype, rounded_root),
    "SUM_SQUARE": lambda values, dtype: _squares(values, dtype, rounded),
    "MULTIPLY": _product,
    "LOG_SUM": _log_sum,
    "LOG_SUM_EXP": _log_sum_exp,
}
"""The functions of REDUCE for one group of elements: the exact result, rounded once to the type."""


def pool(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the maxima of windows and, if there is an output for them, their positions in the input."""
    attributes, source = plan.attributes, inputs["InputTensor"]
    outputs = {name: np.zeros(desc.sizes, desc.data_type.dtype) for name, desc in plan.outputs.items()}
    for coordinate in itertools.product(*map(range, outputs["OutputTensor"].shape)):
        values, positions = [], []
        for offsets in itertools.product(*map(range, attributes.WindowSize)):
            place = coordinate[:2] + window_position(attributes, coordinate[2:], offsets)
            if all(0 <= at < size for at, size in zip(place, source.shape, strict=True)):
                values.append(source[place])
                positions.append(row_major(place, source.shape))
        winner = _winner(values, "MAX", last=False)
        outputs["OutputTensor"][coordinate] = pooled_maxima(values[winner])
        if "OutputIndicesTensor" in outputs:
            outputs["OutputIndicesTensor"][coordinate] = positions[winner]
    return outputs


def pooled_maxima(winners: Any) -> Any:
    """Returns the maxima of windows: those of DirectML start from the lowest finite FLOAT32, rounded."""
    if winners.dtype.kind != "f":
        return winners
    with np.errstate(over="ignore"):
        lowest = np.finfo(np.float32).min.astype(winners.dtype)
    return np.where(winners > lowest, winners, lowest)


def window_position(attributes: Any, window: Coordinate, offsets: Coordinate) -> Coordinate:
    """Returns the position of a window's element in the input's spatial dimensions, including padding."""
    return tuple(
        at * stride - start + offset * dilation
        for at, stride, start, offset, dilation in zip(
            window, attributes.Strides, attributes.StartPadding, offsets, attributes.Dilations, strict=True
        )
    )


def row_major(coordinate: Coordinate, sizes: Sequence[int]) -> int:
    """Returns the row-major index of a coordinate."""
    position = 0
    for at, size in zip(coordinate, sizes, strict=True):
        position = position * size + at
    return position
