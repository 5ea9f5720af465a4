"""Proves how accurate the exponentials of softmax are in pairs of FLOAT32, as ``exponential_pairs.cu`` computes them.

Run it from the root of the repository: ``python -m scripts.exponentials``. It fails if the bound does not hold.

With u = 2^-24, an operation rounds by at most u times its result; the low part of a pair is at most u times the high
one. The steps that lose nothing:

- ``d.hi - back``: both are within a step of each other, and multiples of an ULP of the smaller (Sterbenz).
- ``ordered_sum`` of the rest: its first operand is a multiple of an ULP of ``d.hi``, thus of one of the second, which
  suffices even where the first is smaller.
- ``fmaf(a, b, -a * b)``, unless it is subnormal.
"""

from __future__ import annotations

import math
import sys

from mpmath import iv

from opwire_service.kernels.cuda.normalization import exponentials as given
from opwire_service.kernels.cuda.pair_source import parts
from opwire_service.kernels.formulas import coefficients as table

from .pair_bounds import U

FARTHEST = 80.0
"""Magnitude of the least exponent."""

_WIDER = 1 + 2.0**-20
"""Exceeds what products of the errors below add."""


def _error_of_powers() -> float:
    """Returns the relative error of the table of powers of two."""
    iv.prec = 200
    count = given.STEPS_OF_PAIRS
    exact = (iv.mpf(2) ** (iv.mpf(i) / count) for i in range(count))
    return max(float((abs(sum(map(iv.mpf, parts(2 ** (i / count)))) - each) / each).b) for i, each in enumerate(exact))


def bound() -> tuple[float, float]:
    """Returns bounds on the relative error: a constant, and one for each unit of the exponent's magnitude."""
    iv.prec = 200
    step = iv.log(2) / given.STEPS_OF_PAIRS
    high, low = given.STEP
    missed = float(abs(step - high - low).b)
    size = float(step.b)
    off = FARTHEST * float(abs(given.STEPS_OF_1 - 1 / step).b) + 2.0**-20  # of the nearest number of steps
    reach = size * (0.5 + off) * _WIDER  # of the rest
    # The exponent's low part and that of `back`, subtracted; the low part of the step; `back` may exceed the exponent
    # by half a step.
    of_sums = 2 * U * U + (2 * U + abs(low) / size) * U
    per_unit = (of_sums + missed / size) * _WIDER
    reduced = per_unit * size * (0.5 + off)
    cube = reach**3 / 6
    parts_of_rest = 2 * U * reach + U * reach**2 + cube
    series = reach**2 / 2 * 2.0 ** -table.WITHIN["EXP_REST_OF_PAIRS"] + 4 * U * cube
    left_out = 2 * U * reach**3 + (U * reach) ** 2
    rest = series + left_out + 5 * U * parts_of_rest
    multiplied = 2 * U * (2 * U * reach + parts_of_rest) + U * parts_of_rest
    added = 3 * U * U * (1 + 4 * reach)
    return (_error_of_powers() + reduced + rest + multiplied + added) * _WIDER, per_unit


def main() -> int:
    found, wanted = bound(), (given.ROUGHLY, given.PER_UNIT)
    for name, one, most in zip(("constant", "per unit"), found, wanted, strict=True):
        sys.stdout.write(f"{name:8} within 2**{math.log2(one):.2f}, wanted 2**{math.log2(most):.2f}\n")
    return int(any(one > most for one, most in zip(found, wanted, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
