"""Powers of elements as products, quotients and roots, where that is cheaper."""

from __future__ import annotations

from opwire.formulas import Constant, Expression, InputElement, Operation, sqrt

_MOST = 4
"""Greatest magnitude of an exponent that products take."""


def rounded_once(expression: Expression) -> Expression:
    """Returns powers by -1, 1 and 2 as operations that round at most once, and other expressions as they are."""
    match expression:
        case Operation("power", (InputElement() as x, Constant(1))):
            return x
        case Operation("power", (InputElement() as x, Constant(2))):
            return x * x
        case Operation("power", (InputElement() as x, Constant(-1))):
            return Constant(1) / x
        case _:
            return expression


def as_products(expression: Expression) -> Expression:
    """Returns powers by small multiples of 1/2 as products of elements and roots; others as they are."""
    match expression:
        case Operation("power", (InputElement() as x, Constant(exponent))) if 0 < abs(exponent) <= _MOST and (
            2 * exponent == round(2 * exponent)
        ):
            whole, half = divmod(abs(exponent), 1)
            factors: list[Expression] = [x] * round(whole) + [sqrt(x)] * round(2 * half)
            product = factors[0]
            for each in factors[1:]:
                product = product * each
            return product if exponent > 0 else Constant(1) / product
        case _:
            return expression


def is_square(expression: Expression) -> bool:
    match expression:
        case Operation("multiply", (one, other)):
            return one == other
        case _:
            return False


def is_product(expression: Expression) -> bool:
    """Whether an expression is one of products and roots of elements, or its inverse."""
    match expression:
        case Operation("divide", (Constant(1), below)):
            return _has_factors(below)
        case _:
            return isinstance(expression, Operation) and _has_factors(expression)


def _has_factors(expression: Expression) -> bool:
    match expression:
        case InputElement() | Operation("sqrt", (InputElement(),)):
            return True
        case Operation("multiply", factors):
            return all(map(_has_factors, factors))
        case _:
            return False
