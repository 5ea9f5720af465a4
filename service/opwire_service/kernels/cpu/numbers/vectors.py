"""Vectors of sixteen numbers as a numba type, with which kernels control what stays in registers.

LLVM maps them to the processor's registers. Arithmetic uses Python's operators; the other operand is a vector of the
same type or a scalar, which is broadcast. Tensor elements are aligned to their own size only, numbers in scratch
buffers to 8 bytes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model

from ..jit.element import ADDRESS, FLOAT32, FLOAT64, HALF, INT32, INT64, intrinsic, metadata_of_written
from .lanes import Lanes

WIDTH = 16
"""Lanes in a vector: the number of FLOAT32 in a cache line."""

Vector: TypeAlias = Any
"""Type of a vector for mypy; numba infers the actual type."""

Code = Callable[..., Any]


class VectorType(types.Type):
    """numba's type of a vector."""

    def __init__(self, element: Any) -> None:
        self.element = element
        super().__init__(name=f"vector({element})")


@register_model(VectorType)
class _Model(models.PrimitiveModel):
    """LLVM representation of a vector."""

    def __init__(self, manager: Any, vector: VectorType) -> None:
        numbers = ir.VectorType(manager.lookup(vector.element).get_value_type(), WIDTH)
        super().__init__(manager, vector, numbers)  # type: ignore[no-untyped-call] # numba is untyped


BOOLEANS, INTS, LONGS, HALVES, SINGLES, DOUBLES = (
    VectorType(element) for element in (types.boolean, INT32, INT64, HALF, FLOAT32, FLOAT64)
)


def _spread(builder: Any, number: Any) -> Any:
    return number if isinstance(number.type, ir.VectorType) else Lanes(builder, WIDTH).spread(number)


def _operator(function: Any, of_floats: str | None, of_integers: str | None, comparison: str = "") -> None:
    """Defines an operator on vectors, by the names of llvmlite's builder methods."""

    def build(builder: Any, left: Any, right: Any) -> Any:
        left, right = _spread(builder, left), _spread(builder, right)
        is_float = isinstance(left.type.element, ir.FloatType | ir.DoubleType)
        method = getattr(builder, str(of_floats if is_float else of_integers))
        return method(comparison, left, right) if comparison else method(left, right)

    class VectorTemplate(AbstractTemplate):
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            vector = next((x for x in args if isinstance(x, VectorType)), None)
            if vector is None or len(args) != 2:
                return None
            taken = [x if isinstance(x, VectorType) else vector.element for x in args]
            return signature(BOOLEANS if comparison else vector, *taken)  # type: ignore[no-untyped-call] # numba is untyped

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return build(builder, *args)

    infer_global(function)(VectorTemplate)  # type: ignore[no-untyped-call] # numba is untyped
    for operands in ((VectorType, VectorType), (VectorType, types.Number), (types.Number, VectorType)):
        lower_builtin(function, *operands)(lower)  # type: ignore[no-untyped-call] # numba is untyped


_operator(operator.add, "fadd", "add")
_operator(operator.sub, "fsub", "sub")
_operator(operator.mul, "fmul", None)
_operator(operator.truediv, "fdiv", None)
_operator(operator.and_, None, "and_")
_operator(operator.or_, None, "or_")
_operator(operator.xor, None, "xor")
_operator(operator.lshift, None, "shl")
_operator(operator.rshift, None, "ashr")
_operator(operator.lt, "fcmp_ordered", "icmp_signed", "<")
_operator(operator.gt, "fcmp_ordered", "icmp_signed", ">")
_operator(operator.ne, "fcmp_unordered", "icmp_signed", "!=")


@intrinsic
def spread(typing: Any, number: Any) -> tuple[Any, Code]:
    """Broadcasts a number to a vector."""
    return VectorType(number)(number), lambda context, builder, signature, args: _spread(builder, args[0])


@intrinsic
def places(typing: Any) -> tuple[Any, Code]:
    """Returns a vector of the lane numbers, from 0 on."""
    return LONGS(), lambda context, builder, signature, args: ir.Constant(
        ir.VectorType(ir.IntType(64), WIDTH), list(range(WIDTH))
    )


