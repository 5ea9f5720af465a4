# No annotations on overloads: numba compares their signatures.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false
"""Conversions and constants that depend on the float format of an element, and those between it and float64.

numba picks the implementation by argument type. The implementations have no annotations, because numba compares
signatures.
"""

from typing import Any

from numba import typeof
from numba.extending import overload

from ..jit.compiler import inner
from ..jit.element import (
    FLOAT32,
    HALF,
    bits_double,
    bits_float,
    double_bits,
    float32,
    float64,
    float_bits,
    half_to_float,
    int32,
    int64,
    intrinsic,
    store,
    uint16,
)
from .vectors import (
    INTS,
    Vector,
    bits_doubles,
    fused_vectors,
    longs_bits,
    narrowed,
    pick,
    single_bits,
    singles,
    spread,
    to_ints,
    widened,
)


def masked(element: Any, mask: Any) -> Any:
    """Returns an element as a float64, with the bits outside a mask cleared."""


@overload(masked, inline="always")
def _masked(element, mask):
    if element == FLOAT32:
        return lambda element, mask: float64(bits_float(float_bits(element) & int32(mask)))
    return lambda element, mask: float64(half_to_float(uint16(element & uint16(mask))))


def number_of(element: Any) -> Any:
    """Returns an element as a float64."""


@overload(number_of, inline="always")
def _number_of(element):
    if element == HALF:
        return lambda element: float64(half_to_float(element))
    return lambda element: float64(element)


@inner
def values(bits: Vector) -> Vector:
    """Converts a vector of element bits to float64."""
    return widened(singles(bits))


def more_squares(squares: Any, bits: Any) -> Any:
    """Adds a vector's squares to running sums of squares, for FLOAT32. For FLOAT16 they are not needed."""


@overload(more_squares, inline="always")
def _more_squares(squares, bits):
    if bits == INTS:
        return lambda squares, bits: fused_vectors(singles(bits), singles(bits), squares)
    return lambda squares, bits: squares


def narrow(value: Any, zero: Any) -> Any:
    """Returns the bits of the element nearest to a float64, ties to even; every NaN becomes the same one."""


@overload(narrow, inline="always")
def _narrow(value, zero):
    if zero == FLOAT32:
        return lambda value, zero: _single_bits(value)
    return lambda value, zero: _half_bits(value)


@inner
def _single_bits(value: float) -> int:
    if value != value:
        return 0x7FC00000
    return int64(float_bits(float32(value)))


@inner
def _half_bits(value: float) -> int:
    bits = double_bits(value)
    sign = (bits >> 48) & 0x8000
    magnitude = bits & 0x7FFFFFFFFFFFFFFF
    if magnitude > 0x7FF0000000000000:
        return 0x7E00
    if magnitude < 0x3F10000000000000:
        # Below 2**-14 an ULP is 2**-24, which is the ULP of 2**28 in float64.
        return sign | (double_bits(bits_double(magnitude) + 268435456.0) - 0x41B0000000000000)
    rounded = (magnitude + 0x1FFFFFFFFFF + ((magnitude >> 42) & 1)) >> 42
    return sign | min(rounded - (1008 << 10), 0x7C00)


def narrow_vector(values: Any, zero: Any) -> Any:
    """Like ``narrow``, for a vector, as 32-bit integers; a NaN may have any NaN's bits."""


@overload(narrow_vector, inline="always")
def _narrow_vector(values, zero):
    if zero == FLOAT32:
        return lambda values, zero: single_bits(narrowed(values))
    return lambda values, zero: _half_vector(values)


@inner
def _half_vector(values: Vector) -> Vector:
    """See ``_half_bits``."""
    bits = longs_bits(values)
    sign, magnitude = (bits >> 48) & 0x8000, bits & 0x7FFFFFFFFFFFFFFF
    small = longs_bits(bits_doubles(magnitude) + 268435456.0) - 0x41B0000000000000
    rounded = ((magnitude + 0x1FFFFFFFFFF + ((magnitude >> 42) & 1)) >> 42) - (1008 << 10)
    normal = pick(rounded > 0x7C00, spread(int64(0x7C00)), rounded)
    finite = pick(magnitude < 0x3F10000000000000, small, normal)
    return to_ints(sign | pick(magnitude > 0x7FF0000000000000, spread(int64(0x7E00)), finite))


def put(address: Any, index: Any, bits: Any, zero: Any) -> Any:
    """Stores the bits of an element."""


@overload(put, inline="always")
def _put(address, index, bits, zero):
    if zero == FLOAT32:
        return lambda address, index, bits, zero: store(address, index, int32(bits))
    return lambda address, index, bits, zero: store(address, index, uint16(bits))


def value_of(bits: Any, zero: Any) -> Any:
    """Returns the element with the given bits as a float64; infinity becomes the next power of two."""


@overload(value_of, inline="always")
def _value_of(bits, zero):
    if zero == FLOAT32:
        return lambda bits, zero: _bounded(float64(bits_float(int32(bits))), 2.0**128)
    return lambda bits, zero: _bounded(float64(half_to_float(uint16(bits))), 65536.0)


@inner
def _bounded(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


def product_of_pairs(a: Any, b: Any) -> Any:
    """Returns the products of two vectors of elements as float64, which represents them exactly."""


@overload(product_of_pairs, inline="always")
def _product_of_pairs(a, b):
    if a == INTS:
        return lambda a, b: values(a) * values(b)
    return lambda a, b: widened(singles(a) * singles(b))


def _by_format(single: float, half: float) -> Any:
    """Returns a function of an element of either format that returns the constant of that format."""
    kind = typeof(single)

    @intrinsic
    def constant(typing: Any, zero: Any) -> tuple[Any, Any]:
        number = single if zero == FLOAT32 else half
        return kind(zero), lambda context, builder, signature, args: context.get_constant(kind, number)

    return constant


factors_in_range = _by_format(6, 8)
"""An even number of factors whose product with a number in [1, 2] always stays in float64's range."""

log_tolerance = _by_format(0.999 * 2.0**-25, 0.999 * 2.0**-12)
"""An error bound of a sum, relative to its logarithm, slightly below half an ULP of the logarithm."""

infinity_bits = _by_format(0x7F800000, 0x7C00)
"""The bits of infinity."""

least_kept = _by_format(2.0**-150 * (1 + 2.0**-52), 2.0**-25 * (1 + 2.0**-52))
"""The least float64 that does not round to zero."""