@intrinsic
def elements(typing: Any, address: Any, step: Any, zero: Any) -> tuple[Any, Code]:
    """Loads the bits of sixteen input elements with a stride of ``step`` elements; None means contiguous."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = ir.IntType(zero.bitwidth)
        written = metadata_of_written(builder)

        def loaded(kind: Any, place: Any) -> Any:
            value = builder.load(builder.inttoptr(place, kind.as_pointer()), align=zero.bitwidth // 8)
            value.set_metadata("noalias", written)
            return value

        if isinstance(step, types.NoneType):
            return loaded(ir.VectorType(bits, WIDTH), args[0])
        vector = ir.Constant(ir.VectorType(bits, WIDTH), ir.Undefined)
        place, stride = args[0], builder.mul(args[1], ir.Constant(args[1].type, zero.bitwidth // 8))
        for i in range(WIDTH):
            vector = builder.insert_element(vector, loaded(bits, place), ir.Constant(ir.IntType(32), i))
            place = builder.add(place, stride)
        return vector

    kept_step = step if isinstance(step, types.NoneType) else ADDRESS
    return VectorType({32: INT32, 16: HALF}[zero.bitwidth])(ADDRESS, kept_step, zero), code


@intrinsic
def signed_ints(typing: Any, address: Any, index: Any, zero: Any) -> tuple[Any, Code]:
    """Loads sixteen contiguous input elements as signed 32-bit integers; wider ones are truncated."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = ir.IntType(zero.bitwidth)
        first = builder.gep(builder.inttoptr(args[0], element.as_pointer()), [args[1]])
        kind, ints = ir.VectorType(element, WIDTH), ir.VectorType(ir.IntType(32), WIDTH)
        loaded = builder.load(builder.bitcast(first, kind.as_pointer()), align=zero.bitwidth // 8)
        loaded.set_metadata("noalias", metadata_of_written(builder))
        if zero.bitwidth == 32:
            return loaded
        return builder.sext(loaded, ints) if zero.bitwidth < 32 else builder.trunc(loaded, ints)

    return INTS(ADDRESS, ADDRESS, zero), code


@intrinsic
def load_vector(typing: Any, address: Any, index: Any, zero: Any) -> tuple[Any, Code]:
    """Loads sixteen numbers from a scratch buffer, from index ``index`` on."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = context.get_value_type(zero)
        first = builder.gep(builder.inttoptr(args[0], element.as_pointer()), [args[1]])
        return builder.load(
            builder.bitcast(first, ir.VectorType(element, WIDTH).as_pointer()), align=zero.bitwidth // 8
        )

    return VectorType(zero)(ADDRESS, ADDRESS, zero), code


@intrinsic
def load_neighbors(typing: Any, address: Any, places: Any, index: Any, origin: Any) -> tuple[Any, Code]:
    """Gathers sixteen float64 from a scratch buffer, and the one after each of them.

    Their positions are int64 read from index ``index`` of ``places`` on; ``origin`` is the position of the buffer's
    first float64.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        line, numbers = (
            builder.inttoptr(x, e.as_pointer()) for x, e in zip(args, (ir.DoubleType(), index_type), strict=False)
        )
        parts = []
        for i in range(WIDTH):
            place = builder.load(builder.gep(numbers, [builder.add(args[2], ir.Constant(index_type, i))]))
            first = builder.gep(line, [builder.sub(place, args[3])])
            parts.append(builder.load(builder.bitcast(first, pair.as_pointer()), align=8))
        while len(parts) > 1:
            parts = [_joined(builder, *two) for two in zip(parts[::2], parts[1::2], strict=True)]
        found = [
            builder.shuffle_vector(parts[0], parts[0], ir.Constant(chosen, list(range(first, 2 * WIDTH, 2))))
            for first in range(2)
        ]
        return context.make_tuple(builder, signature.return_type, found)

    index_type, pair = ir.IntType(64), ir.VectorType(ir.DoubleType(), 2)
    chosen = ir.VectorType(ir.IntType(32), WIDTH)
    both = types.UniTuple(DOUBLES, 2)  # type: ignore[no-untyped-call] # numba is untyped
    return both(ADDRESS, ADDRESS, ADDRESS, ADDRESS), code


def _joined(builder: Any, a: Any, b: Any) -> Any:
    """Concatenates two vectors."""
    places = ir.VectorType(ir.IntType(32), 2 * a.type.count)
    return builder.shuffle_vector(a, b, ir.Constant(places, list(range(places.count))))


@intrinsic
def store_vector(typing: Any, address: Any, index: Any, vector: Any) -> tuple[Any, Code]:
    """Stores sixteen numbers to a scratch buffer, the counterpart of ``load_vector``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = args[2].type
        first = builder.gep(builder.inttoptr(args[0], kind.element.as_pointer()), [args[1]])
        stored = builder.store(args[2], builder.bitcast(first, kind.as_pointer()), align=vector.element.bitwidth // 8)
        stored.set_metadata("alias.scope", metadata_of_written(builder))
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS, vector), code


@intrinsic
def put_vector(typing: Any, address: Any, index: Any, bits: Any, zero: Any) -> tuple[Any, Code]:
    """Stores the lowest bits of sixteen integers as contiguous output elements."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = ir.IntType(zero.bitwidth)
        vector = ir.VectorType(element, WIDTH)
        first = builder.gep(builder.inttoptr(args[0], element.as_pointer()), [args[1]])
        cut = builder.trunc(args[2], vector) if zero.bitwidth < 32 else args[2]
        stored = builder.store(cut, builder.bitcast(first, vector.as_pointer()), align=zero.bitwidth // 8)
        stored.set_metadata("alias.scope", metadata_of_written(builder))
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS, INTS, zero), code


@intrinsic
def singles(typing: Any, bits: Any) -> tuple[Any, Code]:
    """Converts the bits of elements to FLOAT32."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        single = ir.VectorType(ir.FloatType(), WIDTH)
        if bits == INTS:
            return builder.bitcast(args[0], single)
        return builder.fpext(builder.bitcast(args[0], ir.VectorType(ir.HalfType(), WIDTH)), single)

    return SINGLES(bits), code


@intrinsic
def magnitudes(typing: Any, bits: Any) -> tuple[Any, Code]:
    """Returns the bits of the elements' magnitudes as 32-bit integers, which order as the magnitudes do."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        cleared = builder.and_(args[0], ir.Constant(args[0].type, [(1 << (bits.element.bitwidth - 1)) - 1] * WIDTH))
        return cleared if bits == INTS else builder.zext(cleared, ir.VectorType(ir.IntType(32), WIDTH))

    return INTS(bits), code


def _conversion(source: Any, target: Any, how: str) -> Any:
    @intrinsic
    def convert(typing: Any, vector: Any) -> tuple[Any, Code]:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, how)(args[0], context.get_value_type(target))

        return target(source), code

    return convert


widened = _conversion(SINGLES, DOUBLES, "fpext")
narrowed = _conversion(DOUBLES, SINGLES, "fptrunc")
single_bits = _conversion(SINGLES, INTS, "bitcast")
longs_bits = _conversion(DOUBLES, LONGS, "bitcast")
bits_doubles = _conversion(LONGS, DOUBLES, "bitcast")
to_ints = _conversion(LONGS, INTS, "trunc")
to_longs = _conversion(INTS, LONGS, "sext")
to_doubles = _conversion(LONGS, DOUBLES, "sitofp")


@intrinsic
def fused_vectors(typing: Any, a: Any, b: Any, c: Any) -> tuple[Any, Code]:
    """Fused multiply-add: ``a*b + c``, rounded once; ``b`` and ``c`` may be scalars to broadcast."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return Lanes(builder, WIDTH).fused(*(_spread(builder, x) for x in args))

    return a(a, *(x if isinstance(x, VectorType) else a.element for x in (b, c))), code


@intrinsic
def roots(typing: Any, vector: Any) -> tuple[Any, Code]:
    """Returns square roots, correctly rounded."""
    return vector(vector), lambda context, builder, signature, args: Lanes(builder, WIDTH).root(*args)


@intrinsic
def pick(typing: Any, condition: Any, yes: Any, no: Any) -> tuple[Any, Code]:
    """Selects per lane: ``yes`` where the condition holds, else ``no``."""
    return yes(BOOLEANS, yes, yes), lambda context, builder, signature, args: builder.select(*args)


@intrinsic
def any_of(typing: Any, condition: Any) -> tuple[Any, Code]:
    """Whether a condition holds in any lane."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], ir.IntType(WIDTH))
        return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    return types.boolean(BOOLEANS), code


@intrinsic
def mask_of(typing: Any, condition: Any) -> tuple[Any, Code]:
    """Returns the lanes where a condition holds as an integer bit mask, lane 0 in the lowest bit."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(builder.bitcast(args[0], ir.IntType(WIDTH)), ir.IntType(64))

    return INT64(BOOLEANS), code


@intrinsic
def lowest_of(typing: Any, mask: Any) -> tuple[Any, Code]:
    """Returns the index of the lowest set bit of a nonzero integer."""
    return INT64(INT64), lambda context, builder, signature, args: builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))


def _folding(combine: Callable[[Any, Any, Any], Any]) -> Any:
    """Returns an intrinsic that reduces a vector to one number by repeatedly combining its halves."""

    @intrinsic
    def fold(typing: Any, vector: Any) -> tuple[Any, Code]:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value, half = args[0], WIDTH // 2
            while half:
                places = ir.VectorType(ir.IntType(32), half)
                parts = [
                    builder.shuffle_vector(value, value, ir.Constant(places, list(range(first, first + half))))
                    for first in (0, half)
                ]
                value = combine(builder, *parts)
                half //= 2
            return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

        return vector.element(vector), code

    return fold


total_of = _folding(lambda builder, a, b: builder.fadd(a, b))
sum_of = _folding(lambda builder, a, b: builder.add(a, b))
product_of = _folding(lambda builder, a, b: builder.fmul(a, b))
greatest_of = _folding(lambda builder, a, b: builder.select(builder.icmp_signed(">", a, b), a, b))
least_of = _folding(lambda builder, a, b: builder.select(builder.icmp_signed("<", a, b), a, b))


@intrinsic
def number(typing: Any, vector: Any, place: Any) -> tuple[Any, Code]:
    """Extracts a lane."""
    return vector.element(vector, ADDRESS), lambda context, builder, signature, args: builder.extract_element(*args)


@intrinsic
def absolutes(typing: Any, vector: Any) -> tuple[Any, Code]:
    """Returns the magnitudes of float64."""
    return DOUBLES(DOUBLES), lambda context, builder, signature, args: Lanes(builder, WIDTH).absolute(*args)
